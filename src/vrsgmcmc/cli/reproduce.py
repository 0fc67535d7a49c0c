"""`vrsgmcmc reproduce`: an experiment of the paper, from the data to the report."""

from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

from vrsgmcmc import experiments, reports
from vrsgmcmc.core import did_you_mean
from vrsgmcmc.experiments import EXPERIMENTS, Outcome, Settings

from .options import command_line
from .parser import Parser

ALL = "all"


def reproduce(words: list[str]) -> int:
    options = build_parser().read(words)
    names = options.pop("names", [])
    if options.pop("list", False):
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
    settings = Settings(**{**options, "methods": tuple(options.get("methods", ()))})
    names, combined = list(dict.fromkeys(names)), None
    if ALL in names:
        names, combined = list(EXPERIMENTS), settings.out or Path("paper-report")
        settings = replace(settings, out=combined)
    if settings.methods and len(names) > 1:
        raise ValueError(
            f"--methods {' '.join(settings.methods)}: experiments have methods of their own. Name one "
            f"experiment, got {', '.join(names)}."
        )
    if settings.out is None:
        folders = {name: Path(f"{name}-report") for name in names}
    else:
        folders = {n: settings.out / n if len(names) > 1 else settings.out for n in names}
    every_folder = folders if combined is None else {ALL: combined} | folders
    with ExitStack() as folder_claims:
        for name, folder in every_folder.items():
            try:
                folder_claims.enter_context(experiments.claim(folder, name, settings))
            except OSError as error:
                raise ValueError(f"--out {folder}: {error.strerror or error}") from error
        finished = find_finished(every_folder, together=combined is not None)
        for name in [name for name in folders if name in finished]:
            show_finished(name, folders[name], finished[name])
        # Facts are read once, before the runs: a checkout may change while they last.
        origin = experiments.facts(command_line("reproduce", words))
        outcomes = {
            name: run_experiment(name, folder, settings, origin)
            for name, folder in folders.items()
            if name not in finished
        }
        if combined is not None and outcomes:
            parts = {name: outcome.report for name, outcome in outcomes.items()}
            curves = {name: outcome.tables["curves"] for name, outcome in outcomes.items()}
            report = experiments.page("The paper's experiments", parts)
            claims = [*report.claims, *experiments.wider_gap(curves)]
            record = {"claims": [claim._asdict() for claim in claims]}
            experiments.save_record(combined, ALL, origin, settings, record)
            reports.write(report._replace(claims=claims, facts=origin), combined)
        if combined is not None:
            print(f"\nThe report of everything is {combined / 'report.html'}")
        for folder in folders.values():
            experiments.Checkpoints(folder).delete()
    return 0


def build_parser() -> Parser:
    parser = Parser(
        "reproduce",
        "Run experiments of the paper. Each writes a folder with report.html, figures, tables (CSV)\n"
        "and run.json: the settings, versions, seeds and numbers.",
        epilog="\n".join(["experiments:", *(f"  {name}: {s}" for name, s in EXPERIMENTS.items())]),
    )
    add, sizes = parser.add_argument, get_args(get_type_hints(Settings)["size"])
    own_number = "of every method (default: the size's own number)"
    add("names", nargs="*", metavar="ID", help="experiments, or all; --list shows them")
    add("--list", action="store_true", help="show the experiments and exit")
    add(
        "--size",
        choices=sizes,
        help=f"smoke: seconds; small: minutes; paper: the full curves (default {Settings.size})",
    )
    add("--seeds", type=whole, metavar="K", help=f"repetitions {own_number}")
    add("--passes", type=number, metavar="P", help=f"passes over the data {own_number}")
    add(
        "--methods", nargs="+", metavar="WORD", help="only methods with one of these in their names"
    )
    parser.add_folder(
        "--data-dir", "of data sets; else VRSGMCMC_DATA, the user's cache, or a download", "D"
    )
    parser.add_folder(
        "--out", "of the report, with a folder for each when there are several (default ID-report)"
    )
    return parser


def whole(text: str) -> int:
    return int(text)


def number(text: str) -> float:
    return float(text)


whole.__name__ = "whole number"  # argparse: "invalid whole number value: 'many'"


def find_finished(folders: dict[str, Path], together: bool) -> dict[str, str]:
    """Experiment -> the version that finished it; all or none if one page needs every outcome."""
    versions = {name: experiments.finished_by(folder) for name, folder in folders.items()}
    finished = {name: version for name, version in versions.items() if version is not None}
    return {} if together and len(finished) < len(folders) else finished


def show_finished(name: str, folder: Path, version: str) -> None:
    print(f"{name} was finished earlier, by vrsgmcmc {version}. To run it again, remove {folder}.")
    print(f"The report is {folder / 'report.html'}")


def run_experiment(name: str, folder: Path, settings: Settings, origin: dict[str, Any]) -> Outcome:
    """Run one experiment and write its tables, record and report."""
    module = import_module(f"vrsgmcmc.experiments.{name.replace('-', '_')}")
    settings, checkpoints = replace(settings, out=folder), experiments.Checkpoints(folder)
    try:
        outcome = module.run(settings, checkpoints)
    except (KeyboardInterrupt, SystemExit) as error:
        again = "goes on where this one stopped" if checkpoints.exist else "starts it again"
        error.add_note(f"The same command {again}: {origin['command']}")
        raise
    for table, rows in outcome.tables.items():
        experiments.save_csv(folder / f"{table}.csv", rows)
    claims = [claim._asdict() for claim in outcome.report.claims]
    experiments.save_record(folder, name, origin, settings, {**outcome.record, "claims": claims})
    reports.write(outcome.report._replace(facts={**origin, **outcome.report.facts}), folder)
    print(outcome.text)
    print(f"\nThe report is {folder / 'report.html'}")
    return outcome
