"""The log-likelihood of every datum at every draw, in blocks: what comparisons of models are made of.

    values[c, s, i] = loglik(x_cs, d_i)

A block has some draws and some rows; one call computes as many pairs as keep the caches.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from xarray.backends import BackendArray
from xarray.core import indexing

from vrsgmcmc import core

from .memory import check_memory, free_memory
from .parts import Part, need_model, one_draw, parts, select

if TYPE_CHECKING:
    from .result import Result

logger = logging.getLogger("vrsgmcmc")
ROWS_AT_ONCE = 2**14  # in one call
MOST_PAIRS = 2**16  # of draws and rows that are in work together
LARGE = 2**30  # bytes: said before they are taken
COPIES = 40  # bytes for each value: what ArviZ takes for its weights of importance


def log_likelihood(
    result: Result, rows: Any = None, *, most: int | None = None
) -> Float[np.ndarray, "chain draw row"]:
    """See `Result.log_likelihood`."""
    where = "log_likelihood"
    need_model(result, where)
    index = as_rows(where, rows, core.data_size(result.context.data))
    part = select(result, where, most)
    check_size(where, part, index.size, jnp.result_type(float).itemsize)
    return blocks(result, part, index)


def as_rows(where: str, rows: Any, size: int) -> Int[np.ndarray, " row"]:
    """Indices of rows of the data: from a list, a slice or a mask."""
    if rows is None or isinstance(rows, slice):
        return np.arange(size)[slice(None) if rows is None else rows]
    index = np.atleast_1d(np.asarray(rows))
    if index.shape == (0,):
        return np.arange(0)
    if index.dtype == bool and index.shape == (size,):
        return np.flatnonzero(index)
    if index.dtype.kind not in "iu" or index.ndim != 1:
        raise TypeError(
            f"{where}(rows=...): rows are indices, a slice, or a mask of {size:,} values; got an "
            f"array of {index.dtype} {list(index.shape)}."
        )
    if index.size and not (index.min() >= 0 and index.max() < size):
        raise IndexError(
            f"{where}(rows=...): rows go from 0 to {size - 1:,}; got {index.min()} to {index.max()}."
        )
    return index


def check_size(where: str, part: Part, rows: int, each: int) -> None:
    """Refuse what does not fit in memory, `each` bytes a value, and say before what is large."""
    chains, draws = part.chains.size, part.draws.size
    needed = each * part.count * rows
    what = f"{where}: {chains} chains x {draws:,} draws x {rows:,} rows"
    check_memory(
        needed,
        what,
        f"Take fewer draws (most={max(1, part.count // 10):,}), fewer rows (rows=...), or "
        "result.loo_subsample(), which takes some rows.",
    )
    level = logging.WARNING if needed > LARGE else logging.INFO
    logger.log(level, "%s takes %s of %s free bytes", what, f"{needed:,}", f"{free_memory():,}")


def blocks(
    result: Result, part: Part, rows: Int[np.ndarray, " row"]
) -> Float[np.ndarray, "chain draw row"]:
    """The log-likelihoods of some rows at some draws."""
    posterior, data, _ = result.context
    values = np.empty((part.chains.size, part.draws.size, rows.size), jnp.result_type(float))
    if not rows.size:
        return values
    length, sizes = block_shape(result, one_draw(result), rows.size)
    for where, tree in parts(result, part):
        draws = jax.tree.map(lambda leaf: jnp.asarray(leaf.reshape(-1, *leaf.shape[2:])), tree)
        for start in range(0, rows.size, length):
            start = min(start, rows.size - length)  # the last call sees some rows again
            index = jnp.asarray(rows[start : start + length], jnp.int32)
            block = np.asarray(_block(posterior, sizes, draws, data, index))
            block = block.reshape(part.chains.size, -1, length)
            values[:, where, start : start + length] = block
    return values


def block_shape(result: Result, params: Any, rows: int) -> tuple[int, tuple[int, int]]:
    """The rows of one call, and how many rows and draws are in work together."""
    posterior, data, _ = result.context
    pairs = core.part_size(posterior, jax.tree.map(jnp.asarray, params), data, MOST_PAIRS)
    length = min(rows, ROWS_AT_ONCE)
    return length, (min(length, pairs), max(1, pairs // length))


def _at_rows(posterior: Any, sizes: tuple[int, int], draws: Any, data: Any, index: Any) -> Any:
    """loglik [draw, row]; with `augment`, the datum of one key."""
    augment_key = jax.random.key(0)

    def at_draw(params: Any) -> Any:
        def at_row(row: Any) -> Any:
            rows = jax.tree.map(lambda leaf: leaf[None], row)
            return core.row_likelihoods(posterior, params, rows, augment_key)[0]

        return jax.lax.map(at_row, core.rows(data, index), batch_size=sizes[0])

    return jax.lax.map(at_draw, draws, batch_size=sizes[1])


_block = core.bounded_jit(_at_rows, static=2)


def predictive_density(result: Result, draws: Any, count: int) -> Float[np.ndarray, " row"]:
    """log of the mean over `count` draws of p(d_i | x), for every row: memory for the rows alone."""
    posterior, data, _ = result.context
    size = core.data_size(data)
    length, sizes = block_shape(result, jax.tree.map(lambda leaf: leaf[0], draws), size)
    values = np.empty(size)
    for start in range(0, size, length):
        start = min(start, size - length)
        index = jnp.arange(start, start + length, dtype=jnp.int32)
        block = np.asarray(_block(posterior, sizes, draws, data, index), np.float64)
        values[start : start + length] = np.logaddexp.reduce(block, axis=0) - np.log(count)
    return values


class LazyLogLikelihood(BackendArray):
    """[chain, draw, row], computed for the rows that are asked for: what ArviZ subsamples."""

    dtype = np.dtype(np.float64)

    def __init__(self, result: Result, part: Part, size: int):
        self.result, self.part = result, part
        self.shape = part.chains.size, part.draws.size, size
        self.last = np.empty(0, int), np.empty((*self.shape[:2], 0))  # ArviZ asks more than once

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, support, self.read)

    def read(self, key: tuple[Any, ...]) -> np.ndarray:
        chains, draws, rows = key
        index = np.atleast_1d(np.arange(self.shape[2])[rows])
        if not np.array_equal(index, self.last[0]):
            check_size("loo_subsample", self.part, index.size, COPIES)
            self.last = index, blocks(self.result, self.part, index).astype(np.float64)
        values = self.last[1] if np.ndim(rows) or isinstance(rows, slice) else self.last[1][..., 0]
        return values[:, draws][chains]
