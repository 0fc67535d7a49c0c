"""`verify`, `summary`, `report` and `audit`: commands that read a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vrsgmcmc import reports, run

from . import jobs
from .options import add_model, command_line, read_run, say
from .parser import Parser
from .sample import open_job, print_summary

DAMAGED = 1


def verify(words: list[str]) -> int:
    description = "Check every file of a run against the sha256 that was committed."
    path = read_run("verify", description, words, with_model=False)["run"]
    commits = [path / name for name in ("commit.json", "commit.previous.json")]
    if not jobs.is_job(path) and not any(file.exists() for file in commits):
        raise run.store.RunError(f"{path} is not a run directory. Name one that `sample` has made.")
    problems = jobs.verify(path)
    for problem in problems:
        print(problem)
    unchecked = jobs.outputs.without_sum(path)
    if unchecked:
        print(f"not checked, because no sum of them was written: {', '.join(unchecked)}")
    if not problems:
        if jobs.is_job(path) and not (path / "chains").exists():
            print("nothing is sampled yet")
        which = "every other file" if unchecked else "every file"
        print(f"{path}: {which} is as it was committed.")
    return DAMAGED if problems else 0


def summary(words: list[str]) -> int:
    description = "Means, standard deviations, ESS and R-hat of a run, as far as it is."
    path = read_run("summary", description, words, with_model=False)["run"]
    stored_run = jobs.stored_runs.open_run(path)
    for note in stored_run.notes:
        say(f"vrsgmcmc: {note}")
    result, table = stored_run.result, stored_run.summary
    print(
        f"{stored_run.sampler}: {stored_run.directory.status}; {result.num_steps:,} steps, "
        f"{result.data_passes:.1f} data passes, {result.seconds:.1f} s"
    )
    for divergence in result.divergences:
        print(divergence)
    if table is None:
        print("There are too few draws to summarise.")
    print_summary(table, stored_run.scores)
    if stored_run.accuracy is not None:
        print(stored_run.accuracy)
    return 0


def report(words: list[str]) -> int:
    parser = Parser("report", "Write the report of a run again, or compare several runs.")
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="directories of runs")
    parser.add_folder("--out", "(default: the run's own; comparison)")
    add_model(parser)
    options = parser.read(words)
    paths, command = options.pop("runs"), command_line("report", words)
    if len(paths) == 1 and jobs.is_job(paths[0]) and "out" not in options:
        job, problem, result = load_finished({**options, "run": paths[0]})
        jobs.write(job, problem, result, jobs.examine(job, problem, result))
        print(f"The report is {job.path / 'report.html'}")
        return 0
    if "model" in options:
        raise ValueError("--model is for the report of one run, in its own directory.")
    runs = [jobs.stored_runs.open_run(path) for path in paths]
    if len(runs) == 1:
        default, page = paths[0], jobs.stored_runs.report(runs[0], command)
    else:
        default, page = Path("comparison"), jobs.stored_runs.compare(runs, command)
    folder = options.get("out", default)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder}: this is a file. Name a folder.")
    files = reports.write(page, folder)
    if (len(runs) == 1 and "out" not in options) or jobs.outputs.has_sums(folder):
        jobs.outputs.write_sums(folder, files)
    print(f"The report is {folder / 'report.html'}")
    return 0


def audit(words: list[str]) -> int:
    description = "Is variance reduction helping this run, and what should be changed?"
    _, _, result = load_finished(read_run("audit", description, words))
    print(jobs.audit_result(result))
    return 0


def load_finished(options: dict[str, Any]) -> tuple[jobs.Job, jobs.Problem, run.Result]:
    """A finished job, its problem and its result; `ValueError` if it is not finished."""
    job, problem = open_job(options)
    status = run.store.open(job.chains).status if job.chains.exists() else "not started"
    if status != "finished":
        raise ValueError(f"{job.path} is {status}. Go on with it first: vrsgmcmc resume {job.path}")
    return job, problem, jobs.run(job, problem, progress=False)
