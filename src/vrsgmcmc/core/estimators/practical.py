"""Practical variance reduction: Algorithm 1 of Chen, Wang, Zhang, Su & Carin (2018).

Every m steps, at the current sample x~ and on n1 data drawn for it, the old gradient is

    g~ = N/n1 sum_{i in anchor} grad loglik(x~, d_i),

and every step, on n2 < n1 data,

    g(x) = g~ + grad logprior(x) + N/n2 sum_{i in batch} (grad loglik(x, d_i) - grad loglik(x~, d_i)).

The paper's n1 is `anchor_size`, its m is `period`, its n2 is the `batch_size` of the run.
"""

from dataclasses import field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32

from ..arguments import whole
from ..types import STATIC, Params, description
from .anchored import Anchored


class Memory(NamedTuple):
    anchor: Params  # x~
    gradient: Params  # g~
    augment_key: UInt32[Array, " 2"]  # words of the key under which g~ was computed
    past: Params  # the last `average` positions, leaves [average, ...]; None when average = 1
    count: Any  # how many positions there have been


@description
class Practical(Anchored):
    name = "practical"

    anchor_size: int = field(metadata=STATIC)
    period: int = field(metadata=STATIC)
    average: int = field(metadata=STATIC)

    def refresh_size(self, size):
        return self.anchor_size

    def refresh_period(self, size, batch_size):
        return self.period

    def init(self, params, size):
        past = None
        if self.average > 1:
            past = jax.tree.map(lambda leaf: jnp.stack([leaf] * self.average), params)
        return Memory(*super().init(params, size), past, jnp.ones((), jnp.int32))

    def anchor(self, memory: Memory, position):
        """The current sample, or the mean of the last min(average, l + 1) of them."""
        if self.average == 1:
            return position
        valid = jnp.arange(self.average) < memory.count

        def mean(past):
            weights = valid.astype(past.dtype)
            return jnp.tensordot(weights, past, 1) / jnp.sum(valid).astype(past.dtype)

        return jax.tree.map(mean, memory.past)

    def estimate(self, posterior, memory, point, batch, augment_key, size):
        if (count := batch.index.shape[0]) >= self.anchor_size:
            raise ValueError(
                f"practical() needs a batch smaller than its anchor: got batch_size={count} and "
                f"anchor_size={self.anchor_size}. Take a larger anchor_size or a smaller batch_size."
            )
        return super().estimate(posterior, memory, point, batch, augment_key, size)

    def update(self, memory: Memory, position):
        if self.average == 1:
            return memory
        slot = memory.count % self.average
        past = jax.tree.map(lambda past, x: past.at[slot].set(x), memory.past, position)
        return memory._replace(past=past, count=memory.count + 1)

    def check_sizes(self, size, batch_size):
        if batch_size >= self.anchor_size:
            raise ValueError(
                f"practical(anchor_size={self.anchor_size}) with batch_size={batch_size}: the anchor "
                "must see more data than a step (n1 > n2), otherwise the noise grows. Take a larger "
                "anchor_size or a smaller batch_size."
            )


def practical(anchor_size: int = 100, period: int = 10, average: int = 1) -> Practical:
    """Algorithm 1: 2 n2 evaluations per step and n1 per refresh.

    Variance N (N-n2)/n2 S2(alpha - beta) + N (N-n1)/n1 S2(beta) at each step; the second part is the
    same in all m steps of a cycle, so for small steps it counts m times: docs/variance-reduction.md.

    - `anchor_size`: n1, the data of the old gradient; must exceed the batch size.
    - `period`: m, steps between two refreshes.
    - `average`: the anchor is the mean of the last `average` positions instead of the last one.
    """
    return Practical(
        whole("practical", "anchor_size", anchor_size),
        whole("practical", "period", period),
        whole("practical", "average", average),
    )
