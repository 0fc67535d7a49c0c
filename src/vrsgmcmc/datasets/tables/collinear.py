"""Columns of a design that say nothing new: those that repeat another, or a sum of others.

Column j is left out if its part that the columns before it do not explain has less than TOLERANCE
of its variance: one step of a Cholesky factorisation of the correlations R, R_jj - r' (R_kk)^{-1}
r.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

TOLERANCE = 1e-10
MOST_COLUMNS = 2000  # that are compared with sums of others: the work is their number cubed


class Repeat(NamedTuple):
    """Column `index` follows from the columns `others`."""

    index: int
    others: tuple[int, ...]


def repeats(x: Float[np.ndarray, "n p"]) -> list[Repeat]:
    """The columns that follow from earlier ones; `x` has columns of mean 0.

    With as many columns as rows, or more than MOST_COLUMNS, only columns that repeat one other count.
    """
    from scipy.linalg import solve_triangular

    n, p = x.shape
    if p >= n or p > MOST_COLUMNS:
        return same_columns(x)
    scaled = x / np.sqrt((x**2).mean(0))
    correlations = scaled.T @ scaled / n
    factor = np.zeros((p, p))  # row j: the j-th independent column in terms of those before
    independent: list[int] = []
    repeated = []
    for j in range(p):
        k = len(independent)
        known_part = correlations[independent, j]
        row = solve_triangular(factor[:k, :k], known_part, lower=True) if k else known_part
        rest = correlations[j, j] - row @ row
        if rest < TOLERANCE:
            weights = solve_triangular(factor[:k, :k].T, row)
            others = np.flatnonzero(np.abs(weights) > 1e-6)
            repeated.append(Repeat(j, tuple(independent[i] for i in others)))
            continue
        factor[k, :k], factor[k, k] = row, np.sqrt(rest)
        independent.append(j)
    return repeated


def same_columns(x: Float[np.ndarray, "n p"]) -> list[Repeat]:
    """The columns that are another one, up to a factor."""
    earlier: dict[bytes, int] = {}
    repeated = []
    for j, column in enumerate(x.T):
        first = column[np.argmax(np.abs(column))]
        key = np.round(column / first, 9).tobytes() if first else b""
        if key in earlier:
            repeated.append(Repeat(j, (earlier[key],)))
        earlier.setdefault(key, j)
    return repeated
