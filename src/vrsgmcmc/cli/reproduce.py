"""`vrsgmcmc reproduce`: an experiment of the paper, from the data to the report."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

from vrsgmcmc.cli.options import command_of
from vrsgmcmc.cli.parser import Parser, did_you_mean
from vrsgmcmc.experiments import EXPERIMENTS, Outcome, Settings

ALL = "all"


def reproduce(words: list[str]) -> int:
    given = parser().read(words)
    names = given.pop("names", [])
    if given.pop("list", False):
        width = max(map(len, EXPERIMENTS))
        for name, summary in EXPERIMENTS.items():
            print(f"{name:{width}}  {summary}")
        return 0
    if not names:
        raise ValueError(
            f"reproduce what? Name an experiment: {', '.join(EXPERIMENTS)}. "
            "See vrsgmcmc reproduce --list."
        )
    for name in names:
        if name not in (*EXPERIMENTS, ALL):
            hint = did_you_mean(name, (*EXPERIMENTS, ALL))
            raise ValueError(f"unknown experiment {name!r}.{hint} See vrsgmcmc reproduce --list.")
    settings = Settings(**{**given, "methods": tuple(given.get("methods", ()))})
    shared = None
    if ALL in names:
        names, shared = list(EXPERIMENTS), settings.out or Path("paper-report")
        settings = replace(settings, out=shared)
    names = list(dict.fromkeys(names))
    if settings.methods and len(names) > 1:
        raise ValueError(
            f"--methods {' '.join(settings.methods)}: experiments have methods of their own. Name one "
            f"experiment, got {', '.join(names)}."
        )
    folders = {name: folder_of(name, names, settings) for name in names}
    from vrsgmcmc.experiments import Checkpoints, claim, facts

    with ExitStack() as held:
        for name, folder in (folders if shared is None else {ALL: shared} | folders).items():
            try:
                held.enter_context(claim(folder, name, settings))
            except OSError as error:
                raise ValueError(f"--out {folder}: {error.strerror or error}") from error
        made = facts(command_of("reproduce", words))  # a checkout may move on in the meantime
        done = {n: one(n, replace(settings, out=out), out, made) for n, out in folders.items()}
        if shared is not None:
            together(done, shared, settings, made)
        for folder in folders.values():
            Checkpoints(folder).delete()
    return 0


def parser() -> Parser:
    parser = Parser(
        "reproduce",
        "Run experiments of the paper. Each writes a folder with report.html, figures, tables (CSV)\n"
        "and run.json: the settings, versions, seeds and numbers.",
        epilog="experiments:\n"
        + "\n".join(f"  {name}: {summary}" for name, summary in EXPERIMENTS.items()),
    )
    sizes = get_args(get_type_hints(Settings)["size"])
    parser.add_argument(
        "names", nargs="*", metavar="ID", help="experiments, or all; --list shows them"
    )
    parser.add_argument("--list", action="store_true", help="show the experiments and exit")
    parser.add_argument(
        "--size",
        choices=sizes,
        help=f"smoke: seconds; small: minutes; paper: the full curves (default {Settings.size})",
    )
    parser.add_argument(
        "--seeds",
        type=whole,
        metavar="K",
        help="repetitions of every method (default: the size's own number)",
    )
    parser.add_argument(
        "--passes",
        type=number,
        metavar="P",
        help="passes over the data of every method (default: the size's own number)",
    )
    parser.add_argument(
        "--methods", nargs="+", metavar="WORD", help="only methods with one of these in their names"
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="D",
        help="folder of data sets; else VRSGMCMC_DATA, the user's cache, or a download",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder of the report, with a folder for each when there are several (default ID-report)",
    )
    return parser


def whole(text: str) -> int:
    return int(text)


def number(text: str) -> float:
    return float(text)


whole.__name__ = "whole number"  # argparse: "invalid whole number value: 'many'"


def folder_of(name: str, names: list[str], settings: Settings) -> Path:
    if settings.out is None:
        return Path(f"{name}-report")
    return settings.out / name if len(names) > 1 else settings.out


def one(name: str, settings: Settings, folder: Path, made: dict[str, Any]) -> Outcome:
    """Run one experiment and write everything about it."""
    from vrsgmcmc.experiments import Checkpoints, save_csv, save_record

    module = import_module(f"vrsgmcmc.experiments.{name.replace('-', '_')}")
    checkpoints = Checkpoints(folder)
    try:
        outcome = module.run(settings, checkpoints)
    except (KeyboardInterrupt, SystemExit) as error:
        begun = "goes on where this one stopped" if checkpoints.exist else "starts it again"
        error.add_note(f"The same command {begun}: {made['command']}")
        raise

    from vrsgmcmc import reports

    for table, rows in outcome.tables.items():
        save_csv(folder / f"{table}.csv", rows)
    claims = [claim._asdict() for claim in outcome.report.claims]
    save_record(folder, name, made, settings, {**outcome.record, "claims": claims})
    report = outcome.report._replace(facts={**made, **outcome.report.facts})
    reports.write(report, folder)
    print(outcome.text)
    print(f"\nThe report is {folder / 'report.html'}")
    return outcome


def together(
    done: dict[str, Outcome], folder: Path, settings: Settings, made: dict[str, Any]
) -> None:
    """One page about all of them."""
    from vrsgmcmc import reports
    from vrsgmcmc.experiments import page, save_record, wider_gap

    found = page("The paper's experiments", {name: each.report for name, each in done.items()})
    gap = wider_gap({name: each.tables["curves"] for name, each in done.items()})
    found = found._replace(claims=[*found.claims, *gap], facts=made)
    claims = [claim._asdict() for claim in found.claims]
    save_record(folder, ALL, made, settings, {"claims": claims})
    reports.write(found, folder)
    print(f"\nThe report of everything is {folder / 'report.html'}")
