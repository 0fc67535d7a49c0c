"""The gradient of the log posterior over all data."""

import jax
import jax.numpy as jnp

from vrsgmcmc.core import (
    Data,
    Params,
    Posterior,
    all_rows,
    bounded_jit,
    likelihood_gradient,
    prior_gradient,
)


def full_gradient(posterior: Posterior, data: Data, params: Params) -> Params:
    """The gradient at `params`; N evaluations."""
    batch = all_rows(data)
    likelihood = likelihood_gradient(posterior, params, batch, jax.random.key(0))
    return jax.tree.map(jnp.add, likelihood, prior_gradient(posterior, params))


gradient_program = bounded_jit(full_gradient)
