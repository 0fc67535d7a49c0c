"""The exact gradient.

g(x) = grad logprior(x) + sum_{i=1..N} grad loglik(x, d_i)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from vrsgmcmc.core.gradients import likelihood_gradient, prior_gradient
from vrsgmcmc.core.types import Batch, Params, Posterior, PRNGKey


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=[])
@dataclass(frozen=True)
class Full:
    name: ClassVar[str] = "full"

    def refresh_size(self, size: int) -> int:
        return 0

    def refresh_period(self, size: int, batch_size: int | None) -> int | None:
        return None

    def cost(self, size: int, batch_size: int) -> int:
        return size

    def init(self, params: Params, size: int) -> Any:
        return ()

    def estimate(
        self,
        posterior: Posterior,
        memory: Any,
        point: Params,
        batch: Batch,
        lock: PRNGKey,
        size: int,
    ) -> tuple[Params, Any]:
        count = batch.index.shape[0]
        if count != size:
            raise ValueError(
                f"full() needs all {size} data in its batch, got {count}. "
                "Pass Batch(arange(N), data), or use minibatch()."
            )
        likelihood = likelihood_gradient(posterior, point, batch, lock)
        return jax.tree.map(jnp.add, prior_gradient(posterior, point), likelihood), memory


def full() -> Full:
    """The exact gradient of the log posterior: N evaluations per step, no noise."""
    return Full()
