"""The command line.

    vrsgmcmc reproduce pima
    vrsgmcmc sample DATA.csv --target COLUMN

A mistake of the user gives a short message and exit code 2, never a traceback. Each command is a
function in a module beside this one, which is imported when the command is called. Rooms load their
names on first use, so JAX, NumPy and pydantic are imported when there is work to do, and help is quick.
"""

import errno
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from vrsgmcmc.core import did_you_mean

from .endings import TERMINATED, HelpRequest, Terminated
from .terminal import safe_name, safe_output, say

COMMANDS = {  # name -> its module, a line of help
    "reproduce": ("reproduce", "run an experiment of the paper; figures, tables and a report"),
    "sample": ("sample", "sample the posterior of a model on your own data"),
    "predict": ("predict", "predict the rows of another table with a finished run"),
    "resume": ("sample", "go on with a run that was interrupted"),
    "check": ("plan", "look at data and settings without sampling: shapes, memory, time"),
    "plan": ("plan", "choose a sampler and its settings for a budget"),
    "summary": ("inspect", "means, standard deviations, ESS and R-hat of a run"),
    "report": ("inspect", "the report of a run, or a comparison of several"),
    "audit": ("inspect", "is variance reduction helping this run?"),
    "verify": ("inspect", "check every file of a run against its checksum"),
    "data": ("data", "list, get and verify the data sets of the experiments"),
}
HELP = """\
usage: vrsgmcmc [-h] [--version] [--debug] COMMAND ...

Stochastic-gradient MCMC with variance reduction.

commands:
{commands}

options:
  -h, --help    show this help and exit; COMMAND --help shows the options of a command
  --version     show the version and exit
  --debug       show the traceback of an error

exit codes: 0 done; 1 failed (a full disk, a bug); 2 bad input; 3 all chains diverged;
4 the draws are not good enough, and are kept; 130 or 143 interrupted by Ctrl-C or SIGTERM,
with everything committed
"""
__all__ = ["console", "main"]

FAILED, MISTAKEN, INTERRUPTED = 1, 2, 130
SAME_COMMAND = "The same command starts it again, or goes on with what was committed."
SECONDS_TO_REPEAT = 0.05  # a signal that came inside a callback


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    words = [word for word in arguments if word != "--debug"]
    try:
        with terminable(), safe_output():
            code = run_command(words)
            sys.stdout.flush()
            return code
    except HelpRequest:
        return 0
    except (KeyboardInterrupt, SystemExit) as error:
        code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else error.code
        if code not in (INTERRUPTED, TERMINATED):
            return fail(f"the model ended the program with exit({code!r}).", MISTAKEN)
        # from the command: what is on disk, how to go on
        notes = getattr(error, "__notes__", []) or [SAME_COMMAND]
        return fail("\n".join(["interrupted.", *notes]), code)
    except BrokenPipeError:  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if "--debug" in arguments:
            say(traceback.format_exc())
        return fail_with(error, words)


def console() -> int:
    """The program: once a command has said how it ended, a further signal ends the process silently."""
    code = main()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    return code


def run_command(words: list[str]) -> int:
    name, *rest = words or ["--help"]
    if name in ("-h", "--help"):
        width = max(map(len, COMMANDS))
        lines = (f"  {each:{width}}  {help}" for each, (_, help) in COMMANDS.items())
        print(HELP.format(commands="\n".join(lines)), end="")
        return 0
    if name == "--version":
        from importlib.metadata import version

        print(f"vrsgmcmc {version('vrsgmcmc')}")
        return 0
    if name not in COMMANDS:
        kind = "option" if name.startswith("-") else "command"
        raise ValueError(
            f"unknown {kind} {name!r}.{did_you_mean(name, COMMANDS)} See vrsgmcmc --help."
        )
    module = import_module(f"vrsgmcmc.cli.{COMMANDS[name][0]}")
    return getattr(module, name)(rest)


def fail_with(error: Exception, words: Sequence[str]) -> int:
    """Print a mistake of the user; anything else is a bug, whose traceback goes to a file."""
    if isinstance(error, OSError):
        text = error.strerror or str(error)
        if error.filename is not None:
            text = f"{safe_name(str(error.filename))}: {error.strerror}"
        return fail(text, FAILED if error.errno == errno.ENOSPC else MISTAKEN)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = bool(frames) and frames[-1].f_globals.get("__name__", "").startswith("vrsgmcmc")
    if ours and isinstance(error, ValueError | TypeError | MemoryError):
        return fail(on_one_line(str(error), words), MISTAKEN)
    with tempfile.NamedTemporaryFile(
        "w", prefix="vrsgmcmc-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write("".join(traceback.format_exception(error)))
    text = str(error).strip().split("\n")[0][:200]
    return fail(
        f"this should not happen: {type(error).__name__}: {text}\nThe traceback is in {file.name}; "
        "please report it.",
        FAILED,
    )


def on_one_line(text: str, words: Sequence[str]) -> str:
    """A message in which no word of the command, such as the name of a file, breaks a line."""
    for word in words:
        text = text.replace(word, safe_name(word)) if "\n" in word.strip() else text
    return text


def fail(message: str, code: int) -> int:
    say(f"vrsgmcmc: {message}")
    return code


@contextmanager
def terminable() -> Iterator[None]:
    """Make SIGTERM end a command as Ctrl-C does, with an exit code of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: Any) -> None:
        raise Terminated

    before, hook = signal.signal(signal.SIGTERM, end), sys.unraisablehook

    def send_again(unraisable: Any) -> None:
        """Python drops what is raised in a callback, such as JAX's for garbage: repeat the signal."""
        numbers = {KeyboardInterrupt: signal.SIGINT, Terminated: signal.SIGTERM}
        if (number := numbers.get(unraisable.exc_type)) is None:
            return hook(unraisable)
        timer = threading.Timer(SECONDS_TO_REPEAT, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()

    sys.unraisablehook = send_again
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.unraisablehook = hook
