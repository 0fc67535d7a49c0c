"""What a chain knows so far: running averages of its draws, and how far they are from a reference.

After `end` draws the average is over the draws end // 5, ..., end - 1: the first fifth is burn-in.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def moments_to_look(count: int, most: int = 60) -> Int[np.ndarray, " points"]:
    """Numbers of draws up to `count`, evenly spread on a logarithmic axis."""
    return np.unique(np.geomspace(1, count, most).round().astype(int))


def running(
    values: Float[np.ndarray, "draws k"], ends: Int[np.ndarray, " points"]
) -> Float[np.ndarray, "points k"]:
    """The average of values[end // 5 : end] for each end."""
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    starts = ends // 5
    return (total[ends] - total[starts]) / (ends - starts)[:, None]


def error(
    mean: Float[np.ndarray, "*points d"],
    variance: Float[np.ndarray, "*points d"],
    reference: Float[np.ndarray, "draws d"],
) -> Float[np.ndarray, "*points"]:
    """How far means and variances are from those of the reference draws (m*, v*):

        C = 1/2 mean_j (m_j - m*_j)^2 / v*_j + 1/2 mean_j (v_j - v*_j)^2 / (2 v*_j^2).

    k independent draws of a Gaussian have C = 1/k on average, so 1/C says what a chain is worth.
    """
    known = reference.var(axis=0)
    shift = (mean - reference.mean(axis=0)) ** 2 / known
    spread = (variance / known - 1) ** 2 / 2
    return (shift.mean(-1) + spread.mean(-1)) / 2
