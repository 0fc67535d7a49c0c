"""SAGA-LD (Dubey et al. 2016): a table of the last gradient seen for each datum.

With t_i the gradient in row i of the table and G = sum_i t_i,

    g(x) = G + grad logprior(x) + N/n sum_{i in batch} (grad loglik(x, d_i) - t_i),

then t_i = grad loglik(x, d_i) for i in the batch, and G follows. A datum drawn twice in one batch
counts twice in the estimate and once in the table.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from ..gradients import prior_gradient, row_gradients
from ..tree import Sum, add, empty_sum, full_like, nbytes
from ..types import Estimator, Params, description


class Memory(NamedTuple):
    table: Params  # t: leaves [N, ...]
    total: Sum  # G


@description
class SAGA(Estimator):
    name = "saga"

    def cost(self, size, batch_size):
        return batch_size

    def refresh_size(self, size):
        return size

    def init(self, params, size):
        table = jax.tree.map(lambda x: jnp.full((size, *x.shape), jnp.nan, x.dtype), params)
        unknown = full_like(params, jnp.nan)
        return Memory(table, Sum(unknown, unknown))

    def table_bytes(self, params, size):
        return size * nbytes(params)

    def empty_sum(self, memory: Memory):
        return Memory(full_like(memory.table, 0.0), empty_sum(memory.total.total))

    def collect(self, posterior, partial_sum, memory, position, part, augment_key, present=None):
        rows = row_gradients(posterior, position, part, augment_key)
        if present is not None:
            rows = jax.tree.map(lambda row: _weigh(present, row), rows)
        table = jax.tree.map(
            lambda table, row: table.at[part.index].add(row), partial_sum.table, rows
        )
        total = add(partial_sum.total, jax.tree.map(lambda row: jnp.sum(row, 0), rows))
        return Memory(table, total)

    def renew(self, partial_sum, memory, position, augment_key, size):
        return partial_sum

    def estimate(self, posterior, memory, point, batch, augment_key, size):
        index = batch.index
        scale = size / index.shape[0]
        rows = row_gradients(posterior, point, batch, augment_key)
        old = jax.tree.map(lambda table: table[index], memory.table)
        change = jax.tree.map(jnp.subtract, rows, old)
        total, prior = memory.total.value, prior_gradient(posterior, point)
        gradient = jax.tree.map(
            lambda G, prior, change: G + prior + scale * jnp.sum(change, 0), total, prior, change
        )
        earlier = jnp.tril(index[:, None] == index[None, :], -1)
        first = ~jnp.any(earlier, axis=1)
        # XLA writes in place only what must be read before: without `0 * old` it copies the table.
        rows = jax.tree.map(lambda row, old: row + 0 * old, rows, old)
        table = jax.tree.map(lambda table, row: table.at[index].set(row), memory.table, rows)
        moved = jax.tree.map(lambda change: jnp.sum(_weigh(first, change), 0), change)
        return gradient, Memory(table, add(memory.total, moved))


def _weigh(weight: Shaped[Array, " b"], rows: Float[Array, "b ..."]) -> Float[Array, "b ..."]:
    return rows * weight.astype(rows.dtype).reshape(-1, *(1,) * (rows.ndim - 1))


def saga() -> SAGA:
    """SAGA-LD: n evaluations per step, N once for the table, which holds N times the parameters."""
    return SAGA()
