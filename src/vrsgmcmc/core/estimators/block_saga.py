"""SAGA with a table of block sums: one gradient for a datum, and a table of N/s rows.

The data are cut into B = ceil(N/s) fixed blocks of s consecutive rows; the last one may be shorter.
With S_b(x) the sum of grad loglik(x, d_i) over block b, T_b row b of the table and T = sum_b T_b, a
step draws r = n/s blocks, independently of all other steps, and

    g(x) = T + grad logprior(x) + B/r sum_{b drawn} (S_b(x) - T_b),   then T_b = S_b(x) for b drawn.

Blocks are equally likely whatever their length, and B/r sum_{b drawn} S_b has mean sum_b S_b: a short
block is exact by itself.
"""

from dataclasses import field

import jax
import jax.numpy as jnp

from ..arguments import whole
from ..gradients import likelihood_gradient
from ..types import STATIC, Batch, Params, description
from .tables import Tabular


@description
class BlockSAGA(Tabular):
    name = "block_saga"

    block_size: int = field(metadata=STATIC)

    def estimate(self, posterior, memory, point, batch, augment_key, size):
        s = self.block_size
        if (count := batch.index.shape[0]) % s:
            raise ValueError(
                f"block_saga(block_size={s}) needs whole blocks, got a batch of {count} rows. Draw it "
                "with vrsgmcmc.core.draw(..., block=block_size)."
            )
        drawn: Batch = jax.tree.map(lambda leaf: leaf.reshape(-1, s, *leaf.shape[1:]), batch)

        def block_sum(block: Batch) -> Params:
            present = (block.index < size).astype(jnp.float32)  # a short block is filled up
            return likelihood_gradient(posterior, point, block, augment_key, present)

        number = drawn.index[:, 0] // s
        return self.correct(posterior, memory, point, number, jax.vmap(block_sum)(drawn), size)

    def check_sizes(self, size, batch_size):
        if self.block_size > size or batch_size % self.block_size:
            raise ValueError(
                f"block_saga(block_size={self.block_size}) with batch_size={batch_size} and {size} "
                "rows: a step visits whole blocks, so batch_size must be a multiple of block_size."
            )

    def check_order(self, order):
        if order in ("shuffled", "symmetric"):
            raise ValueError(
                f"block_saga() with order={order!r}: its blocks are drawn independently at each step. "
                "A sweep makes the rows of the table depend on each other, and the chain's variance "
                "too small. Take order='with_replacement' or 'without_replacement'."
            )


def block_saga(block_size: int) -> BlockSAGA:
    """SAGA over blocks of rows: n evaluations per step, N once; its table holds N/s gradients.

    - `block_size`: s, consecutive rows whose gradients the table holds as one sum. Shuffle data that
      are sorted. The batch size is a multiple of it; four blocks or more in a step are best.
    """
    return BlockSAGA(whole("block_saga", "block_size", block_size))
