"""The pilot: to the mode cheaply, and the local model there.

A sample of the data gives a mode near the right one and a Hessian near the right one for a fraction of
a pass each; with that Hessian, Newton's steps on all data close the rest of the way, one pass each.
Where they do not, the search goes on without them.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc.core import Batch, Data, Params, Posterior, likelihood_gradient, prior_gradient
from vrsgmcmc.run import find_mode
from vrsgmcmc.theory import Local, local

NEWTON_STEPS = 8
CLOSE = 0.01  # times d: the squared distance to the mode, in standard deviations


def pilot(
    posterior: Posterior, data: Data, params: Params, rows: int, seed: int
) -> tuple[Params, Local, int]:
    """A mode, the local model there, and the evaluations that both took."""
    size = jax.tree.leaves(data)[0].shape[0]
    searched, some = posterior, data
    if rows < size:
        index = np.sort(np.random.default_rng(seed).choice(size, rows, replace=False))
        some = jax.tree.map(lambda leaf: leaf[index], data)
        searched = Posterior(
            posterior.logprior, _weighed(posterior.loglik, size / rows), posterior.augment
        )
    params, spent = find_mode(searched, some, params)
    model = local(posterior, data, params, rows=rows, seed=seed)
    spent += model.evaluations
    if rows < size:
        params, passes, arrived = newton(posterior, data, params, model)
        spent += passes * size
        if not arrived:
            params, more = find_mode(posterior, data, params)
            model = local(posterior, data, params, rows=rows, seed=seed)
            spent += more + model.evaluations
    return params, model._replace(center=np.asarray(ravel_pytree(params)[0], float)), spent


def newton(
    posterior: Posterior, data: Data, params: Params, model: Local
) -> tuple[Params, int, bool]:
    """Steps of Newton's method with the model's Hessian: where they led, how many, near enough?"""
    x, unravel = ravel_pytree(params)
    before = np.inf
    for passes in range(1, NEWTON_STEPS + 1):
        slope = np.asarray(ravel_pytree(_gradient(posterior, data, unravel(x)))[0], float)
        across = (slope @ model.directions) / model.curvature
        distance = float(np.sum(model.curvature * across**2))
        if not distance < before:
            return unravel(x), passes, False
        x = x + jnp.asarray(model.directions @ across, x.dtype)
        if distance < CLOSE * len(across):
            return unravel(x), passes, True
        before = distance
    return unravel(x), NEWTON_STEPS, False


@partial(jax.jit, static_argnames="posterior")
def _gradient(posterior: Posterior, data: Data, params: Params) -> Params:
    batch = Batch(jnp.arange(jax.tree.leaves(data)[0].shape[0]), data)
    likelihood = likelihood_gradient(posterior, params, batch, jax.random.key(0))
    return jax.tree.map(jnp.add, likelihood, prior_gradient(posterior, params))


@lru_cache(maxsize=8)  # the same function again compiles nothing
def _weighed(loglik: Any, weight: float) -> Any:
    """The log-likelihood of a datum that stands for several."""
    return lambda params, datum: weight * loglik(params, datum)
