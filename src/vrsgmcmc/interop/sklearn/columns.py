"""A table before it is sampled: weights, standard columns, a number of rows that is used again.

Numbers of rows are rounded up, so that the folds of a cross-validation, whose sizes differ by one,
share a compiled program. Some rows stand in the table twice then, with half of their weight: the
posterior is the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.utils import check_array

from .priors import INTERCEPT

FEWEST_ROWS = 32


class Columns(NamedTuple):
    """Where the columns of x are, and how wide."""

    mean: np.ndarray  # [d]; 0 without intercept
    scale: np.ndarray  # [d]; 1 for a constant column

    def apply(self, x: np.ndarray) -> np.ndarray:
        return (x - self.mean) / self.scale

    def design(self, x: np.ndarray, prior_scale: float | None, intercept: bool) -> np.ndarray:
        """Standard columns, in units of a fixed prior scale, and one for the intercept."""
        x = self.apply(x) * (1.0 if prior_scale is None else prior_scale)
        return np.column_stack([x, np.full(len(x), INTERCEPT)]) if intercept else x


def measure_columns(x: np.ndarray, weight: np.ndarray, centre: bool) -> Columns:
    """Weighted means and sds; without `centre` the root mean squares."""
    share = weight / weight.sum()
    mean = share @ x if centre else np.zeros(x.shape[1])
    scale = np.sqrt(share @ (x - mean) ** 2)
    constant = scale <= 10 * np.finfo(float).eps * np.maximum(np.abs(x).max(axis=0), 1e-300)
    return Columns(mean, np.where(constant, 1.0, scale))


def as_weight(sample_weight: Any, rows: int) -> np.ndarray:
    """Weights [N], 1 where none are given."""
    if sample_weight is None:
        return np.ones(rows)
    options: Any = {"ensure_2d": False, "dtype": np.float64, "input_name": "sample_weight"}
    weight = check_array(sample_weight, **options)
    if weight.shape != (rows,):
        raise ValueError(
            f"sample_weight must be one number for each of the {rows} rows of X, got the shape "
            f"{weight.shape}."
        )
    if weight.min() < 0:
        raise ValueError(
            f"sample_weight must be 0 or positive, got {weight.min():g}: a weight says how often a row "
            "counts."
        )
    if not weight.any():
        raise ValueError("sample_weight is zero for every row, so there is nothing to learn from.")
    return weight


def round_up(rows: int) -> int:
    """At most 1/16 more rows: a number that neighbouring sizes share."""
    unit = max(1, 2 ** (rows.bit_length() - 5))
    return max(FEWEST_ROWS, -(-rows // unit) * unit)


def share_rows(weight: np.ndarray, *columns: np.ndarray) -> tuple[jax.Array, ...]:
    """Columns and weights [round_up(N)]: some rows stand there twice, with half of their weight."""
    index = np.arange(round_up(len(weight))) % len(weight)
    weight = weight / np.bincount(index)
    return tuple(as_array(column[index]) for column in (*columns, weight))


def add_zeros(rows: int, *columns: np.ndarray) -> tuple[jax.Array, ...]:
    """Columns with zeros at their ends."""
    extra = [np.zeros((rows - len(c), *c.shape[1:]), c.dtype) for c in columns]
    return tuple(as_array(np.concatenate(pair)) for pair in zip(columns, extra, strict=True))


def as_array(column: np.ndarray) -> jax.Array:
    """On JAX's side; floats in the float type that it has."""
    return jnp.asarray(column, jnp.int32 if column.dtype.kind in "iu" else float)
