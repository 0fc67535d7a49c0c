"""SVRG-LD (Dubey et al. 2016): the anchor sees all data.

Every m steps, at the current sample x~,   g~ = sum_{i=1..N} grad loglik(x~, d_i),   and every step

    g(x) = g~ + grad logprior(x) + N/n sum_{i in batch} (grad loglik(x, d_i) - grad loglik(x~, d_i)).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

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


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["period"])
@dataclass(frozen=True)
class SVRG:
    name: ClassVar[str] = "svrg"

    period: int | None

    def refresh_size(self, size: int) -> int:
        return size

    def refresh_period(self, size: int, batch_size: int | None) -> int | None:
        if self.period is None and batch_size is not None:
            return -(-size // batch_size)
        return self.period

    def cost(self, size: int, batch_size: int) -> int:
        return 2 * batch_size

    def init(self, params: Params, size: int) -> Memory:
        unknown = full_like(params, jnp.nan)
        lock = jnp.zeros(2, jnp.uint32)
        return Memory(unknown, unknown, lock)

    def blank(self, memory: Memory) -> GradientSum:
        return empty_gradient_sum(memory.gradient)

    def collect(
        self, posterior, partial, memory, position, part, lock, present=None
    ) -> GradientSum:
        return collect_gradient(posterior, partial, position, part, lock, present)

    def renew(self, partial: GradientSum, memory, position, lock, size) -> Memory:
        return Memory(position, partial.gradient.value, jax.random.key_data(lock))

    def estimate(
        self,
        posterior: Posterior,
        memory: Memory,
        point: Params,
        batch: Batch,
        lock: PRNGKey,
        size: int,
    ) -> tuple[Params, Memory]:
        lock = jax.random.wrap_key_data(memory.lock, impl="threefry2x32")
        gradient = corrected_gradient(
            posterior, memory.gradient, memory.anchor, point, batch, lock, size
        )
        return gradient, memory


def svrg(period: int | None = None) -> SVRG:
    """SVRG-LD: 2 n evaluations per step and N per refresh. Variance N (N-n)/n S2(alpha - beta).

    - `period`: steps between two refreshes; None: ceil(N / batch_size), as in the paper.
    """
    return SVRG(None if period is None else whole("svrg", "period", period))
