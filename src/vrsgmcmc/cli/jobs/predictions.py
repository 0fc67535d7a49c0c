"""What came out of a job: predictions for the test rows, scores, and the report."""

from __future__ import annotations

import csv
import json
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from vrsgmcmc import reports
from vrsgmcmc.advice import Audit, audit
from vrsgmcmc.cli.jobs.directory import Job
from vrsgmcmc.cli.jobs.problem import Problem
from vrsgmcmc.core import Batch, row_likelihoods
from vrsgmcmc.reports import Predictions, Probabilities, coverage, reliability
from vrsgmcmc.run import Result

MOST_DRAWS = 400  # that predictions are averaged over
MOST_NUMBERS = 2 * 10**7  # draws times test rows
QUANTILES = (0.05, 0.95)


class Findings(NamedTuple):
    """Scores by name, predictions for the test rows, and what the audit says."""

    scores: dict[str, float]
    predictive: Probabilities | Predictions | None
    table: list[dict[str, Any]]  # rows of predictions.csv
    audit: Audit | None
    notes: tuple[str, ...]


def examine(job: Job, problem: Problem, result: Result) -> Findings:
    """Look at a result; nothing is predicted when every chain left the finite numbers."""
    notes, found = [], None
    try:
        found = audited(result)
    except ValueError as error:
        notes.append(f"There is no audit: {error}")
    if result.diverged.all():
        return Findings({}, None, [], found, tuple(notes))
    likelihoods, predicted = predict(problem, some_draws(result, len(problem.test[1])))
    log_density = logsumexp(likelihoods, axis=0) - np.log(len(likelihoods))
    if not problem.classify:  # in the user's units
        log_density -= np.log(job.ready.scale)
    scores = {"test_log_likelihood": float(log_density.mean())}
    if predicted is None:
        return Findings(scores, None, [], found, tuple(notes))
    if problem.classify:
        predictive, more, table = classes(job, problem, predicted)
    else:
        predictive, more, table = quantities(job, problem, predicted)
    return Findings({**scores, **more}, predictive, table, found, tuple(notes))


def audited(result: Result) -> Audit:
    """The audit of a run, where it has something to say."""
    found = audit(result)
    if not np.isfinite([found.inflation, found.plain_inflation, found.full_inflation]).all():
        raise ValueError(
            f"at step size {result.context.sampler.step_size:.3g} the predicted widths of the "
            "posterior are "
            "not finite. Take a smaller step size."
        )
    return found


def some_draws(result: Result, rows: int) -> Any:
    """Draws of the chains that stayed finite, evenly chosen: leaves [draw, ...]."""
    alive = np.flatnonzero(~result.diverged)
    kept = len(result.draw_steps)
    count = int(
        np.clip(MOST_NUMBERS // max(rows, 1) // alive.size, 1, MOST_DRAWS // alive.size or 1)
    )
    chosen = np.unique(np.linspace(0, kept - 1, min(count, kept)).round().astype(int))
    return jax.tree.map(
        lambda leaf: np.asarray(leaf)[alive][:, chosen].reshape(-1, *leaf.shape[2:]), result.draws
    )


def predict(problem: Problem, draws: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Log-likelihoods [draw, row] of the test rows, and predictions [draw, row, ...]."""
    x, y = (jnp.asarray(leaf) for leaf in problem.test)
    likelihoods, predicted = [], []
    for number in range(jax.tree.leaves(draws)[0].shape[0]):
        params = jax.tree.map(lambda leaf, i=number: jnp.asarray(leaf[i]), draws)
        likelihoods.append(np.asarray(_likelihoods(problem.posterior, params, (x, y)), np.float64))
        if problem.predict is not None:
            try:
                predicted.append(np.asarray(_predict(problem.predict, params, x), np.float64))
            except Exception as error:  # it may be the user's
                raise ValueError(
                    f"predict(params, x) failed: {type(error).__name__}: {error}"
                ) from error
    return np.stack(likelihoods), np.stack(predicted) if predicted else None


@partial(jax.jit, static_argnames="posterior")
def _likelihoods(posterior: Any, params: Any, data: Any) -> Any:
    batch = Batch(jnp.arange(len(data[1])), data)
    return row_likelihoods(posterior, params, batch, jax.random.key(0))


@partial(jax.jit, static_argnames="function")
def _predict(function: Any, params: Any, x: Any) -> Any:
    return function(params, x)


def classes(
    job: Job, problem: Problem, predicted: np.ndarray
) -> tuple[Probabilities, dict[str, float], list[dict[str, Any]]]:
    labels, truth = job.ready.labels, problem.test[1]
    mean = predicted.mean(0)
    if mean.shape not in ((len(truth),), (len(truth), len(labels))):
        raise ValueError(
            f"predict(params, x) must give [n] or [n, {len(labels)}] probabilities for {len(truth)} "
            f"rows, got shape {mean.shape}."
        )
    each = np.stack([1 - mean, mean], 1) if mean.ndim == 1 else mean
    each = each / each.sum(1, keepdims=True)
    given = Probabilities(each[:, 1] if each.shape[1] == 2 else each, truth)
    found = reliability(given)
    table = [
        {
            "row": int(row),
            "actual": labels[true],
            "predicted": labels[int(row_of.argmax())],
            **{f"P({name})": f"{p:.6g}" for name, p in zip(labels, row_of, strict=True)},
        }
        for row, true, row_of in zip(job.ready.test_rows, truth, each, strict=True)
    ]
    scores = {
        "accuracy": found.accuracy,
        "brier_score": found.brier,
        "calibration_error": found.ece,
    }
    return given, scores, table


def quantities(
    job: Job, problem: Problem, predicted: np.ndarray
) -> tuple[Predictions | None, dict[str, float], list[dict[str, Any]]]:
    center, scale = job.ready.center, job.ready.scale
    truth = center + scale * np.asarray(problem.test[1], np.float64)
    if predicted.shape[1:] != truth.shape:
        raise ValueError(
            f"predict(params, x) must give [n] means for {len(truth)} rows, got {predicted.shape[1:]}."
        )
    draws = center + scale * predicted
    mean, given = draws.mean(0), None
    scores = {"rmse": float(np.sqrt(np.mean((mean - truth) ** 2)))}
    if problem.noise is not None:
        noise = np.random.default_rng(job.config.seed).normal(size=draws.shape)
        draws = draws + scale * np.sqrt(problem.noise) * noise
        given = Predictions(draws, truth)
        scores["coverage_90"] = float(coverage(given).at(0.9))
    low, high = np.quantile(draws, QUANTILES, axis=0)
    columns = (job.ready.test_rows, truth, mean, draws.std(0), low, high)
    table = [
        {
            "row": int(row),
            "actual": f"{true:.6g}",
            "mean": f"{middle:.6g}",
            "sd": f"{sd:.6g}",
            "low_90": f"{a:.6g}",
            "high_90": f"{b:.6g}",
        }
        for row, true, middle, sd, a, b in zip(*columns, strict=True)
    ]
    return given, scores, table


def write(job: Job, problem: Problem, result: Result, found: Findings) -> list[str]:
    """predictions.csv, findings.json and the report; returns the names of the files."""
    files = []
    if found.table:
        with (job.path / "predictions.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(found.table[0])
            writer.writerows(row.values() for row in found.table)
        files.append("predictions.csv")
    (job.path / "findings.json").write_text(
        json.dumps(found.scores, indent=1) + "\n", encoding="utf-8"
    )
    page = reports.of_result(
        result,
        title=f"{job.config.model} on {job.config.data.name}",
        names=problem.names,
        audit=found.audit,
        predictive=found.predictive,
        command=job.command,
        facts=facts(job, problem, found),
    )
    return [*files, "findings.json", *reports.write(page, job.path)[:1]]


def facts(job: Job, problem: Problem, found: Findings) -> dict[str, Any]:
    """What a reader of the report should know besides the result."""
    ready = job.ready
    notes = [*ready.notes, *problem.notes, *job.choice.notes, *found.notes]
    rows = f"{len(ready.train[1])} rows to train, {len(ready.test[1])} to test"
    return {
        "data": f"{job.config.data.name}: {rows}",
        "target": ready.target,
        **({"classes": ", ".join(ready.labels)} if ready.labels else {}),
        "prior": f"N(0, {job.config.prior_variance:g}) on every parameter",
        **found.scores,
        "seed": job.config.seed,
        "notes": " ".join(notes),
    }
