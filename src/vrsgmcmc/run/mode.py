"""A posterior mode, for control variates: L-BFGS on all data, with every evaluation counted."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from vrsgmcmc import core

MOST_ITERATIONS = 200
CLOSE = 1e-3  # nats: nearer to the top than this is near enough


def find_mode(
    posterior: core.Posterior,
    data: core.Data,
    params: core.Params,
    wait: Callable[[Any], Any] = jax.block_until_ready,
) -> tuple[core.Params, int]:
    """A mode of the posterior near `params`, and the per-datum gradient evaluations it took.

    `wait` is called with the value of each iteration, and may end the search by raising.
    """
    size = core.data_size(data)
    state, values, evaluations = None, [], 0
    for _ in range(MOST_ITERATIONS):
        params, state, value, passes = _climb(posterior, data, params, state)
        wait(value)
        values.append(float(value))
        evaluations += size * int(passes)
        rounding = 4 * np.finfo(np.float32).eps * abs(values[-1])
        if len(values) > 2 and abs(values[-3] - values[-1]) < max(CLOSE, rounding):
            break
    if not np.isfinite(values[-1]):
        raise ValueError(
            "control_variate(): the search for a posterior mode became non-finite. Pass a "
            "centre: control_variate(center=...)."
        )
    return params, evaluations


@core.bounded_jit
def _climb(posterior: core.Posterior, data: core.Data, params: core.Params, state: Any):
    """One iteration: a direction, and a line search along it."""
    batch = core.all_rows(data)

    def loss(params) -> Array:
        return jnp.negative(log_posterior(posterior, params, batch))

    optimizer = optax.lbfgs()
    state = optimizer.init(params) if state is None else state
    value, slope = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(slope, state, params, value=value, grad=slope, value_fn=loss)
    passes = 1 + state[-1].info.num_linesearch_steps
    return optax.apply_updates(params, updates), state, value, passes


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def log_posterior(posterior: core.Posterior, params: core.Params, batch: core.Batch) -> Any:
    """log p(x | D), summed in parts like its gradient."""
    augment_key = jax.random.key(0)
    count = batch.index.shape[0]
    parts, part = core.cut(count, core.part_size(posterior, params, batch.items))

    def one_part(number, accumulated):
        rows, fresh = core.split_part(number, part, batch)
        terms = core.row_likelihoods(posterior, params, rows, augment_key)
        return core.add(accumulated, jnp.sum(terms * fresh.astype(terms.dtype)))

    start = core.empty_sum(posterior.logprior(params))
    likelihood = jax.lax.fori_loop(0, parts, one_part, start)
    return posterior.logprior(params) + likelihood.value


def _forward(posterior, params, batch):
    return log_posterior(posterior, params, batch), (params, batch)


def _backward(posterior, residuals, cotangent):
    params, batch = residuals
    likelihood = core.likelihood_gradient(posterior, params, batch, jax.random.key(0))
    gradient = jax.tree.map(
        lambda a, b: cotangent * (a + b), core.prior_gradient(posterior, params), likelihood
    )
    return gradient, None


log_posterior.defvjp(_forward, _backward)
