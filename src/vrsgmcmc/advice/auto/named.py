"""A step size for an estimator and an integrator that the caller names.

The noise of the estimate is measured at the mode's Gaussian approximation, over some minibatches. In z,
with noise of variance v, an integrator with friction f widens variances by about h v / (2 f), SGLD by
h v / 2, and SGLD's own steps by h / 2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core

from .scale import LARGEST_INFLATION, LARGEST_STEP
from .site import Site

POINTS, BATCHES = 4, 8


def fit_named(site: Site, sampler: core.Sampler, seed: int) -> tuple[core.Sampler, int]:
    """The sampler with a step size, and the evaluations that the measurement took."""
    noise, cost = measure_noise(site, sampler, seed)
    friction = getattr(sampler.integrator, "friction", None)
    if friction is None:
        step = 2 * LARGEST_INFLATION / (1 + noise)
    else:
        step = min(LARGEST_STEP, 2 * float(friction) * LARGEST_INFLATION / max(noise, 1e-12))
    if sampler.metric is None:  # h is in the units of x: the widest direction sets it
        width = float(site.standard_deviations().min())
        step *= width**2 if friction is None else width
    return replace(sampler, step_size=float(f"{step:.3g}")), cost


def measure_noise(site: Site, sampler: core.Sampler, seed: int) -> tuple[float, int]:
    """The largest variance of the gradient's error over the directions of z, at rest, and its cost.

    An anchor on a part of the data is drawn anew for each minibatch, and its error, which stays for a
    period, counts as often.
    """
    size, estimator = site.size, sampler.estimator
    kernel = core.Kernel(site.posterior, replace(sampler, metric=None, step_size=None), size)
    key = jax.random.key(seed)
    points = site.draws(core.fold(key, 0), POINTS)
    anchors = kernel.anchor_size
    count = size if estimator.uses_all_data else sampler.batch_size
    rest = kernel.init(core.fold(key, 2), site.mode)
    if anchors == size:  # the same for all minibatches
        rest = kernel.refresh(core.fold(key, 3), rest, core.all_rows(site.data))

    def estimate(point: core.Params, key: Any) -> Any:
        state = rest
        if 0 < anchors < size:
            index = core.draw("without_replacement", core.fold(key, 1), 0, size, anchors)
            state = kernel.refresh(core.fold(key, 2), state, core.rows(site.data, index))
        index = core.draw("without_replacement", core.fold(key, 3), 0, size, count)
        value, _ = estimator.estimate(
            site.posterior,
            state.memory,
            point,
            core.rows(site.data, index),
            core.fold(key, 4),
            size,
        )
        return site.metric.pull(ravel_pytree(value)[0])

    keys = jax.random.split(core.fold(key, 1), BATCHES)
    program = jax.jit(jax.vmap(estimate, (None, 0)))
    values = [
        np.asarray(program(jax.tree.map(lambda leaf, k=k: leaf[k], points), keys), np.float64)
        for k in range(POINTS)
    ]
    noise = np.mean([each.var(0, ddof=1) for each in values], 0)
    if 0 < anchors < size:
        noise = noise * (kernel.period or 1)
    cost = (
        POINTS * BATCHES * (estimator.cost(size, count) + anchors % size) + anchors // size * size
    )
    return float(max(noise.mean(), noise.max() / 3)), cost
