"""What a chain knows so far: running averages of its draws, and how far they are from a reference.

After `end` draws an average is over the draws end // 5, ..., end - 1: the first fifth is burn-in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

POINTS = 60  # of a curve, at most


class Knowledge(NamedTuple):
    """What each chain knows after so many draws: predictions and moments."""

    ends: Int[np.ndarray, " points"]
    nll: Float[np.ndarray, "chain points"]
    accuracy: Float[np.ndarray, "chain points"]
    mean: Float[np.ndarray, "chain points d"]
    variance: Float[np.ndarray, "chain points d"]


def watch(
    draws: Float[np.ndarray, "chain draws d"],
    likelihoods: Callable[[Float[np.ndarray, "draws d"]], Float[np.ndarray, "draws rows"]],
) -> Knowledge:
    """Knowledge at numbers of draws that are evenly spread on a logarithmic axis.

    `likelihoods` gives the probability of each observed label for each draw of one chain.
    """
    ends = np.unique(np.geomspace(1, draws.shape[1], POINTS).round().astype(int))
    draws = draws.astype(np.float64)
    scores = [score(running(likelihoods(chain), ends)) for chain in draws]
    mean = np.stack([running(chain, ends) for chain in draws])
    square = np.stack([running(chain**2, ends) for chain in draws])
    return Knowledge(
        ends=ends,
        nll=np.stack([nll for nll, _ in scores]),
        accuracy=np.stack([accuracy for _, accuracy in scores]),
        mean=mean,
        variance=square - mean**2,
    )


def running(
    values: Float[np.ndarray, "draws k"], ends: Int[np.ndarray, " points"]
) -> Float[np.ndarray, "points k"]:
    """The average of values[end // 5 : end] for each end."""
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    starts = ends // 5
    return (total[ends] - total[starts]) / (ends - starts)[:, None]


def score(predictions: Float[np.ndarray, "points rows"]) -> tuple[np.ndarray, np.ndarray]:
    """Negative log-likelihood and accuracy (of two classes), from averaged likelihoods."""
    return -np.log(predictions).mean(axis=1), (predictions > 0.5).mean(axis=1)


def error(
    mean: Float[np.ndarray, "*points d"],
    variance: Float[np.ndarray, "*points d"],
    reference: Float[np.ndarray, "draws d"],
) -> Float[np.ndarray, "*points"]:
    """How far means m and variances v are from those of the reference draws, m* and v*.

        C = 1/2 mean_j (m_j - m*_j)^2 / v*_j + 1/2 mean_j (v_j - v*_j)^2 / (2 v*_j^2)

    k independent draws of a Gaussian have C = 1/k on average, so 1/C says what a chain is worth.
    """
    known = reference.var(axis=0)
    shift = (mean - reference.mean(axis=0)) ** 2 / known
    spread = (variance / known - 1) ** 2 / 2
    return (shift.mean(-1) + spread.mean(-1)) / 2
