"""`vrsgmcmc sample` and `vrsgmcmc resume`: from a table to a posterior, predictions and a report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrsgmcmc.cli.options import command_of, names_code, out_of, read_config, run_parser, say
from vrsgmcmc.cli.parser import Parser

if TYPE_CHECKING:
    from vrsgmcmc.cli.jobs import Findings, Job, Problem
    from vrsgmcmc.run import Result

DIVERGED = 3
MOST_ROWS = 20  # of the summary on the terminal


def sample(words: list[str]) -> int:
    parser = run_parser(
        "sample",
        "Sample the posterior of a model on your own data, in a directory of its own.\n"
        "The same command resumes a run that was interrupted, and loads one that is finished.",
    )
    config = read_config(parser.read(words))

    from vrsgmcmc.cli import jobs
    from vrsgmcmc.cli.jobs.problem import prepare

    function = jobs.load_function(config.model) if names_code(config.model) else None
    out = out_of(config)
    ready = prepare(config)
    job = jobs.create(out, config, ready)
    if job is None:
        problem = jobs.make(config, ready, function)
        say(f"{len(ready.train[1])} rows to train, {len(ready.test[1])} to test; "
            f"{problem.dimension:,} parameters")  # fmt: skip
        for note in (*ready.notes, *problem.notes):
            say(note)
        choice = jobs.choose(config, problem, say)
        for note in choice.notes:
            say(note)
        jobs.rehearse(config.seed, problem, choice)
        job = jobs.save(out, config, ready, choice, command_of("sample", words))
    else:
        problem = job.problem(function)
    return go(job, problem, function is not None)


def resume(words: list[str]) -> int:
    parser = Parser(
        "resume", "Go on with a run where its last commit stands; every bit as unbroken."
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="the directory of a run")
    add_model(parser)
    given = parser.read(words)

    job, problem = open_job(given)
    return go(job, problem, "model" in given)


def add_model(parser: Parser) -> None:
    parser.add_argument(
        "--model", metavar="FILE.py:FUNCTION", help="the model, where it is your own: given again"
    )


def open_job(given: dict[str, Any]) -> tuple[Job, Problem]:
    """The job in a directory, and its problem."""
    from vrsgmcmc.cli import jobs
    from vrsgmcmc.run import store

    path = given["run"]
    if not jobs.is_job(path) and (path / "commit.json").is_file():
        raise store.RunError(
            f"{path} is a run of the library, and its model is in your program: run that program again "
            "with run_dir, which goes on where the run stands."
        )
    job = jobs.load(path)
    if "model" in given and not job.needs_code:
        raise ValueError(f"--model: the model of {path} is {job.config.model}. Leave --model out.")
    function = jobs.load_function(given["model"]) if "model" in given else None
    return job, job.problem(function)


def go(job: Job, problem: Problem, own: bool) -> int:
    """Run a job to its end, look at what came out, and write it."""
    from vrsgmcmc.cli import jobs

    again = shlex.join(["vrsgmcmc", "resume", str(job.path)]) + " --model FILE.py:FUNCTION" * own
    try:
        result = jobs.run(job, problem)
    except (KeyboardInterrupt, SystemExit) as stopped:
        stopped.add_note(f"What was committed is kept. Go on with: {again}")
        raise
    if result.interrupted:
        say(
            f"vrsgmcmc: interrupted at step {result.num_steps:,} of "
            f"{job.choice.settings['num_steps']:,}; everything is committed. Go on with: {again}"
        )
        return 128 + (result.signal or 2)
    say("looking at the result ...")
    found = jobs.examine(job, problem, result)
    files = jobs.write(job, problem, result, found)
    tell(job, problem, result, found)
    print(f"wrote {', '.join(files)} to {job.path}")
    if result.diverged.all():
        say(f"vrsgmcmc: every chain became non-finite. {result.divergences[0]}")
        return DIVERGED
    return 0


def tell(job: Job, problem: Problem, result: Result, found: Findings) -> None:
    """The result on the terminal."""
    from vrsgmcmc.reports import summarise

    summary = summarise(result, problem.names)
    if summary is not None:
        print(table(summary))
    for name, value in found.scores.items():
        print(f"{name.replace('_', ' ')}: {value:.4g}")
    if found.audit is not None:
        print(found.audit.verdict)


def table(summary: Any) -> str:
    """The summary of a run as lines of text."""
    columns = {"mean": ".4g", "sd": ".4g", "ess_bulk": ",.0f", "r_hat": ".3f"}
    rows = [["", "mean", "sd", "ESS", "R-hat"]]
    for j, name in enumerate(summary.names[:MOST_ROWS]):
        shown = name if name.isprintable() else ascii(name)
        rows.append([shown[:40], *(format(summary.numbers[c][j], f) for c, f in columns.items())])
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = [
        "  ".join([name.ljust(first), *(c.rjust(w) for c, w in zip(cells, widths, strict=True))])
        for name, *cells in rows
    ]
    if summary.total > len(rows) - 1:
        lines.append(f"... {len(rows) - 1} of {summary.total:,} parameters")
    return "\n".join(lines)
