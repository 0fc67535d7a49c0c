"""Do predictions mean what they say?

A bin of n predictions with mean probability p and observed frequency f is calibrated when f = p up to
chance, and

    ECE = sum over bins of (n / total) |f - p|,   expected of a calibrated model: |f - p| has mean
                                                  about sqrt(2 v / (pi n)),  v = mean of q (1 - q)

over the probabilities q in the bin: few data make even a perfect model look miscalibrated, so both
numbers are shown. For numbers instead of labels, the central interval that should hold a fraction a
of the targets holds those whose rank u among the predictive draws has |u - 1/2| <= a / 2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import binom

BINS = 10
LEVELS = (0.5, 0.8, 0.9, 0.95)


class Probabilities(NamedTuple):
    """Predicted probabilities of test labels: P(y = 1) as [n], or of K classes as [n, K]."""

    probabilities: Any
    labels: Any


class Predictions(NamedTuple):
    """Draws [draws, n] of the predictive distribution of test targets [n], noise included."""

    draws: Any
    targets: Any


class Reliability(NamedTuple):
    """Bins that are not empty, and what they add up to."""

    predicted: Float[np.ndarray, " bins"]  # mean probability
    observed: Float[np.ndarray, " bins"]  # frequency
    count: Float[np.ndarray, " bins"]
    low: Float[np.ndarray, " bins"]  # a calibrated model's frequency lies between these,
    high: Float[np.ndarray, " bins"]  # 19 times in 20
    ece: float
    expected: float  # ECE of a calibrated model
    nll: float
    brier: float
    accuracy: float
    binary: bool  # else the probabilities are those of the likeliest class


class Coverage(NamedTuple):
    ranks: Float[np.ndarray, " n"]  # of the targets among their draws, in [0, 1]
    rmse: float

    def at(self, level: Any) -> Any:
        """The fraction of targets inside the central interval of this level."""
        return np.mean(2 * np.abs(self.ranks - 0.5) <= np.asarray(level)[..., None], axis=-1)

    def chance(self, level: Any) -> Any:
        """The standard deviation of that fraction for a calibrated model."""
        return np.sqrt(np.asarray(level) * (1 - np.asarray(level)) / self.ranks.size)


def reliability(given: Probabilities) -> Reliability:
    table, labels = np.asarray(given.probabilities, np.float64), np.asarray(given.labels)
    binary = table.ndim == 1
    if binary:
        table = np.stack([1 - table, table], axis=1)
    if table.ndim != 2 or labels.shape != table.shape[:1] or not labels.size:
        raise ValueError(
            "Probabilities: give [n] or [n, K] probabilities and [n] labels, got shapes "
            f"{np.shape(given.probabilities)} and {labels.shape}."
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
    stated, happened = (table[:, 1], labels) if binary else (table.max(1), best == labels)
    place = np.minimum((stated * BINS).astype(int), BINS - 1)
    count = np.bincount(place, minlength=BINS)
    there = count > 0
    count = count[there]
    predicted, observed, spread = (
        np.bincount(place, values, BINS)[there] / count
        for values in (stated, happened, stated * (1 - stated))
    )
    with np.errstate(divide="ignore"):
        losses = -np.log(table[np.arange(labels.size), labels])
    return Reliability(
        predicted,
        observed,
        count,
        *(np.asarray(binom.ppf(q, count, predicted)) / count for q in (0.025, 0.975)),
        ece=float(count @ np.abs(observed - predicted) / labels.size),
        expected=float(count @ np.sqrt(2 * spread / (np.pi * count)) / labels.size),
        nll=float(losses.mean()),
        brier=float(np.mean(np.sum((table - np.eye(table.shape[1])[labels]) ** 2, axis=1))),
        accuracy=float(np.mean(best == labels)),
        binary=binary,
    )


def coverage(given: Predictions) -> Coverage:
    draws, targets = (np.asarray(values, np.float64) for values in given)
    if draws.ndim != 2 or targets.shape != draws.shape[1:] or not draws.size:
        raise ValueError(
            "Predictions: give [draws, n] predictive draws and [n] targets, got shapes "
            f"{draws.shape} and {targets.shape}."
        )
    if not (np.isfinite(draws).all() and np.isfinite(targets).all()):
        raise ValueError("Predictions: draws and targets must be finite. Drop diverged chains.")
    ranks = (np.mean(draws < targets, axis=0) + np.mean(draws <= targets, axis=0)) / 2
    return Coverage(ranks, float(np.sqrt(np.mean((draws.mean(0) - targets) ** 2))))
