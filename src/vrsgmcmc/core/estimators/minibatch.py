"""The standard stochastic gradient of SG-MCMC (Welling & Teh 2011).

g(x) = grad logprior(x) + N/n sum_{i in batch} grad loglik(x, d_i)
"""

import jax

from ..gradients import likelihood_gradient, prior_gradient
from ..types import Estimator, description


@description
class Minibatch(Estimator):
    name = "minibatch"

    def cost(self, size, batch_size):
        return batch_size

    def estimate(self, posterior, memory, point, batch, augment_key, size):
        scale = size / batch.index.shape[0]
        prior = prior_gradient(posterior, point)
        rows = likelihood_gradient(posterior, point, batch, augment_key)
        return jax.tree.map(lambda prior, rows: prior + scale * rows, prior, rows), memory


def minibatch() -> Minibatch:
    """Plain minibatches: n evaluations per step. Variance N (N-n)/n S2(alpha)."""
    return Minibatch()
