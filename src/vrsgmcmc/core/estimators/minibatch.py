"""The standard stochastic gradient of SG-MCMC (Welling & Teh 2011).

g(x) = grad logprior(x) + N/n sum_{i in batch} grad loglik(x, d_i)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax

from vrsgmcmc.core.gradients import likelihood_gradient, prior_gradient
from vrsgmcmc.core.types import Batch, Params, Posterior, PRNGKey


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=[])
@dataclass(frozen=True)
class Minibatch:
    name: ClassVar[str] = "minibatch"

    def refresh_size(self, size: int) -> int:
        return 0

    def refresh_period(self, size: int, batch_size: int | None) -> int | None:
        return None

    def cost(self, size: int, batch_size: int) -> int:
        return batch_size

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
        scale = size / batch.index.shape[0]
        gradient = jax.tree.map(
            lambda prior, likelihood: prior + scale * likelihood,
            prior_gradient(posterior, point),
            likelihood_gradient(posterior, point, batch, lock),
        )
        return gradient, memory


def minibatch() -> Minibatch:
    """Plain minibatches: n evaluations per step. Variance N (N-n)/n S2(alpha)."""
    return Minibatch()
