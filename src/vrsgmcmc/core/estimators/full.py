"""The exact gradient.

g(x) = grad logprior(x) + sum_{i=1..N} grad loglik(x, d_i)
"""

import jax
import jax.numpy as jnp

from ..gradients import likelihood_gradient, prior_gradient
from ..types import Estimator, description


@description
class Full(Estimator):
    name = "full"
    uses_all_data = True

    def cost(self, size, batch_size):
        return size

    def estimate(self, posterior, memory, point, batch, augment_key, size):
        if (count := batch.index.shape[0]) != size:
            raise ValueError(
                f"full() needs all {size} data in its batch, got {count}. "
                "Pass Batch(arange(N), data), or use minibatch()."
            )
        likelihood = likelihood_gradient(posterior, point, batch, augment_key)
        return jax.tree.map(jnp.add, prior_gradient(posterior, point), likelihood), memory


def full() -> Full:
    """The exact gradient of the log posterior: N evaluations per step, no noise."""
    return Full()
