"""What anchored estimators share: an old gradient at an anchor, corrected on each batch.

A refresh at the anchor x~ sums the old gradient over n1 data, and each step corrects it on n data:

    g~   = N/n1 sum_{i in anchor} grad loglik(x~, d_i)
    g(x) = g~ + grad logprior(x) + N/n sum_{i in batch} (grad loglik(x, d_i) - grad loglik(x~, d_i))

The augmentation key of the refresh serves until the next one, so that both gradients of a datum see
the same crop of it and their difference is small.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

from ..gradients import likelihood_gradient, prior_gradient
from ..tree import Sum, add, empty_sum, full_like
from ..types import Batch, Estimator, Params, Posterior, PRNGKey


class Memory(NamedTuple):
    anchor: Params  # x~
    gradient: Params  # g~
    augment_key: UInt32[Array, " 2"]  # words of the key under which g~ was computed


class GradientSum(NamedTuple):
    """The part of an anchor that has been visited: partial sums add leaf by leaf."""

    gradient: Sum
    count: Int[Array, ""]  # a float32 would stop counting at 2**24


def corrected_gradient(
    posterior: Posterior,
    old: Params,
    anchor: Params,
    point: Params,
    batch: Batch,
    augment_key: PRNGKey,
    size: int,
) -> Params:
    """g(x) of the equation above. Two calls beat one stacked call."""
    scale = size / batch.index.shape[0]
    prior = prior_gradient(posterior, point)
    here = likelihood_gradient(posterior, point, batch, augment_key)
    there = likelihood_gradient(posterior, anchor, batch, augment_key)

    def correct(old, prior, here, there):
        return old + prior + scale * (here - there)

    return jax.tree.map(correct, old, prior, here, there)


class Anchored(Estimator):
    """An estimator with an anchor; its own file says where the anchor is and how often it moves."""

    def anchor(self, memory: Any, position: Params) -> Params:
        """Where a refresh at `position` puts the anchor."""
        return position

    def cost(self, size, batch_size):
        return 2 * batch_size

    def refresh_size(self, size):
        return size

    def init(self, params, size):
        unknown = full_like(params, jnp.nan)
        return Memory(unknown, unknown, jnp.zeros(2, jnp.uint32))

    def empty_sum(self, memory):
        return GradientSum(empty_sum(memory.gradient), jnp.zeros((), jnp.int32))

    def collect(
        self, posterior, partial_sum, memory, position, part, augment_key, present=None
    ) -> GradientSum:
        anchor = self.anchor(memory, position)
        gradient = likelihood_gradient(posterior, anchor, part, augment_key, present)
        count = part.index.shape[0] if present is None else jnp.sum(present).astype(jnp.int32)
        return GradientSum(add(partial_sum.gradient, gradient), partial_sum.count + count)

    def renew(self, partial_sum: GradientSum, memory, position, augment_key, size):
        gradient = partial_sum.gradient.value
        if self.refresh_size(size) < size:
            scale = size / partial_sum.count.astype(float)
            gradient = jax.tree.map(lambda g: (scale * g).astype(g.dtype), gradient)
        return memory._replace(
            anchor=self.anchor(memory, position),
            gradient=gradient,
            augment_key=jax.random.key_data(augment_key),
        )

    def estimate(self, posterior, memory, point, batch, augment_key, size):
        anchor_key = jax.random.wrap_key_data(memory.augment_key, impl="threefry2x32")
        gradient = corrected_gradient(
            posterior, memory.gradient, memory.anchor, point, batch, anchor_key, size
        )
        return gradient, memory
