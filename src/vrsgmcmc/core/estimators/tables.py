"""What SAGA and its blocks share: a table of old gradients, and their sum.

With T_b row b of the table, T = sum_b T_b, and S_b(x) the gradient that row b is for, a step that draws
r of the B rows estimates

    g(x) = T + grad logprior(x) + B/r sum_{b drawn} (S_b(x) - T_b),   then T_b = S_b(x) for b drawn.

A row drawn twice counts twice in the estimate and once in the table.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from ..gradients import prior_gradient, row_gradients
from ..tree import Sum, add, empty_sum, full_like, nbytes
from ..types import Estimator, Params, Posterior


class Memory(NamedTuple):
    table: Params  # leaves [B, ...]
    total: Sum  # T


class Tabular(Estimator):
    """An estimator with a table that its one refresh fills; row b is for block b of the data."""

    def cost(self, size, batch_size):
        return batch_size

    def refresh_size(self, size):
        return size

    def table_rows(self, size: int) -> int:
        """B."""
        return -(-size // self.block_size)

    def table_bytes(self, params, size):
        return self.table_rows(size) * nbytes(params)

    def init(self, params, size):
        count = self.table_rows(size)
        table = jax.tree.map(lambda x: jnp.full((count, *x.shape), jnp.nan, x.dtype), params)
        unknown = full_like(params, jnp.nan)
        return Memory(table, Sum(unknown, unknown))

    def empty_sum(self, memory: Memory):
        return Memory(full_like(memory.table, 0.0), empty_sum(memory.total.total))

    def collect(self, posterior, partial_sum, memory, position, part, augment_key, present=None):
        rows = row_gradients(posterior, position, part, augment_key)
        if present is not None:
            rows = jax.tree.map(lambda row: _weigh(present, row), rows)
        number = part.index if self.block_size == 1 else part.index // self.block_size
        table = jax.tree.map(lambda table, row: table.at[number].add(row), partial_sum.table, rows)
        total = add(partial_sum.total, jax.tree.map(lambda row: jnp.sum(row, 0), rows))
        return Memory(table, total)

    def renew(self, partial_sum, memory, position, augment_key, size):
        return partial_sum

    def correct(
        self,
        posterior: Posterior,
        memory: Memory,
        point: Params,
        index: Int[Array, " r"],
        rows: Params,
        size: int,
    ) -> tuple[Params, Memory]:
        """g(x) and the new memory, from the gradients `rows` [r, ...] of the rows `index`."""
        scale = self.table_rows(size) / index.shape[0]
        old = jax.tree.map(lambda table: table[index], memory.table)
        change = jax.tree.map(jnp.subtract, rows, old)
        total, prior = memory.total.value, prior_gradient(posterior, point)
        gradient = jax.tree.map(
            lambda T, prior, change: T + prior + scale * jnp.sum(change, 0), total, prior, change
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
