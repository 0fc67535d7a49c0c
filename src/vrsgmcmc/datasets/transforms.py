"""Standardise, split and extend tables of data."""

import numpy as np
from jaxtyping import Float, Real
from numpy.typing import ArrayLike


def standardise(train: ArrayLike, *others: ArrayLike) -> tuple[Float[np.ndarray, "_ d"], ...]:
    """(x - mean) / sd, column by column, with mean and sd (divisor n) of `train` for all tables.

    Returns a tuple, `train` first: `train, test = standardise(train, test)`. Columns that are constant
    in `train` (a column of ones, say) have no scale and stay unchanged in every table. The results are
    float64.
    """
    tables = [np.asarray(table, np.float64) for table in (train, *others)]
    for table in tables:
        if table.ndim != 2 or table.shape[1:] != tables[0].shape[1:]:
            raise ValueError(
                "standardise takes tables [n, d] with the same columns, got shapes "
                f"{', '.join(str(table.shape) for table in tables)}. Labels stay outside."
            )
    if len(tables[0]) == 0:
        raise ValueError("standardise: the first table has no rows, so no mean. Give it some.")
    constant = tables[0].min(axis=0) == tables[0].max(axis=0)
    mean = np.where(constant, 0.0, tables[0].mean(axis=0))
    sd = np.where(constant, 1.0, tables[0].std(axis=0))
    return tuple((table - mean) / sd for table in tables)


def split(
    x: ArrayLike,
    y: ArrayLike,
    test_fraction: float = 0.2,
    seed: int = 0,
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Split the rows at random: `(x_train, y_train), (x_test, y_test) = split(x, y)`.

    round(test_fraction * n) rows go to the test part. The same seed gives the same split.
    """
    x, y = np.asarray(x), np.asarray(y)
    if len(x) != len(y):
        raise ValueError(
            f"x and y must have the same number of rows, got {len(x)} and {len(y)}. "
            "Take the same rows of both."
        )
    if not 0 < test_fraction < 1:
        raise ValueError(
            f"test_fraction must lie strictly between 0 and 1, got {test_fraction!r}. "
            "0.2 keeps a fifth of the rows for testing."
        )
    count = round(test_fraction * len(x))
    if not 0 < count < len(x):
        raise ValueError(
            f"test_fraction = {test_fraction} of {len(x)} rows puts {count} in the test part and "
            f"{len(x) - count} in the training part. Choose a fraction that leaves both some rows."
        )
    order = np.random.default_rng(seed).permutation(len(x))
    test, train = order[:count], order[count:]
    return (x[train], y[train]), (x[test], y[test])


def with_intercept(x: ArrayLike) -> Real[np.ndarray, "n columns"]:
    """Add a column of ones before the others, so that w[0] is the intercept."""
    x = np.asarray(x)
    if x.ndim != 2:
        raise ValueError(
            f"with_intercept takes a table [n, d], got shape {x.shape}. "
            "One column is x.reshape(-1, 1), one row x.reshape(1, -1)."
        )
    return np.concatenate([np.ones((len(x), 1), x.dtype), x], axis=1)
