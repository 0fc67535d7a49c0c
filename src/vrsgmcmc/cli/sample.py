"""`vrsgmcmc sample` and `vrsgmcmc resume`: from a table to a posterior, predictions and a report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from vrsgmcmc import reports, run

from . import jobs
from .options import command_line, read_config, read_run, say
from .places import check_writable
from .terminal import safe_name

DIVERGED, NOT_GOOD = 3, 4
MOST_ROWS, LONGEST_NAME = 40, 60  # of the summary on the terminal
BASELINE = "baseline_"  # before the name of a score of the prediction that uses no column


def sample(words: list[str]) -> int:
    config = read_config(
        "sample",
        "Sample the posterior of a model on your own data, in a directory of its own.\n"
        "The same command resumes a run that was interrupted, and loads one that is finished.",
        words,
    )
    design = jobs.read(config)
    out = config.out or Path(f"{config.data.name.partition('.')[0] or config.data.stem}-run")
    check_writable(out)
    function = jobs.load_own(config.model)
    job = jobs.find(out, config, design)
    if job is not None:
        return run_job(job, job.problem(function))
    problem = jobs.build_problem(config, design, function)
    say_what_was_done(design, problem)
    choice = jobs.choose(config, problem)
    jobs.check_settings(config.seed, problem, choice)
    job = jobs.save(out, config, design, choice, command_line("sample", words))
    try:
        return run_job(job, problem)
    except ValueError:
        jobs.discard(job)
        raise


def say_what_was_done(design: Any, problem: jobs.Problem) -> None:
    for note in problem.notes:
        say(f"- {note}")
    test = 0 if design.test is None else len(design.test.y)
    say(f"{len(design.y)} rows to train, {test} to test; {problem.dimension:,} parameters")


def resume(words: list[str]) -> int:
    description = "Go on with a run where its last commit stands; every bit as unbroken."
    return run_job(*open_job(read_run("resume", description, words)))


def open_job(options: dict[str, Any]) -> tuple[jobs.Job, jobs.Problem]:
    """The job in a directory, and its problem."""
    path, model = options["run"], options.get("model")
    if not jobs.is_job(path) and (path / "commit.json").is_file():
        raise run.store.RunError(
            f"{path} is a run of the library, and its model is in your program: run that program again "
            "with run_dir, which goes on where the run stands."
        )
    job = jobs.load(path)
    if model is not None and not job.needs_code:
        raise ValueError(f"--model: the model of {path} is {job.config.model}. Leave --model out.")
    return job, job.problem(None if model is None else jobs.load_function(model))


def run_job(job: jobs.Job, problem: jobs.Problem) -> int:
    """Run a job to its end; after a signal, say how to go on."""
    resume = shlex.join(["vrsgmcmc", "resume", str(job.path)])
    resume += " --model FILE.py:FUNCTION" * job.needs_code
    try:
        return run_and_report(job, problem, resume)
    except (KeyboardInterrupt, SystemExit) as error:
        error.add_note(f"What was committed is kept. Go on with: {resume}")
        raise


def run_and_report(job: jobs.Job, problem: jobs.Problem, resume: str) -> int:
    """Run a job to its end, and write its predictions, scores and report."""
    if job.choice.automatic and not job.chains.exists():
        say("choosing a sampler ...")
    result = jobs.run(job, problem)
    if result.interrupted:
        total = job.choice.settings.get("num_steps")
        say(
            f"vrsgmcmc: interrupted at step {result.num_steps:,}{f' of {total:,}' if total else ''}; "
            f"everything is committed. Go on with: {resume}"
        )
        return 128 + (result.signal or 2)
    say("looking at the result ...")
    summary = reports.summarise(result, problem.names)
    if summary is not None:
        result.accuracy()  # measured once, and kept in the run directory
    findings = jobs.examine(job, problem, result)
    files = jobs.write(job, problem, result, findings)
    if findings.answer is not None:
        print(f"{findings.answer.question} {reports.summarise_answer(findings.answer)}")
    if findings.accuracy is not None:
        print(findings.accuracy)
    print_summary(summary, findings.to_json())
    if result.decision is not None:
        print(result.decision)
    if findings.audit is not None:
        print(findings.audit.verdict)
    print(f"wrote {', '.join(files)} to {job.path}")
    if result.diverged.all():
        say(f"vrsgmcmc: every chain became non-finite. {result.divergences[0]}")
        return DIVERGED
    return 0 if findings.accuracy is None or findings.accuracy.good else NOT_GOOD


def print_summary(summary: reports.Summary | None, scores: dict[str, float]) -> None:
    """Print a table of the parameters, and the scores on the test rows beside the baseline's."""
    if summary is not None:
        columns = {"mean": ".4g", "sd": ".4g", "ess_bulk": ",.0f", "r_hat": ".3f"}
        rows = [["", "mean", "sd", "ESS", "R-hat"]]
        for j, name in enumerate(summary.names[:MOST_ROWS]):
            numbers = [format(summary.numbers[c][j], f) for c, f in columns.items()]
            rows.append([safe_name(name)[:LONGEST_NAME], *numbers])
        first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
        for name, *cells in rows:
            numbers = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
            print("  ".join([name.ljust(first), *numbers]))
        if summary.total > len(rows) - 1:
            print(f"... {len(rows) - 1} of {summary.total:,} parameters; report.html has more")
    for name, value in scores.items():
        if not name.startswith(BASELINE):
            simple = scores.get(f"{BASELINE}{name}")
            beside = "" if simple is None else f" (baseline {simple:.4g})"
            print(f"{name.replace('_', ' ')}: {value:.4g}{beside}")
