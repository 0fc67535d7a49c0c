"""Rows of the data whose log-likelihood, or its gradient, is not finite at a position."""

import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core

ROWS_AT_ONCE = 4096  # in one call; the clock is read between two calls
GRADIENT_BYTES = 2**27  # of gradients of single rows that are held together


class BadRows(NamedTuple):
    """The rows that are not finite, among the first rows of the data."""

    first: int
    value: float  # log-likelihood of the first one
    count: int
    looked_at: int  # rows


def find_bad_rows(
    posterior: core.Posterior,
    params: core.Params,
    data: core.Data,
    *,
    gradients: bool = False,
    seconds: float,
) -> BadRows | None:
    """Look at the rows in order, at all of them unless that takes longer than `seconds`.

    `gradients`: a row is bad, too, if its value is finite and its gradient is not.
    """
    size = core.data_size(data)
    length = min(ROWS_AT_ONCE, size)
    batch = core.part_size(posterior, params, data)
    if gradients:
        batch = max(1, min(batch, GRADIENT_BYTES // max(1, core.nbytes(params))))
    count, first, value, stop, end = 0, -1, 0.0, 0, np.inf
    while stop < size and time.monotonic() < end:
        begin, new = min(stop, size - length), max(0, stop - (size - length))
        values, fine = _look(posterior, length, batch, gradients, params, data, np.int32(begin))
        bad = np.flatnonzero(~np.asarray(fine)[new:]) + new  # the last call sees some rows again
        if bad.size and not count:
            first, value = begin + int(bad[0]), float(values[bad[0]])
        count, stop = count + bad.size, begin + length
        end = min(end, time.monotonic() + seconds)  # not counted: what it takes to compile
    return BadRows(first, value, count, stop) if count else None


@partial(core.bounded_jit, static=4)
def _look(posterior, length, batch, gradients, params, data, begin):
    """The log-likelihoods of the rows from `begin` on, and which rows are finite."""
    augment_key = jax.random.key(0)

    def one(row):
        rows = jax.tree.map(lambda leaf: leaf[None], core.Batch(*row))
        value = core.row_likelihoods(posterior, params, rows, augment_key)[0]
        fine = jnp.isfinite(value)
        if gradients:
            fine &= core.all_finite(core.row_gradients(posterior, params, rows, augment_key))
        return value, fine

    items = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, begin, length), data)
    return jax.lax.map(one, (begin + jnp.arange(length), items), batch_size=batch)
