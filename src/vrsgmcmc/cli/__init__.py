"""The command line.

    vrsgmcmc reproduce pima
    vrsgmcmc sample DATA.csv --target COLUMN --model logistic

Mistakes are answered in a few words and with exit code 2, never with a traceback. Every command is a
module beside this one, imported when it is named; JAX, NumPy and pydantic wait until there is something
to do, so help comes at once.
"""

from __future__ import annotations

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

from vrsgmcmc.cli.parser import did_you_mean

COMMANDS = {  # name -> its module, what it does
    "reproduce": ("reproduce", "run an experiment of the paper; figures, tables and a report"),
    "sample": ("sample", "sample the posterior of a model on your own data"),
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
130 or 143 interrupted by Ctrl-C or SIGTERM, with everything committed
"""
__all__ = ["main"]

FAILED, MISTAKEN, INTERRUPTED, TERMINATED = 1, 2, 130, 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        with terminable():
            code = command(words)
            sys.stdout.flush()
            return code
    except KeyboardInterrupt as error:
        return fail(interrupted(error), INTERRUPTED)
    except SystemExit as exit:  # help was shown, or SIGTERM came
        code = exit.code if isinstance(exit.code, int) else 0
        return fail(interrupted(exit), code) if code == TERMINATED else code
    except BrokenPipeError:  # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if debug:
            traceback.print_exc()
        return failed(error)


def command(words: list[str]) -> int:
    match words:
        case [] | ["-h" | "--help", *_]:
            width = max(map(len, COMMANDS))
            lines = (f"  {name:{width}}  {told}" for name, (_, told) in COMMANDS.items())
            print(HELP.format(commands="\n".join(lines)), end="")
            return 0
        case ["--version", *_]:
            from importlib.metadata import version

            print(f"vrsgmcmc {version('vrsgmcmc')}")
            return 0
        case [name, *rest] if name in COMMANDS:
            module: Any = import_module(f"vrsgmcmc.cli.{COMMANDS[name][0]}")
            return getattr(module, name)(rest)
        case [word, *_]:
            kind = "option" if word.startswith("-") else "command"
            hint = did_you_mean(word, COMMANDS)
            raise ValueError(f"unknown {kind} {word!r}.{hint} See vrsgmcmc --help.")
    return 0


def failed(error: Exception) -> int:
    """A mistake of the user is told in words; anything else is a bug, and its traceback is kept."""
    full = isinstance(error, OSError) and error.errno is not None and error.errno == 28
    if isinstance(error, OSError):
        return fail(os_error(error), FAILED if full else MISTAKEN)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = bool(frames) and frames[-1].f_globals.get("__name__", "").startswith("vrsgmcmc")
    if ours and isinstance(error, ValueError | TypeError | MemoryError):
        return fail(str(error), MISTAKEN)
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


def os_error(error: OSError) -> str:
    """What the system refused, with the name of the file."""
    if error.filename is None:
        return error.strerror or str(error)
    return f"{error.filename}: {error.strerror}"


def interrupted(error: BaseException) -> str:
    notes = getattr(error, "__notes__", [])  # the command says what is kept, and how to go on
    return "\n".join(["interrupted.", *notes])


def fail(message: str, code: int) -> int:
    print(f"vrsgmcmc: {message}", file=sys.stderr, flush=True)
    return code


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends a command like Ctrl-C does, with a code of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: Any) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
