"""Practical variance reduction: Algorithm 1 of Chen, Wang, Zhang, Su & Carin (2018).

Every m steps, at the current sample x~ and on n1 data drawn for it, the old gradient is

    g~ = N/n1 sum_{i in anchor} grad loglik(x~, d_i),

and every step, on n2 < n1 data,

    g(x) = g~ + grad logprior(x) + N/n2 sum_{i in batch} (grad loglik(x, d_i) - grad loglik(x~, d_i)).

The paper's n1 is `anchor_size`, its m is `period`, its n2 is the `batch_size` of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32

from vrsgmcmc.core.arguments import whole
from vrsgmcmc.core.gradients import (
    GradientSum,
    collect_gradient,
    corrected_gradient,
    empty_gradient_sum,
)
from vrsgmcmc.core.tree import full_like
from vrsgmcmc.core.types import Batch, Params, Posterior, PRNGKey


class Memory(NamedTuple):
    anchor: Params  # x~
    gradient: Params  # g~
    lock: UInt32[Array, " 2"]  # key of the data as they looked when g~ was computed
    past: Params  # the last `average` positions, leaves [average, ...]; None when average = 1
    count: Any  # how many positions have been seen


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[],
    meta_fields=["anchor_size", "period", "average"],
)
@dataclass(frozen=True)
class Practical:
    name: ClassVar[str] = "practical"

    anchor_size: int
    period: int
    average: int

    def refresh_size(self, size: int) -> int:
        return self.anchor_size

    def refresh_period(self, size: int, batch_size: int | None) -> int | None:
        return self.period

    def cost(self, size: int, batch_size: int) -> int:
        return 2 * batch_size

    def init(self, params: Params, size: int) -> Memory:
        unknown = full_like(params, jnp.nan)
        lock = jnp.zeros(2, jnp.uint32)
        past = None
        if self.average > 1:
            past = jax.tree.map(lambda leaf: jnp.stack([leaf] * self.average), params)
        return Memory(unknown, unknown, lock, past, jnp.ones((), jnp.int32))

    def blank(self, memory: Memory) -> GradientSum:
        return empty_gradient_sum(memory.gradient)

    def collect(
        self, posterior, partial, memory, position, part, lock, present=None
    ) -> GradientSum:
        anchor = self._center(memory, position)
        return collect_gradient(posterior, partial, anchor, part, lock, present)

    def renew(self, partial: GradientSum, memory, position, lock, size) -> Memory:
        scale = size / partial.count
        gradient = jax.tree.map(lambda g: (scale * g).astype(g.dtype), partial.gradient.value)
        return memory._replace(
            anchor=self._center(memory, position),
            gradient=gradient,
            lock=jax.random.key_data(lock),
        )

    def _center(self, memory: Memory, position: Params) -> Params:
        """The current sample, or the mean of the last min(average, l + 1) of them."""
        if self.average == 1:
            return position
        known = jnp.arange(self.average) < memory.count

        def mean(past):
            return jnp.tensordot(known.astype(past.dtype), past, 1) / jnp.sum(known).astype(
                past.dtype
            )

        return jax.tree.map(mean, memory.past)

    def estimate(
        self,
        posterior: Posterior,
        memory: Memory,
        point: Params,
        batch: Batch,
        lock: PRNGKey,
        size: int,
    ) -> tuple[Params, Memory]:
        count = batch.index.shape[0]
        if count >= self.anchor_size:
            raise ValueError(
                f"practical() needs a batch smaller than its anchor: got batch_size={count} and "
                f"anchor_size={self.anchor_size}. Take a larger anchor_size or a smaller batch_size."
            )
        lock = jax.random.wrap_key_data(memory.lock, impl="threefry2x32")
        gradient = corrected_gradient(
            posterior, memory.gradient, memory.anchor, point, batch, lock, size
        )
        return gradient, memory

    def remember(self, memory: Memory, position: Params) -> Memory:
        if self.average == 1:
            return memory
        slot = memory.count % self.average
        past = jax.tree.map(lambda past, x: past.at[slot].set(x), memory.past, position)
        return memory._replace(past=past, count=memory.count + 1)


def practical(anchor_size: int = 100, period: int = 10, average: int = 1) -> Practical:
    """Algorithm 1: 2 n2 evaluations per step and n1 per refresh.

    Variance N (N-n2)/n2 S2(alpha - beta) + N (N-n1)/n1 S2(beta) at each step; the second part is the
    same in all m steps of a cycle, so for small steps it counts m times (see docs/theory).

    - `anchor_size`: n1, the data of the old gradient; must exceed the batch size.
    - `period`: m, steps between two refreshes.
    - `average`: the anchor is the mean of the last `average` positions instead of the last one.
    """
    return Practical(
        whole("practical", "anchor_size", anchor_size),
        whole("practical", "period", period),
        whole("practical", "average", average),
    )
