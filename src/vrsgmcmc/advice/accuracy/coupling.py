"""The bias of a step size, by pairs of chains with common noise.

One chain of a pair makes steps of h, the other two steps of h/2 for each of them, with the same
minibatch in the first of the two, and with the same Brownian motion: the noise of the long step is that
of the two short ones together. The chains stay close, so the difference of their averages is known much
better than either. Gradient noise biases by O(h), and the integrator by O(h^2) or less, so

    bias(h) = E_h - E_0 is at most about 2 (E_h - E_{h/2}).

Nothing here assumes that the posterior is Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core

PAIRS = 16
FEWEST_STEPS = 50


class Bias(NamedTuple):
    """2 (E_h - E_{h/2}) of means and of variances, for each parameter, with standard errors.

    Means are in units of the posterior's standard deviation, variances relative to its variance.
    """

    mean: np.ndarray
    mean_error: np.ndarray
    variance: np.ndarray
    variance_error: np.ndarray
    evaluations: int


class Scheme(NamedTuple):
    """One step with given noise, and how the noise of a long step is made of that of two short ones."""

    step: Callable[..., Any]  # z, p, gradient(z), xi, h -> z, p
    mix: Callable[[float], tuple[float, float]]


def scheme_of(integrator: Any) -> Scheme | None:
    """The scheme of an integrator; None: it has none here."""
    if integrator.name == "sgld":
        return Scheme(
            partial(euler, integrator.temperature), lambda h: (math.sqrt(0.5), math.sqrt(0.5))
        )
    if integrator.name == "splitting" and integrator.word == "BAOAB":
        friction = integrator.friction

        def mix(h: float) -> tuple[float, float]:
            """O(h) is O(h/2) twice: c^2 p + s (c xi_1 + xi_2)."""
            c = math.exp(-friction * h / 2)
            s, whole = (
                math.sqrt(-math.expm1(-friction * h)),
                math.sqrt(-math.expm1(-2 * friction * h)),
            )
            return c * s / whole, s / whole

        return Scheme(partial(baoab, friction, integrator.temperature), mix)
    return None


def euler(temperature: Any, z: Any, p: Any, gradient: Any, xi: Any, h: Any) -> tuple[Any, Any]:
    return z + h * gradient(z) + jnp.sqrt(2 * h * temperature) * xi, p


def baoab(
    friction: Any, temperature: Any, z: Any, p: Any, gradient: Any, xi: Any, h: Any
) -> tuple[Any, Any]:
    """B(h) A(h/2) O(h) A(h/2): the two B of neighbouring steps in one."""
    p = p + h * gradient(z)
    z = z + h / 2 * p
    c = jnp.exp(-friction * h)
    p = c * p + jnp.sqrt(temperature * -jnp.expm1(-2 * friction * h)) * xi
    return z + h / 2 * p, p


def couple(
    posterior: core.Posterior,
    data: core.Data,
    sampler: core.Sampler,
    memory: Any,
    starts: core.Params,
    mean: np.ndarray,
    sd: np.ndarray,
    *,
    num_steps: int,
    seed: int,
) -> Bias:
    """Run pairs from `starts`, leaves [pair, ...], for `num_steps` long steps; a fifth is burn-in."""
    scheme = scheme_of(sampler.integrator)
    assert scheme is not None
    h = float(sampler.step_size)
    pairs = jax.tree.leaves(starts)[0].shape[0]
    keys = jax.random.split(jax.random.key(seed), pairs)
    first = num_steps // 5
    scales = jnp.asarray(mean), jnp.asarray(sd), jnp.asarray(scheme.mix(h)), jnp.asarray(h)
    lengths = jnp.asarray(first, jnp.int32), jnp.asarray(num_steps, jnp.int32)
    sampler = core.Sampler(**{**vars(sampler), "step_size": None})
    sums = _couple(
        posterior, sampler, data, memory, starts, jax.random.key_data(keys), scales, lengths
    )
    means, squares = (np.asarray(each, np.float64) / (num_steps - first) for each in sums)
    size = core.data_size(data)
    each = sampler.estimator.cost(size, sampler.batch_size)

    def judge(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        error = differences.std(0, ddof=1) / math.sqrt(pairs)
        return 2 * differences.mean(0), 2 * error

    return Bias(*judge(means), *judge(squares), 3 * pairs * num_steps * each)


@core.bounded_jit
def _couple(
    posterior: core.Posterior,
    sampler: core.Sampler,
    data: core.Data,
    memory: Any,
    starts: core.Params,
    key_words: Any,
    scales: Any,
    lengths: Any,
) -> Any:
    """The sums over steps of u_h - u_{h/2} and of u_h^2 - u_{h/2}^2, u = (x - mean) / sd: [pair, d]."""
    scheme, size, metric = scheme_of(sampler.integrator), core.data_size(data), sampler.metric
    mean, sd, mix, h = scales
    first, last = lengths
    assert scheme is not None

    def one_pair(start: core.Params, words: Any) -> Any:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        noise_key, batch_key, momentum_key = (core.fold(key, use) for use in range(3))
        row, unravel = ravel_pytree(start)

        def place(z: Any) -> Any:
            return z if metric is None else metric.center.astype(z.dtype) + metric.stretch(z)

        def gradient(batch: core.Batch) -> Callable[[Any], Any]:
            def at(z: Any) -> Any:
                value, _ = sampler.estimator.estimate(
                    posterior, memory, unravel(place(z)), batch, jax.random.key(0), size
                )
                flat = ravel_pytree(value)[0]
                return (flat if metric is None else metric.pull(flat)).astype(z.dtype)

            return at

        def step(l: Any, carry: Any) -> Any:
            (z, p), (y, q), sums = carry
            noise = [core.normal_like(core.fold(noise_key, 2 * l + k), z) for k in range(2)]
            batches = [
                core.rows(data, core.draw(sampler.order, batch_key, 2 * l + k, size, count))
                for k in range(2)
            ]
            xi = (mix[0] * noise[0] + mix[1] * noise[1]).astype(z.dtype)
            z, p = scheme.step(z, p, gradient(batches[0]), xi, h.astype(z.dtype))
            for k in range(2):
                half = (h / 2).astype(z.dtype)
                y, q = scheme.step(y, q, gradient(batches[k]), noise[k], half)
            u, w = ((place(each) - mean.astype(z.dtype)) / sd.astype(z.dtype) for each in (z, y))
            counts = (l >= first).astype(z.dtype)
            sums = (
                core.add(sums[0], counts * (u - w)),
                core.add(sums[1], counts * (u**2 - w**2)),
            )
            return (z, p), (y, q), sums

        z = row if metric is None else metric.shrink(row - metric.center.astype(row.dtype))
        p = core.normal_like(momentum_key, z)
        empty = core.empty_sum(row), core.empty_sum(row)
        _, _, sums = jax.lax.fori_loop(0, last, step, ((z, p), (z, p), empty))
        return tuple(each.value for each in sums)

    uses_all = sampler.estimator.uses_all_data
    count = size if uses_all else sampler.batch_size
    return jax.vmap(one_pair)(starts, key_words)
