"""The command line.

    vrsgmcmc reproduce pima

Mistakes are answered in a few words and with exit code 2, never with a traceback. Nothing here imports
JAX or matplotlib before an experiment runs, so help comes at once.
"""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

from vrsgmcmc.experiments import EXPERIMENTS
from vrsgmcmc.experiments.record import claim

HELP = """\
usage: vrsgmcmc [-h] [--version] reproduce ...

Stochastic-gradient MCMC with variance reduction.

commands:
  reproduce NAME           run an experiment; figures and numbers go to a folder
  reproduce NAME --help    show the options of an experiment
  reproduce --list         show the experiments

options:
  -h, --help               show this help and exit
  --version                show the version and exit
"""
COMMANDS = ("reproduce",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 (failed), 2 (mistyped) or 130 (interrupted)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        match words:
            case [] | ["-h" | "--help", *_]:
                print(HELP, end="")
                return 0
            case ["--version", *_]:
                return show_version()
            case ["reproduce", *rest]:
                return reproduce(rest)
            case [word, *_]:
                kind = "option" if word.startswith("-") else "command"
                return unknown(kind, word, COMMANDS, "vrsgmcmc --help")
    except KeyboardInterrupt:
        return fail("interrupted", code=130)
    return 0


def show_version() -> int:
    from importlib.metadata import version

    print(f"vrsgmcmc {version('vrsgmcmc')}")
    return 0


def reproduce(words: list[str]) -> int:
    """Run the experiment named by the first word with the options that follow."""
    match words:
        case ["--list", *_]:
            width = max(map(len, EXPERIMENTS))
            for name, experiment in EXPERIMENTS.items():
                print(f"{name:{width}}  {experiment.summary}")
            return 0
        case [] | ["-h" | "--help", *_]:
            print(HELP, end="")
            return 0 if words else fail("reproduce what? Name an experiment: see --list above.")
        case [name, *_] if name not in EXPERIMENTS:
            return unknown("experiment", name, EXPERIMENTS, "vrsgmcmc reproduce --list")
    name, *options = words
    experiment = EXPERIMENTS[name]

    import tyro

    settings = tyro.cli(
        type(experiment.settings),
        args=options,
        default=experiment.settings,
        prog=f"vrsgmcmc reproduce {name}",
        description=experiment.summary,
    )
    try:
        claim(settings.out, name)
    except OSError as error:
        return fail(f"--out {settings.out}: {error}")
    module = import_module(f"vrsgmcmc.experiments.{name}")
    command = shlex.join(["vrsgmcmc", "reproduce", *words])
    report = module.run(settings, lambda line: print(line, file=sys.stderr, flush=True))
    try:
        files = module.write(report, settings.out, command)
    except OSError as error:
        return fail(f"could not write to {settings.out}: {error}", code=1)
    print(module.table(report))
    print(f"\nwrote {', '.join(files)} to {settings.out}")
    return 0


def unknown(kind: str, word: str, choices: Iterable[str], where: str) -> int:
    near = difflib.get_close_matches(word, choices, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return fail(f"unknown {kind} {word!r}; {hint}See {where}.")


def fail(message: str, code: int = 2) -> int:
    print(f"vrsgmcmc: {message}", file=sys.stderr)
    return code
