"""The pilot: find the mode at low cost, and the local model there.

A sample of the data gives an approximate mode and an approximate Hessian for a fraction of a pass each.
Newton's steps on all data with that Hessian then converge to the mode, one pass each. If they do not
converge, L-BFGS goes on with all data, and the Hessian is measured again. Without a mode there is no
plan.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc.core import Data, Params, Posterior, data_size
from vrsgmcmc.run import find_mode
from vrsgmcmc.theory import Local, local

from ..gradients import gradient_program

NEWTON_STEPS = 8
WORSE = 3.0  # times the least distance: a step that goes further away ends Newton's method
ATTEMPTS = 3  # of Newton's method, each with a Hessian of its own
SEARCH = 0.4  # of the allowance, for the search on the sample
SEARCH_PASSES, FULL_PASSES = 20, 3  # over the sample and over all data, at the least
CLOSE, FAIR = 0.1, 0.3  # distances to the mode, in standard deviations: to aim at, and to accept


def fewest_rows(dimension: int, size: int) -> int:
    """Rows of the smallest sample that a Hessian is measured on."""
    return min(8 * dimension, size)


def least_cost(dimension: int, size: int) -> int:
    """Evaluations of the cheapest pilot: search and Hessian on the smallest sample, and passes."""
    each = SEARCH_PASSES + 1 + 2 * dimension
    return each * fewest_rows(dimension, size) + FULL_PASSES * size


def pilot(
    posterior: Posterior, data: Data, params: Params, rows: int, seed: int, most: float = np.inf
) -> tuple[Params, Local, int]:
    """A mode, the local model there, and the evaluations of both, about `most` of them at most."""
    size = data_size(data)
    sample_posterior, sample = posterior, data
    if rows < size:
        index = np.sort(np.random.default_rng(seed).choice(size, rows, replace=False))
        sample = jax.tree.map(lambda leaf: leaf[index], data)
        loglik = scale_loglik(posterior.loglik, size / rows)
        sample_posterior = Posterior(posterior.logprior, loglik, posterior.augment)
    search = find_mode(sample_posterior, sample, params, most=SEARCH * most)
    params, cost, distance = search.params, search.evaluations, search.distance
    for attempt in range(ATTEMPTS):
        model = local(posterior, data, params, rows=rows, seed=seed)
        cost += model.evaluations
        passes = int(np.clip((most - cost) / size, 1, NEWTON_STEPS))
        params, passes, distance = newton(posterior, data, params, model, passes)
        cost += passes * size
        left = most - cost - model.evaluations - 2 * size
        last = attempt + 1 == ATTEMPTS or left < FULL_PASSES * size
        if distance < (FAIR if last else CLOSE):
            return params, model._replace(center=np.asarray(ravel_pytree(params)[0], float)), cost
        if last:
            break
        search = find_mode(posterior, data, params, most=left)
        params, cost = search.params, cost + search.evaluations
    raise ValueError(
        f"plan: the search for a mode did not converge. After {cost:,} evaluations it is still "
        f"{distance:.2g} posterior standard deviations away (mean over the parameters), and a plan "
        "around that point would be wrong. Scale the features alike (vr.datasets.standardise), start "
        "elsewhere (init), or give a larger budget: the search may take half of it."
    )


def newton(
    posterior: Posterior, data: Data, params: Params, model: Local, most: int = NEWTON_STEPS
) -> tuple[Params, int, float]:
    """Newton's method on all data, with the model's Hessian and BFGS updates of its inverse.

    The best point, the passes, and its distance to the mode before the last step: the root mean
    square over the parameters, in standard deviations.
    """
    x, unravel = ravel_pytree(params)
    inverse = model.directions / model.curvature @ model.directions.T
    best, least, step, before = x, np.inf, None, np.zeros(x.size)
    for passes in range(1, most + 1):
        gradient = gradient_program(posterior, data, unravel(x))
        gradient = np.asarray(ravel_pytree(gradient)[0], np.float64)
        distance = float(np.sqrt(np.mean((gradient @ model.directions) ** 2 / model.curvature)))
        if not distance < WORSE * least:
            break
        if distance < least:
            best, least = x, distance
        if step is not None:
            inverse = update_inverse(inverse, step, before - gradient)
        step, before = inverse @ gradient, gradient
        x = x + jnp.asarray(step, x.dtype)
        if distance < CLOSE:
            return unravel(x), passes, distance
    return unravel(best), passes, least


def update_inverse(inverse: Any, step: Any, change: Any) -> Any:
    """BFGS: the inverse Hessian after a step that changed the gradient by -`change`."""
    product = step @ change
    if not product > 0:
        return inverse
    left = np.eye(len(step)) - np.outer(step, change) / product
    return left @ inverse @ left.T + np.outer(step, step) / product


@lru_cache(maxsize=8)  # an equal function compiles nothing again
def scale_loglik(loglik: Callable[..., Any], weight: float) -> Callable[..., Any]:
    """The log-likelihood of a datum that represents `weight` data."""
    return lambda params, datum: weight * loglik(params, datum)
