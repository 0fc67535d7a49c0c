"""Runs on disk, of a job or of the library, read without their models: summaries and comparisons."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vrsgmcmc import reports
from vrsgmcmc.advice import Accuracy, load_accuracy
from vrsgmcmc.reports import Report, Section, Summary, Table, cell
from vrsgmcmc.run import Result, read_result, store

from . import chains, outputs
from .directory import Job, is_job, load

MOST_PARAMETERS = 50  # in the table of a comparison
MOST_IN_FIGURE = 20  # of a comparison


class StoredRun(NamedTuple):
    """A run directory and what can be read from it."""

    path: Path
    directory: store.Run
    job: Job | None  # None: a run of the library
    result: Result  # without its model: no context, no state

    @property
    def names(self) -> Any:
        """The names of the parameters, if the model is one of the library."""
        job = self.job
        return None if job is None or job.needs_code else job.problem().names

    @property
    def summary(self) -> Summary | None:
        return reports.summarise(self.result, self.names)

    @property
    def scores(self) -> dict[str, float]:
        """The scores of the job on its test rows; empty before there are any."""
        return outputs.read_scores(self.path)[0]

    @property
    def accuracy(self) -> Accuracy | None:
        """How right the run is, if it is finished and that was measured."""
        return None if self.result.interrupted else load_accuracy(self.directory.path)

    @property
    def notes(self) -> list[str]:
        """What is wrong with the directory, with the scores, and with the accuracy."""
        notes = [*self.directory.notes, *outputs.read_scores(self.path)[1]]
        if self.accuracy is None and store.Folder(self.directory.path).exists(store.ACCURACY):
            notes.append(f"{store.ACCURACY} is not as it was written, so it is not shown.")
        return notes

    @property
    def sampler(self) -> str:
        """The names of estimator and integrator."""
        config = self.directory.config
        try:
            return f"{config['estimator']['name']} + {config['integrator']['name']}"
        except (KeyError, TypeError) as error:
            raise store.RunError(f"{self.path}: the commit names no sampler") from error

    @property
    def step_size(self) -> float:
        """The largest of the chains."""
        try:
            return float(np.max(self.directory.config["step_size"]))
        except (KeyError, TypeError, ValueError) as error:
            raise store.RunError(f"{self.path}: the commit has no step size") from error


def open_run(path: Path) -> StoredRun:
    """Open a run; `RunError` when there is none."""
    job = load(path) if is_job(path) else None
    if job is not None and not job.chains.exists():
        raise store.RunError(f"{path}: nothing is sampled yet. Start it: vrsgmcmc resume {path}")
    run = store.open(path if job is None else job.chains)
    if job is not None:
        chains.check(job, run)
    return StoredRun(Path(os.path.abspath(path)), run, job, read_result(run))


def report(run: StoredRun, command: str) -> Report:
    """The report of a run without its model."""
    summary = run.summary
    verdict = reports.convergence(summary) if summary else "There is no summary of draws."
    names = ("versions", "cpu", "system")
    environment = {k: v for k, v in run.directory.environment.items() if k in names}
    return Report(
        title=f"Run {run.path.resolve().name}",
        lead=f"{run.sampler}: {run.directory.status}. {verdict}",
        sections=[
            *reports.divergence_sections(run.result),
            *reports.estimate_sections(run.result, run.names),
            *reports.accuracy_sections(run.accuracy),
            *reports.posterior_sections(run.result, summary),
        ],
        facts={"command": command, **environment, "notes": " ".join(run.notes) or "none"},
    )


def compare(runs: list[StoredRun], command: str) -> Report:
    """Several runs side by side."""
    names = [run.path.resolve().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run.path) for run in runs]
    results, summaries = [run.result for run in runs], [run.summary for run in runs]
    scores = [run.scores for run in runs]
    ess = [s and float(np.min(s.numbers["ess_bulk"])) for s in summaries]
    rate = [e and e / max(r.seconds, 1e-9) for e, r in zip(ess, results, strict=True)]
    columns = [  # title, format, a value for each run
        ("run", "", names),
        ("sampler", "", [run.sampler for run in runs]),
        ("step size", ".3g", [run.step_size for run in runs]),
        ("steps", ",", [result.num_steps for result in results]),
        ("passes", ".1f", [result.data_passes for result in results]),
        ("seconds", ".1f", [result.seconds for result in results]),
        ("least ESS", ",.0f", ess),
        ("ESS per s", ".3g", rate),
        ("R-hat", ".3f", [s and float(np.max(s.numbers["r_hat"])) for s in summaries]),
        ("diverged", "", [int(result.diverged.sum()) for result in results]),
    ]
    for score in dict.fromkeys(name for each in scores for name in each):
        columns.append((score.replace("_", " "), ".4f", [each.get(score) for each in scores]))
    header, formats, values = zip(*columns, strict=True)
    table = Table(header, list(zip(*values, strict=True)), formats)
    statuses = [f"{n}: {run.directory.status}" for n, run in zip(names, runs, strict=True)]
    unfinished = [text for text, r in zip(statuses, results, strict=True) if r.interrupted]
    lead = f"{len(runs)} runs. ESS and R-hat are those of the worst parameter; passes are of one chain."
    return Report(
        "Comparison of runs",
        " ".join([lead, *unfinished]),
        [Section("Side by side", table=table), *compare_parameters(names, summaries)],
        facts={"command": command},
    )


def compare_parameters(names: list[str], summaries: list[Summary | None]) -> Iterator[Section]:
    """Means and standard deviations, if all runs have the same parameters."""
    present = [summary for summary in summaries if summary is not None]
    if len(present) < len(names) or any(each.names != present[0].names for each in present):
        return
    parameters = present[0].names[:MOST_PARAMETERS]
    rows = []
    for j, parameter in enumerate(parameters):
        pairs = [(each.numbers["mean"][j], each.numbers["sd"][j]) for each in present]
        rows.append((parameter, *(f"{cell(m, '.4g')} ± {cell(sd, '.2g')}" for m, sd in pairs)))
    first = parameters[:MOST_IN_FIGURE]
    mean, sd = (np.stack([s.numbers[n][: len(first)] for s in present]) for n in ("mean", "sd"))
    enough_colours = len(names) <= len(reports.COLOURS)
    draw = partial(reports.intervals, first, names, mean, sd) if enough_colours else None
    table = Table(("parameter", *names), rows)
    yield Section("Posterior means ± standard deviations", figure=draw, table=table)
