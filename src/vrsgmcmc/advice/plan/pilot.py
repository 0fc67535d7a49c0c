"""The pilot: find the mode at low cost, and the local model there.

A sample of the data gives an approximate mode and an approximate Hessian for a fraction of a pass each.
Newton's steps on all data with that Hessian then converge to the mode, one pass each. If they do not
converge, L-BFGS goes on with all data.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc.core import Data, Params, Posterior, bounded_jit, data_size
from vrsgmcmc.run import find_mode
from vrsgmcmc.theory import Local, local

from ..gradients import full_gradient

NEWTON_STEPS = 8
CLOSE = 0.01  # times d: the squared distance to the mode, in standard deviations


def pilot(
    posterior: Posterior, data: Data, params: Params, rows: int, seed: int
) -> tuple[Params, Local, int]:
    """A mode, the local model there, and the evaluations of both."""
    size = data_size(data)
    sample_posterior, sample = posterior, data
    if rows < size:
        index = np.sort(np.random.default_rng(seed).choice(size, rows, replace=False))
        sample = jax.tree.map(lambda leaf: leaf[index], data)
        loglik = scale_loglik(posterior.loglik, size / rows)
        sample_posterior = Posterior(posterior.logprior, loglik, posterior.augment)
    params, cost = find_mode(sample_posterior, sample, params)
    model = local(posterior, data, params, rows=rows, seed=seed)
    cost += model.evaluations
    if rows < size:
        params, passes, converged = newton(posterior, data, params, model)
        cost += passes * size
        if not converged:
            params, more = find_mode(posterior, data, params)
            model = local(posterior, data, params, rows=rows, seed=seed)
            cost += more + model.evaluations
    return params, model._replace(center=np.asarray(ravel_pytree(params)[0], float)), cost


def newton(
    posterior: Posterior, data: Data, params: Params, model: Local
) -> tuple[Params, int, bool]:
    """Newton's method with the model's Hessian: the last point, the steps, whether it converged."""
    x, unravel = ravel_pytree(params)
    before = np.inf
    for passes in range(1, NEWTON_STEPS + 1):
        gradient = gradient_program(posterior, data, unravel(x))
        step = (np.asarray(ravel_pytree(gradient)[0], float) @ model.directions) / model.curvature
        distance = float(np.sum(model.curvature * step**2))
        if not distance < before:
            return unravel(x), passes, False
        x = x + jnp.asarray(model.directions @ step, x.dtype)
        if distance < CLOSE * len(step):
            return unravel(x), passes, True
        before = distance
    return unravel(x), NEWTON_STEPS, False


gradient_program = bounded_jit(full_gradient)


@lru_cache(maxsize=8)  # an equal function compiles nothing again
def scale_loglik(loglik: Callable[..., Any], weight: float) -> Callable[..., Any]:
    """The log-likelihood of a datum that represents `weight` data."""
    return lambda params, datum: weight * loglik(params, datum)
