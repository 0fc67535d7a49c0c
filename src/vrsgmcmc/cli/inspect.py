"""`verify`, `summary`, `report` and `audit`: a run directory, looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrsgmcmc.cli.options import command_of, say
from vrsgmcmc.cli.parser import Parser
from vrsgmcmc.cli.sample import add_model, open_job, table

if TYPE_CHECKING:
    from vrsgmcmc.cli.jobs import Job, Problem
    from vrsgmcmc.run import Result

DAMAGED = 1


def verify(words: list[str]) -> int:
    parser = Parser("verify", "Check every file of a run against the sha256 that was committed.")
    parser.add_argument("run", metavar="RUN", type=Path, help="the directory of a run")
    path = parser.read(words)["run"]

    from vrsgmcmc.cli import jobs
    from vrsgmcmc.run import store

    if not path.is_dir() or not (jobs.is_job(path) or (path / "commit.json").exists()
                                 or (path / "commit.previous.json").exists()):  # fmt: skip
        raise store.RunError(f"{path} is not a run directory. Name one that `sample` has made.")
    problems = jobs.verify(path)
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{path}: every file is as it was committed.")
    return DAMAGED if problems else 0


def summary(words: list[str]) -> int:
    parser = Parser(
        "summary", "Means, standard deviations, ESS and R-hat of a run, as far as it is."
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="the directory of a run")
    path = parser.read(words)["run"]

    from vrsgmcmc.cli.jobs import stored_runs

    seen = stored_runs.look(path)
    for note in seen.run.notes:
        say(f"vrsgmcmc: {note}")
    result, found = seen.result, seen.summary
    print(
        f"{stored_runs.describe(seen)}: {seen.run.status}; {result.num_steps:,} steps, "
        f"{result.data_passes:.1f} data passes, {result.seconds:.1f} s"
    )
    for divergence in result.divergences:
        print(divergence)
    print(table(found) if found is not None else "There are too few draws to summarise.")
    for name, value in seen.scores.items():
        print(f"{name.replace('_', ' ')}: {value:.4g}")
    return 0


def report(words: list[str]) -> int:
    parser = Parser("report", "Write the report of a run again, or compare several runs.")
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="directories of runs")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder (default: the run's own; comparison)"
    )
    add_model(parser)
    given = parser.read(words)
    paths, command = given.pop("runs"), command_of("report", words)

    from vrsgmcmc import reports
    from vrsgmcmc.cli import jobs
    from vrsgmcmc.cli.jobs import stored_runs

    if len(paths) == 1 and jobs.is_job(paths[0]) and "out" not in given:
        job, problem, result = finished({**given, "run": paths[0]})
        found = jobs.examine(job, problem, result)
        jobs.write(job, problem, result, found)
        print(f"The report is {job.path / 'report.html'}")
        return 0
    if "model" in given:
        raise ValueError("--model is for the report of one run, in its own directory.")
    runs = [stored_runs.look(path) for path in paths]
    if len(runs) == 1:
        folder, page = given.get("out", paths[0]), stored_runs.plain_report(runs[0], command)
    else:
        folder, page = given.get("out", Path("comparison")), stored_runs.compare(runs, command)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder}: this is a file. Name a folder.")
    reports.write(page, folder)
    print(f"The report is {folder / 'report.html'}")
    return 0


def audit(words: list[str]) -> int:
    parser = Parser("audit", "Is variance reduction helping this run, and what should be changed?")
    parser.add_argument("run", metavar="RUN", type=Path, help="the directory of a finished run")
    add_model(parser)
    _, _, result = finished(parser.read(words))

    from vrsgmcmc.cli.jobs import audited

    print(audited(result))
    return 0


def finished(given: dict[str, Any]) -> tuple[Job, Problem, Result]:
    """A job that has come to its end: it is read, and never run from here."""
    from vrsgmcmc.cli import jobs
    from vrsgmcmc.run import store

    job, problem = open_job(given)
    status = store.open(job.chains).status if job.chains.exists() else "not started"
    if status != "finished":
        raise ValueError(f"{job.path} is {status}. Go on with it first: vrsgmcmc resume {job.path}")
    return job, problem, jobs.run(job, problem, progress=False)
