"""Predictions and scores on the test rows, beside a baseline that uses no column."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from vrsgmcmc.core import bounded_jit
from vrsgmcmc.reports import Predictions, Probabilities, coverage, reliability
from vrsgmcmc.run import Result

from .answers import some_rows
from .problem import Problem, Rows, log_likelihoods
from .spreadsheet import class_rows, number_rows

MOST_DRAWS = 400  # that predictions are averaged over
MOST_NUMBERS = 2 * 10**7  # draws times test rows
MOST_SIMULATED = 20_000  # test rows whose predictive draws a page shows
QUANTILES = (0.05, 0.95)
NAMES: dict[str, str] = {
    "log_score": "test_log_likelihood",
    "brier": "brier_score",
}  # of `vr.table` -> of a job


class Scores(NamedTuple):
    """What is known of the test rows: scores by name, predictions for a page, rows for a file."""

    scores: dict[str, float]
    baseline: dict[str, float]
    predictive: Probabilities | Predictions | None
    table: list[dict[str, Any]]


def score_table(problem: Problem, result: Result) -> Scores:
    """Of a model of the library."""
    table = problem.table
    test = table.design.test
    scores, predictions = table.scores(result), table.predict(result, test)
    own, baseline = (
        {NAMES.get(name, str(name)): float(value) for name, value in each.items()}
        for each in (scores.model, scores.baseline)
    )
    target = test.target
    if target.kind == "classes":
        shares = np.bincount(table.design.y, minlength=len(target.labels))
        shares = shares / shares.sum()
        mean = predictions.mean / predictions.mean.sum(1, keepdims=True)
        probabilities = mean[:, 1] if mean.shape[1] == 2 else mean
        predictive = Probabilities(probabilities, test.y, target.labels, shares)
        own["calibration_error"] = reliability(predictive).ece
        limits = predictions.low, predictions.high
        rows = class_rows(test.rows, target.labels, mean, test.y, limits)
        return Scores(own, baseline, predictive, rows)
    center, scale = (target.center, target.scale) if target.kind == "number" else (0.0, 1.0)
    truth = center + scale * np.asarray(test.y, np.float64)
    columns = {"actual": truth, "mean": predictions.mean, "sd": predictions.sd}
    columns |= {"low_90": predictions.low, "high_90": predictions.high}
    some = some_rows(test, MOST_SIMULATED)
    index = np.searchsorted(test.rows, some.rows) if len(some.y) < len(test.y) else slice(None)
    middle = center + scale * float(np.mean(table.design.y))
    predictive = Predictions(
        table.simulate(result, some), truth[index], predictions.mean[index], middle
    )
    return Scores(own, baseline, predictive, number_rows(test.rows, columns))


def score_own(problem: Problem, result: Result, seed: int) -> Scores:
    """Of the user's own model, or of a job of the first format."""
    test = problem.test
    assert test is not None
    likelihoods, outputs = predict(problem, some_draws(result, len(test.y)), test)
    log_density = logsumexp(likelihoods, axis=0) - np.log(len(likelihoods))
    if not test.labels:  # in the user's units
        log_density -= np.log(test.scale)
    scores = {"test_log_likelihood": float(log_density.mean())}
    if outputs is None:
        return Scores(scores, {}, None, [])
    score = score_classes if test.labels else score_numbers
    more, baseline, predictive, table = score(problem, outputs, seed)
    return Scores(scores | more, baseline, predictive, table)


def some_draws(result: Result, rows: int) -> Any:
    """Evenly spaced draws of the chains that stayed finite: leaves [draw, ...]."""
    alive = np.flatnonzero(~result.diverged)
    length = len(result.draw_steps)
    most = max(1, min(MOST_NUMBERS // max(rows, 1) // alive.size, MOST_DRAWS // alive.size))
    index = np.unique(np.linspace(0, length - 1, min(most, length)).round().astype(int))
    return jax.tree.map(
        lambda leaf: np.asarray(leaf)[alive][:, index].reshape(-1, *leaf.shape[2:]), result.draws
    )


def predict(problem: Problem, draws: Any, rows: Rows) -> tuple[np.ndarray, np.ndarray | None]:
    """Log-likelihoods [draw, row], and predictions [draw, row, ...]."""
    x, y = jnp.asarray(rows.x), jnp.asarray(rows.y)
    outputs = forward(problem, draws, x)
    likelihoods = []
    for number in range(jax.tree.leaves(draws)[0].shape[0]):
        params = jax.tree.map(lambda leaf, i=number: jnp.asarray(leaf[i]), draws)
        likelihoods.append(np.asarray(_likelihoods(problem.posterior, params, (x, y)), float))
    return np.stack(likelihoods), outputs


def forward(problem: Problem, draws: Any, x: Any) -> np.ndarray | None:
    """The predictions of each draw, [draw, row, ...]; None if the model has none."""
    if problem.predict is None:
        return None
    function, outputs = jax.jit(problem.predict), []
    for number in range(jax.tree.leaves(draws)[0].shape[0]):
        params = jax.tree.map(lambda leaf, i=number: jnp.asarray(leaf[i]), draws)
        try:
            outputs.append(np.asarray(function(params, x), float))
        except Exception as error:  # it may be the user's
            raise ValueError(
                f"predict(params, x) failed: {type(error).__name__}: {error}"
            ) from error
    return np.stack(outputs)


_likelihoods = bounded_jit(log_likelihoods)


def class_probabilities(outputs: np.ndarray, labels: tuple[str, ...]) -> np.ndarray:
    """The mean over draws, [row, class]."""
    mean = outputs.mean(0)
    if mean.ndim not in (1, 2) or (mean.ndim == 2 and mean.shape[1] != len(labels)):
        raise ValueError(
            f"predict(params, x) must give [n] or [n, {len(labels)}] probabilities, got shape "
            f"{mean.shape}."
        )
    each = np.stack([1 - mean, mean], 1) if mean.ndim == 1 else mean
    return each / each.sum(1, keepdims=True)


def score_classes(problem: Problem, outputs: np.ndarray, seed: int) -> Any:
    """Score the probabilities of the test rows."""
    test = problem.test
    assert test is not None
    labels, truth = test.labels, test.y
    each = class_probabilities(outputs, labels)
    if len(each) != len(truth):
        raise ValueError(
            f"predict(params, x) gives {len(each)} probabilities for {len(truth)} rows."
        )
    shares = np.bincount(test.train_y.astype(int), minlength=len(labels))
    shares = shares / shares.sum()
    probabilities = each[:, 1] if each.shape[1] == 2 else each
    predictive = Probabilities(probabilities, truth, labels, shares)
    curve = reliability(predictive)
    scores = {
        "accuracy": curve.accuracy,
        "brier_score": curve.brier,
        "calibration_error": curve.ece,
    }
    baseline = {"accuracy": float(np.mean(truth == shares.argmax()))}
    return scores, baseline, predictive, class_rows(test.numbers, labels, each, truth)


def score_numbers(problem: Problem, outputs: np.ndarray, seed: int) -> Any:
    """Score the predictive draws of the test rows, in the user's units."""
    test = problem.test
    assert test is not None
    truth = test.center + test.scale * np.asarray(test.y, np.float64)
    if outputs.shape[1:] != truth.shape:
        raise ValueError(
            f"predict(params, x) must give [n] means for {len(truth)} rows, got {outputs.shape[1:]}."
        )
    draws = test.center + test.scale * outputs
    mean, predictive = draws.mean(0), None
    middle = test.center + test.scale * float(np.mean(test.train_y))
    scores = {"rmse": float(np.sqrt(np.mean((mean - truth) ** 2)))}
    baseline = {"rmse": float(np.sqrt(np.mean((middle - truth) ** 2)))}
    if problem.noise is not None:
        noise = np.random.default_rng(seed).normal(size=draws.shape)
        draws = draws + test.scale * np.sqrt(problem.noise) * noise
        predictive = Predictions(draws, truth, mean, middle)
        scores["coverage_90"] = float(coverage(predictive).at(0.9))
    low, high = np.quantile(draws, QUANTILES, axis=0)
    columns = {"actual": truth, "mean": mean, "sd": draws.std(0), "low_90": low, "high_90": high}
    return scores, baseline, predictive, number_rows(test.numbers, columns)
