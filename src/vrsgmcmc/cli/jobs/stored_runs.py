"""Runs as they are on disk, of a job or of the library, without their models."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vrsgmcmc.cli.jobs.directory import CHAINS, Job, is_job, load
from vrsgmcmc.reports import (
    COLOURS,
    Report,
    Section,
    Summary,
    Table,
    cell,
    convergence,
    divergence_sections,
    intervals,
    posterior_sections,
    summarise,
)
from vrsgmcmc.run import Divergence, Result, check_memory, store

FINDINGS = "findings.json"
LARGEST_FINDINGS = 2**20
MOST_PARAMETERS = 50  # that a comparison shows,
MOST_DRAWN = 20  # and those in its picture


class Seen(NamedTuple):
    """A run directory, looked at."""

    path: Path
    run: store.Run
    job: Job | None  # None: a run of the library
    result: Result  # without its model: no context, no state
    names: Any

    @property
    def summary(self) -> Summary | None:
        return summarise(self.result, self.names)

    @property
    def scores(self) -> dict[str, float]:
        """What the job found on its test rows, if it has come that far."""
        try:
            with (self.path / FINDINGS).open("rb") as file:
                found = json.loads(file.read(LARGEST_FINDINGS))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {k: v for k, v in found.items() if isinstance(v, float) and math.isfinite(v)}


def look(path: Path) -> Seen:
    """Open a run; `RunError` when there is none."""
    job = load(path) if is_job(path) else None
    chains = path / CHAINS if job is not None else path
    if job is not None and not chains.exists():
        raise store.RunError(f"{path}: nothing is sampled yet. Start it: vrsgmcmc resume {path}")
    run = store.open(chains)
    names = None if job is None or job.needs_code else job.problem().names
    return Seen(path, run, job, result_of(run), names)


def result_of(run: store.Run) -> Result:
    """What is committed, by the names of the parameters."""
    told, config = run.progress, run.config
    needed = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in run.leaves.values())
    check_memory(needed, f"{run.path}: the draws", "Read them in parts with vrsgmcmc.store.open.")
    divergences = tuple(
        Divergence(chain, step, *map(float, rest)) for chain, step, *rest in told["divergences"]
    )
    diverged = np.zeros(config["num_chains"], bool)
    diverged[[one.chain for one in divergences]] = True
    first = config["first_step"] + config["burn_in"]
    return Result(
        draws={name: np.asarray(leaf) for name, leaf in run.leaves.items()} or None,
        averages=run.averages,
        evaluations=told["evaluations"],
        data_passes=told["data_passes"],
        seconds=told["seconds"],
        state=None,  # type: ignore[arg-type]
        diverged=diverged,
        divergences=divergences,
        num_steps=told["steps"],
        interrupted=run.status != "finished",
        settings=config,
        draw_steps=first + config["thin"] * np.arange(1, 1 + run.commit["draws"]),
        context=None,  # type: ignore[arg-type]
        run_dir=run.path,
    )


def plain_report(seen: Seen, command: str) -> Report:
    """The report of a run whose model is not at hand."""
    summary = seen.summary
    told = convergence(summary) if summary else "There is no summary of draws."
    environment = {
        k: v for k, v in seen.run.environment.items() if k in ("versions", "cpu", "system")
    }
    return Report(
        title=f"Run {seen.path.resolve().name}",
        lead=f"{describe(seen)}: {seen.run.status}. {told}",
        sections=[*divergence_sections(seen.result), *posterior_sections(seen.result, summary)],
        facts={"command": command, **environment, "notes": " ".join(seen.run.notes) or "none"},
    )


def describe(seen: Seen) -> str:
    """How a run was sampled, in a few words."""
    config = seen.run.config
    return f"{config['estimator']['name']} + {config['integrator']['name']}"


def compare(runs: list[Seen], command: str) -> Report:
    """Several runs side by side."""
    names = labels([seen.path for seen in runs])
    scores = list(dict.fromkeys(name for seen in runs for name in seen.scores))
    rows, summaries = [], [seen.summary for seen in runs]
    for name, seen, summary in zip(names, runs, summaries, strict=True):
        worst = (None, None, None)
        if summary is not None:
            ess = float(np.min(summary.numbers["ess_bulk"]))
            worst = (
                ess,
                ess / max(seen.result.seconds, 1e-9),
                float(np.max(summary.numbers["r_hat"])),
            )
        steps = np.ravel(seen.run.config["step_size"])
        rows.append(
            (
                name,
                describe(seen),
                float(steps.max()),
                seen.result.num_steps,
                seen.result.data_passes,
                seen.result.seconds,
                *worst,
                int(seen.result.diverged.sum()),
                *(seen.scores.get(score) for score in scores),
            )
        )
    header = ("run", "sampler", "step size", "steps", "passes", "seconds", "least ESS", "ESS per s")
    header = (*header, "R-hat", "diverged", *(score.replace("_", " ") for score in scores))
    formats = ("", "", ".3g", ",", ".1f", ".1f", ",.0f", ".3g", ".3f", "", *[".4f"] * len(scores))
    sections = [Section("Side by side", table=Table(header, rows, formats))]
    sections += list(parameters(names, summaries))
    unfinished = [
        f"{n}: {s.run.status}" for n, s in zip(names, runs, strict=True) if s.result.interrupted
    ]
    lead = f"{len(runs)} runs. ESS and R-hat are those of the worst parameter; passes are of one chain."
    return Report(
        "Comparison of runs", " ".join([lead, *unfinished]), sections, facts={"command": command}
    )


def parameters(names: list[str], summaries: list[Summary | None]) -> Any:
    """Means and standard deviations, where the runs have the same parameters."""
    known = [summary for summary in summaries if summary is not None]
    if len(known) != len(names) or any(summary.names != known[0].names for summary in known):
        return
    rows = [
        (
            parameter,
            *(
                f"{cell(s.numbers['mean'][j], '.4g')} ± {cell(s.numbers['sd'][j], '.2g')}"
                for s in known
            ),
        )
        for j, parameter in enumerate(known[0].names[:MOST_PARAMETERS])
    ]
    shown = known[0].names[:MOST_DRAWN]
    mean, sd = (np.stack([s.numbers[n][: len(shown)] for s in known]) for n in ("mean", "sd"))
    picture = intervals(shown, names, mean, sd) if len(names) <= len(COLOURS) else None
    yield Section(
        "Posterior means ± standard deviations",
        figure=picture,
        table=Table(("parameter", *names), rows),
    )


def labels(paths: list[Path]) -> list[str]:
    """Short names of directories, all different."""
    short = [path.resolve().name for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]
