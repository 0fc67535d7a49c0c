"""A posterior mode, for control variates and plans, with every evaluation counted.

L-BFGS climbs until the log posterior stops growing. That happens far from the mode, too, where
parameters differ in scale: so the Newton step s = H^-1 g, by conjugate gradients, says how far away
the mode is, in standard deviations of the posterior,

    distance^2 = g^T H^-1 g / d,

and while that is too far the search goes on from x + s.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from vrsgmcmc import core

MOST_ITERATIONS = 200  # of L-BFGS, in all
MOST_PRODUCTS = 10  # Hessian-vector products of one Newton step
CLOSE = 1e-3  # nats: nearer to the top than this is near enough
ARRIVED = 0.3  # standard deviations: a mode that is nearer than this was reached
EXACT = 1e-6  # the squared residual of a Newton step, per parameter


class Mode(NamedTuple):
    """The end of a search for a mode."""

    params: core.Params
    evaluations: int  # per-datum gradients; a Hessian-vector product counts 2
    distance: float  # that is left to the mode: root mean square over parameters, in posterior sds

    @property
    def converged(self) -> bool:
        return self.distance < ARRIVED

    def __str__(self) -> str:
        if self.distance == np.inf:
            return "where the curvature of the log posterior is not positive"
        return f"{self.distance:.2g} posterior standard deviations away (mean over the parameters)"


def find_mode(
    posterior: core.Posterior,
    data: core.Data,
    params: core.Params,
    wait: Callable[[Any], Any] = jax.block_until_ready,
    most: float = np.inf,
) -> Mode:
    """A mode of the posterior near `params`; `converged` says whether the search reached it.

    `wait` is called with a value of each iteration, and may end the search by raising. The search ends
    after about `most` evaluations.
    """
    cost, iterations, best = 0, 0, None
    while iterations < MOST_ITERATIONS:
        limits = MOST_ITERATIONS - iterations, most - cost
        params, values, evaluations = climb(posterior, data, params, wait, *limits)
        iterations, cost = iterations + len(values), cost + evaluations
        if not np.isfinite(values[-1]):
            break
        step, distance, evaluations = newton_step(posterior, data, params, wait)
        cost += evaluations
        if best is None or distance < best.distance:
            best = Mode(params, cost, distance)
        if best.converged or cost >= most or distance == np.inf:
            break
        flat, unravel = ravel_pytree(params)
        params = unravel(flat + jnp.asarray(step, flat.dtype))
    if best is None:
        raise ValueError(
            "the search for a posterior mode became non-finite. Scale the features alike, start "
            "elsewhere, or pass a centre: control_variate(center=...)."
        )
    return best._replace(evaluations=cost)


def warn_of_mode(mode: Mode) -> None:
    """Say so if a control variate's centre is not a mode."""
    if not mode.converged:
        warnings.warn(
            f"control_variate(): the search for a posterior mode did not converge: it ended {mode}. "
            "Gradients are noisier around such a centre. Scale the features alike, start elsewhere, "
            "or pass a centre: control_variate(center=...).",
            stacklevel=2,
        )


def climb(
    posterior: core.Posterior,
    data: core.Data,
    params: core.Params,
    wait: Callable[[Any], Any],
    iterations: int,
    most: float,
) -> tuple[core.Params, list[float], int]:
    """L-BFGS until the log posterior stops growing: the point, the losses, the evaluations."""
    size = core.data_size(data)
    state, values, evaluations = None, [], 0
    for _ in range(iterations):
        params, state, value, passes = _climb(posterior, data, params, state)
        wait(value)
        values.append(float(value))
        evaluations += size * int(passes)
        rounding = 4 * np.finfo(np.float32).eps * abs(values[-1])
        if len(values) > 2 and abs(values[-3] - values[-1]) < max(CLOSE, rounding):
            break
        if evaluations >= most:
            break
    return params, values, evaluations


def newton_step(
    posterior: core.Posterior,
    data: core.Data,
    params: core.Params,
    wait: Callable[[Any], Any],
) -> tuple[np.ndarray, float, int]:
    """s = H^-1 g, the distance sqrt(g^T s / d), and the evaluations.

    Conjugate gradients, with the squares of some rows' gradients as the scales of the parameters. They
    approach the distance from below, and end where the curvature is not positive.
    """
    size = core.data_size(data)
    gradient, scale, rows = _slope(posterior, data, params)
    wait(gradient)
    residual, scale = np.asarray(gradient, np.float64), np.asarray(scale, np.float64)
    scale = np.where(scale > 0, scale, scale.max(initial=0.0) or 1.0)
    step, square, cost = np.zeros_like(residual), 0.0, size + int(rows)
    direction, left = residual / scale, float(residual @ (residual / scale))
    for _ in range(min(len(residual), MOST_PRODUCTS)):
        if not EXACT * len(residual) < left < np.inf:
            break
        product = _curve(posterior, data, params, direction)
        wait(product)
        cost, product = cost + 2 * size, np.asarray(product, np.float64)
        curvature = float(direction @ product)
        if not curvature > 0:
            square = np.inf
            break
        length = left / curvature
        step += length * direction
        square += length * left
        residual = residual - length * product
        before, left = left, float(residual @ (residual / scale))
        direction = residual / scale + left / before * direction
    distance = np.sqrt(square / max(len(step), 1)) if np.isfinite(left) else np.inf
    return step, float(distance), cost


@core.bounded_jit
def _slope(posterior: core.Posterior, data: core.Data, params: core.Params):
    """The gradient; N times the mean square of some rows' gradients; how many rows."""
    batch, augment_key = core.all_rows(data), jax.random.key(0)
    size = core.data_size(data)
    count = min(size, core.part_size(posterior, params, data))
    some = jax.tree.map(lambda leaf: leaf[:: size // count][:count], batch)
    rows = core.row_gradients(posterior, params, some, augment_key)
    squares = jax.tree.map(lambda leaf: size * jnp.mean(jnp.square(leaf), 0), rows)
    gradient = core.log_posterior_gradient(posterior, params, batch)
    return ravel_pytree(gradient)[0], ravel_pytree(squares)[0], count


@core.bounded_jit
def _curve(posterior: core.Posterior, data: core.Data, params: core.Params, direction: Any):
    """H times a direction, for the negative Hessian H of the log posterior."""
    batch = core.all_rows(data)
    flat, unravel = ravel_pytree(params)

    def slope(x: Array) -> Array:
        return -ravel_pytree(core.log_posterior_gradient(posterior, unravel(x), batch))[0]

    return jax.jvp(slope, (flat,), (jnp.asarray(direction, flat.dtype),))[1]


@core.bounded_jit
def _climb(posterior: core.Posterior, data: core.Data, params: core.Params, state: Any):
    """One iteration: a direction, and a line search along it."""
    batch = core.all_rows(data)

    def loss(params) -> Array:
        return jnp.negative(core.log_posterior(posterior, params, batch))

    optimizer = optax.lbfgs()
    state = optimizer.init(params) if state is None else state
    value, slope = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(slope, state, params, value=value, grad=slope, value_fn=loss)
    passes = 1 + state[-1].info.num_linesearch_steps
    return optax.apply_updates(params, updates), state, value, passes
