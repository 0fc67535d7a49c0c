"""The findings of a job: predictions for the test rows, scores, and the report."""

import json
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from vrsgmcmc import reports
from vrsgmcmc.advice import Accuracy, Audit, audit
from vrsgmcmc.core import bounded_jit
from vrsgmcmc.experiments import csv_text
from vrsgmcmc.reports import Predictions, Probabilities, coverage, reliability
from vrsgmcmc.run import Result
from vrsgmcmc.run.store import Folder

from .answers import answer_of
from .directory import Job
from .outputs import FINDINGS, PREDICTIONS, SUMS, write_sums
from .problem import Problem, log_likelihoods

MOST_DRAWS = 400  # that predictions are averaged over
MOST_NUMBERS = 2 * 10**7  # draws times test rows
QUANTILES = (0.05, 0.95)
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")  # how a cell begins that may be a formula
# predictions, scores by name, and rows of predictions.csv
Scores = tuple[Probabilities | Predictions | None, dict[str, float], list[dict[str, Any]]]


class Findings(NamedTuple):
    """Scores by name, predictions for the test rows, and the audit."""

    scores: dict[str, float]
    predictive: Probabilities | Predictions | None
    table: list[dict[str, Any]]  # rows of predictions.csv
    audit: Audit | None
    accuracy: Accuracy | None
    notes: tuple[str, ...]


def examine(job: Job, problem: Problem, result: Result) -> Findings:
    """Audit a result, and score its predictions unless every chain became non-finite."""
    accuracy = reports.name_parameters(result.record, result.draws, problem.names)
    findings = Findings({}, None, [], None, accuracy, ())
    try:
        findings = findings._replace(audit=audit_result(result))
    except ValueError as error:
        findings = findings._replace(notes=(f"There is no audit: {error}",))
    if result.diverged.all():
        return findings
    likelihoods, outputs = predict(problem, some_draws(result, len(problem.test[1])))
    log_density = logsumexp(likelihoods, axis=0) - np.log(len(likelihoods))
    if not problem.classify:  # in the user's units
        log_density -= np.log(job.ready.scale)
    scores = {"test_log_likelihood": float(log_density.mean())}
    if outputs is None:
        return findings._replace(scores=scores)
    score = score_classes if problem.classify else score_numbers
    predictive, more, table = score(job, problem, outputs)
    return findings._replace(scores=scores | more, predictive=predictive, table=table)


def audit_result(result: Result) -> Audit:
    """The audit of a run; `ValueError` if it predicts nothing, for one of two reasons."""
    verdict = audit(result)
    widths = [verdict.inflation, verdict.plain_inflation, verdict.full_inflation]
    if not np.isfinite(widths).all():
        if not verdict.holds:  # the chain is elsewhere, and the verdict says where
            raise ValueError(verdict.verdict)
        raise ValueError(
            f"at step size {result.context.sampler.step_size:.3g} the predicted widths of the "
            "posterior are not finite. Take a smaller step size."
        )
    return verdict


def some_draws(result: Result, rows: int) -> Any:
    """Evenly spaced draws of the chains that stayed finite: leaves [draw, ...]."""
    alive = np.flatnonzero(~result.diverged)
    length = len(result.draw_steps)
    most = max(1, min(MOST_NUMBERS // max(rows, 1) // alive.size, MOST_DRAWS // alive.size))
    index = np.unique(np.linspace(0, length - 1, min(most, length)).round().astype(int))
    return jax.tree.map(
        lambda leaf: np.asarray(leaf)[alive][:, index].reshape(-1, *leaf.shape[2:]), result.draws
    )


def predict(problem: Problem, draws: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Log-likelihoods [draw, row] of the test rows, and predictions [draw, row, ...]."""
    x, y = (jnp.asarray(leaf) for leaf in problem.test)
    forward = None if problem.predict is None else jax.jit(problem.predict)
    likelihoods, outputs = [], []
    for number in range(jax.tree.leaves(draws)[0].shape[0]):
        params = jax.tree.map(lambda leaf, i=number: jnp.asarray(leaf[i]), draws)
        likelihoods.append(np.asarray(_likelihoods(problem.posterior, params, (x, y)), float))
        if forward is not None:
            try:
                outputs.append(np.asarray(forward(params, x), float))
            except Exception as error:  # it may be the user's
                raise ValueError(
                    f"predict(params, x) failed: {type(error).__name__}: {error}"
                ) from error
    return np.stack(likelihoods), np.stack(outputs) if outputs else None


_likelihoods = bounded_jit(log_likelihoods)


def score_classes(job: Job, problem: Problem, outputs: np.ndarray) -> Scores:
    """Score the probabilities of the test rows."""
    labels, truth = job.ready.labels, problem.test[1]
    mean = outputs.mean(0)
    if mean.shape not in ((len(truth),), (len(truth), len(labels))):
        raise ValueError(
            f"predict(params, x) must give [n] or [n, {len(labels)}] probabilities for {len(truth)} "
            f"rows, got shape {mean.shape}."
        )
    each = np.stack([1 - mean, mean], 1) if mean.ndim == 1 else mean
    each = each / each.sum(1, keepdims=True)
    shares = np.bincount(job.ready.train[1].astype(int), minlength=len(labels))
    probabilities = each[:, 1] if each.shape[1] == 2 else each
    predictive = Probabilities(probabilities, truth, labels, shares / shares.sum())
    curve = reliability(predictive)
    table = [
        {
            "row": int(row),
            "actual": spreadsheet_text(labels[true]),
            "predicted": spreadsheet_text(labels[int(probabilities.argmax())]),
            **{f"P({name})": f"{p:.6g}" for name, p in zip(labels, probabilities, strict=True)},
        }
        for row, true, probabilities in zip(job.ready.test_rows, truth, each, strict=True)
    ]
    scores = {"accuracy": curve.accuracy, "brier_score": curve.brier}
    return predictive, {**scores, "calibration_error": curve.ece}, table


def spreadsheet_text(name: str) -> str:
    """A name that no spreadsheet runs as a formula: with an apostrophe in front where it could be one.

    A name that begins with an apostrophe gets another, so that taking one off gives the name back.
    """
    try:
        float(name)  # -1 is a number, and no formula
    except ValueError:
        return f"'{name}" if name.startswith(FORMULA) else name
    return name


def score_numbers(job: Job, problem: Problem, outputs: np.ndarray) -> Scores:
    """Score the predictive draws of the test rows, in the user's units."""
    center, scale = job.ready.center, job.ready.scale
    truth = center + scale * np.asarray(problem.test[1], np.float64)
    if outputs.shape[1:] != truth.shape:
        raise ValueError(
            f"predict(params, x) must give [n] means for {len(truth)} rows, got {outputs.shape[1:]}."
        )
    draws = center + scale * outputs
    mean, predictive = draws.mean(0), None
    scores = {"rmse": float(np.sqrt(np.mean((mean - truth) ** 2)))}
    if problem.noise is not None:
        noise = np.random.default_rng(job.config.seed).normal(size=draws.shape)
        draws = draws + scale * np.sqrt(problem.noise) * noise
        middle = center + scale * float(np.mean(job.ready.train[1]))
        predictive = Predictions(draws, truth, mean, middle)
        scores["coverage_90"] = float(coverage(predictive).at(0.9))
    low, high = np.quantile(draws, QUANTILES, axis=0)
    columns = {"actual": truth, "mean": mean, "sd": draws.std(0), "low_90": low, "high_90": high}
    table = [
        {"row": int(row), **{name: f"{column[i]:.6g}" for name, column in columns.items()}}
        for i, row in enumerate(job.ready.test_rows)
    ]
    return predictive, scores, table


def other_scores(findings: Findings) -> dict[str, float]:
    """The scores that a report does not compute itself."""
    own: set[str] = set()
    if isinstance(findings.predictive, Probabilities):
        own = {"test_log_likelihood", "accuracy", "brier_score", "calibration_error"}
    elif findings.predictive is not None:
        own = {"rmse", "coverage_90"}
    return {name.replace("_", " "): v for name, v in findings.scores.items() if name not in own}


def write(job: Job, problem: Problem, result: Result, findings: Findings) -> list[str]:
    """Write predictions.csv, findings.json and the report; returns the names of the files."""
    folder, files = Folder(job.path), []
    folder.remove(SUMS)  # until all is written
    if findings.table:
        folder.write(PREDICTIONS, csv_text(findings.table).encode())
        files.append(PREDICTIONS)
    folder.write(FINDINGS, f"{json.dumps(findings.scores, indent=1)}\n".encode())
    files.append(FINDINGS)
    ready = job.ready
    rows = f"{len(ready.train[1])} rows to train, {len(ready.test[1])} to test"
    facts = {
        "data": f"{job.config.data.name}: {rows}",
        "target": ready.target,
        **({"classes": ", ".join(ready.labels)} if ready.labels else {}),
        "prior": f"N(0, {job.config.prior_variance:g}) on every parameter",
        "seed": job.config.seed,
        "notes": " ".join([*ready.notes, *problem.notes, *job.choice.notes, *findings.notes]),
        **({} if result.decision is None else {"sampler": str(result.decision)}),
    }
    page = reports.of_result(
        result,
        title=f"{job.config.model} on {job.config.data.name}",
        names=problem.names,
        audit=findings.audit,
        accuracy=findings.accuracy,
        predictive=findings.predictive,
        answer=answer_of(job, result),
        scores=other_scores(findings),
        command=job.command,
        facts=facts,
    )
    pages = reports.write(page, job.path)
    write_sums(job.path, [*files, *pages])
    return [*files, *pages[:1]]
