"""Are predictions calibrated?

A bin of n predictions with mean probability p and observed frequency f is calibrated when f = p up to
chance, and

    ECE = sum over bins of (n / total) |f - p|,   where |f - p| of a calibrated model has mean about
                                                  sqrt(2 v / (pi n)),  v = mean of q (1 - q)

over the probabilities q in the bin: with few data even a perfect model looks miscalibrated, so a report
shows both numbers. For numbers instead of labels, the central interval of level a contains the targets
whose rank u among the predictive draws has |u - 1/2| <= a / 2.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import binom

BINS = 10
LEVELS = (0.5, 0.8, 0.9, 0.95)


class Probabilities(NamedTuple):
    """Predicted probabilities of test labels: P(y = 1) as [n], or of K classes as [n, K].

    `classes`: their names. `shares` [K]: of the classes in the training data, which is what a
    prediction that uses no column says.
    """

    probabilities: Any
    labels: Any
    classes: Sequence[str] = ()
    shares: Any = None

    @property
    def table(self) -> np.ndarray:
        """The probabilities as [n, K]."""
        table = np.asarray(self.probabilities, np.float64)
        return np.stack([1 - table, table], axis=1) if table.ndim == 1 else table

    def name(self, label: int) -> str:
        return str(self.classes[label]) if len(self.classes) else f"class {label}"


class Predictions(NamedTuple):
    """Draws [draws, n] of the predictive distribution of test targets [n], noise included.

    `mean` [n]: of the draws without noise, where it is known: noise only blurs it. `center`: the mean
    of the training targets, which is what a prediction that uses no column says.
    """

    draws: Any
    targets: Any
    mean: Any = None
    center: float | None = None


class Reliability(NamedTuple):
    """The bins that are not empty, and scores of all predictions."""

    probability: Float[np.ndarray, " bins"]  # mean of the predictions
    frequency: Float[np.ndarray, " bins"]  # of the label
    count: Float[np.ndarray, " bins"]
    low: Float[np.ndarray, " bins"]  # a calibrated model's frequency lies between these,
    high: Float[np.ndarray, " bins"]  # 19 times in 20
    ece: float
    calibrated_ece: float  # expectation for a calibrated model
    nll: float
    brier: float  # of two classes: mean of (p - y)^2; of more: summed over the classes
    accuracy: float
    binary: bool  # else the probabilities are those of the likeliest class


class Coverage(NamedTuple):
    """Ranks of targets among their predictive draws."""

    ranks: Float[np.ndarray, " n"]  # of the targets among their draws, in [0, 1]
    rmse: float

    def at(self, level: Any) -> Any:
        """The fraction of targets inside the central interval of this level."""
        return np.mean(2 * np.abs(self.ranks - 0.5) <= np.asarray(level)[..., None], axis=-1)

    def chance(self, level: Any) -> Any:
        """The standard deviation of that fraction for a calibrated model."""
        return np.sqrt(np.asarray(level) * (1 - np.asarray(level)) / self.ranks.size)


def reliability(predictions: Probabilities) -> Reliability:
    """The reliability diagram of predicted labels, as numbers."""
    table, labels = predictions.table, np.asarray(predictions.labels)
    binary = np.ndim(predictions.probabilities) == 1
    if table.ndim != 2 or labels.shape != table.shape[:1] or not labels.size:
        raise ValueError(
            "Probabilities: give [n] or [n, K] probabilities and [n] labels, got shapes "
            f"{np.shape(predictions.probabilities)} and {labels.shape}."
        )
    if not (np.all(table >= 0) and np.allclose(table.sum(1), 1, atol=1e-3)):
        raise ValueError(
            "Probabilities: numbers must lie between 0 and 1 and sum to 1 over the classes. "
            "Average probabilities over the draws, not logits."
        )
    labels = np.asarray(labels, int)
    if labels.min() < 0 or labels.max() >= table.shape[1]:
        raise ValueError(
            f"Probabilities: labels must be in 0..{table.shape[1] - 1}, got {labels.min()} to "
            f"{labels.max()}."
        )
    best = table.argmax(1)
    probabilities, truth = (table[:, 1], labels) if binary else (table.max(1), best == labels)
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    count = np.bincount(bins, minlength=BINS)
    occupied = count > 0
    count = count[occupied]
    probability, frequency, spread = (
        np.bincount(bins, values, BINS)[occupied] / count
        for values in (probabilities, truth, probabilities * (1 - probabilities))
    )
    return Reliability(
        probability,
        frequency,
        count,
        *(np.asarray(binom.ppf(q, count, probability)) / count for q in (0.025, 0.975)),
        ece=float(count @ np.abs(frequency - probability) / labels.size),
        calibrated_ece=float(count @ np.sqrt(2 * spread / (np.pi * count)) / labels.size),
        **label_scores(table, labels),
        binary=binary,
    )


def label_scores(table: Float[np.ndarray, "n k"], labels: Any) -> dict[str, float]:
    """Scores of probabilities. The Brier score of two classes is that of one of them."""
    with np.errstate(divide="ignore"):
        losses = -np.log(table[np.arange(len(labels)), labels])
    squares = np.sum((table - np.eye(table.shape[1])[labels]) ** 2, axis=1)
    return {
        "accuracy": float(np.mean(table.argmax(1) == labels)),
        "nll": float(losses.mean()),
        "brier": float(squares.mean()) / (2 if table.shape[1] == 2 else 1),
    }


def coverage(predictions: Predictions) -> Coverage:
    """The ranks of the targets among their predictive draws."""
    draws, targets = (np.asarray(values, np.float64) for values in predictions[:2])
    if draws.ndim != 2 or targets.shape != draws.shape[1:] or not draws.size:
        raise ValueError(
            "Predictions: give [draws, n] predictive draws and [n] targets, got shapes "
            f"{draws.shape} and {targets.shape}."
        )
    if not (np.isfinite(draws).all() and np.isfinite(targets).all()):
        raise ValueError("Predictions: draws and targets must be finite. Drop diverged chains.")
    ranks = (np.mean(draws < targets, axis=0) + np.mean(draws <= targets, axis=0)) / 2
    mean = draws.mean(0) if predictions.mean is None else np.asarray(predictions.mean, np.float64)
    return Coverage(ranks, float(np.sqrt(np.mean((mean - targets) ** 2))))
