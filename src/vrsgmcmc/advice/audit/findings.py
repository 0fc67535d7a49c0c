"""What one way to run does to the answer: by the local model, or as measured at a state.

A step of SGLD injects noise of variance 2 h T into each parameter, and an error of variance V in the
gradient adds h^2 V; dynamics with friction f inject 2 f h T into each momentum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from vrsgmcmc import theory
from vrsgmcmc.core import Params, Sampler, State, named_leaves, tree
from vrsgmcmc.core.estimators import full
from vrsgmcmc.run import Context
from vrsgmcmc.theory import LARGEST, Local, forecast

MOST_ROWS, FEWEST_ROWS = 4096, 256  # data that are looked at
MOST_NUMBERS, MOST_VALUES = 2**32, 2**24  # their gradients' numbers, and their own
KNOWN = ("sgld", "sghmc", "splitting")  # their law on a quadratic is known


class Finding(NamedTuple):
    """What one way to run does: by the model, or as measured at a state."""

    inflation: float
    full: float  # that of the full gradient
    drift: float
    blocks: dict[str, tuple[float, float, float]]  # ratio, at rest, inflation
    variances: Any
    evaluations: int

    @property
    def noise(self) -> float:
        """Inflation due to gradient noise."""
        return self.inflation - self.full if np.isfinite(self.inflation) else np.inf


def predicted(model: Local, sampler: Sampler, center: Params) -> Finding:
    steps = [sampler.step_size]
    there = forecast(
        model,
        sampler.estimator,
        sampler.integrator,
        steps,
        batch_size=sampler.batch_size,
        order=sampler.order,
        anchor_order=sampler.anchor_order,
    )
    quiet = forecast(model, full(), sampler.integrator, steps, batch_size=1)
    inflation, unit = there.inflation[0], strength(sampler)
    ratio, at_rest = (unit * np.diagonal(v[0]) for v in (there.noise, there.quiet))
    blocks, start, variances = {}, 0, []
    for name, leaf in named_leaves(center):
        part = slice(start, start + leaf.size)
        blocks[name] = tuple(float(v[part].mean()) for v in (ratio, at_rest, inflation))
        variances.append(there.variances[0, part].reshape(leaf.shape))
        start += leaf.size
    return Finding(
        inflation=float(inflation.mean()),
        full=float(quiet.inflation[0].mean()),
        drift=float(there.drift[0]),
        blocks=blocks,
        variances=jax.tree.unflatten(jax.tree.structure(center), variances),
        evaluations=0,
    )


def rows_to_look_at(data: Any, size: int, parameters: int) -> int:
    """Fewer of a large network, or of data that are large themselves, such as groups of images."""
    values = max(1, tree.size(data) // size)
    affordable = min(MOST_NUMBERS // parameters, MOST_VALUES // values)
    return min(size, MOST_ROWS, max(FEWEST_ROWS, affordable))


def measured(context: Context, state: State, center: Params) -> Finding:
    """At the state of the first chain, block by block, in the limit of small steps."""
    estimator: Any = context.sampler.estimator
    size = jax.tree.leaves(context.data)[0].shape[0]
    if estimator.name == "saga":
        raise ValueError(
            f"audit: saga() on more than {LARGEST} parameters, or with "
            f"{context.sampler.integrator.name}, is "
            "not known; audit a run of minibatch(), practical(), svrg() or control_variate()."
        )
    point = jax.tree.map(lambda leaf: leaf[0], state.position)
    anchor = None
    held = {"practical": "anchor", "svrg": "anchor", "control_variate": "center"}
    if estimator.name in held:
        anchor = jax.tree.map(lambda leaf: leaf[0], getattr(state.memory, held[estimator.name]))
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(anchor)):
            raise ValueError(
                f"audit: the state's {held[estimator.name]} is not known yet: kernel.refresh it first."
            )
    counts = {name: leaf.size for name, leaf in named_leaves(center)}
    rows = rows_to_look_at(context.data, size, sum(counts.values()))
    practical = estimator.name == "practical"
    found: Any = theory.noise(
        context.posterior,
        context.data,
        point,
        anchor,
        batch_size=context.sampler.batch_size,
        anchor_size=estimator.anchor_size if practical else None,
        period=estimator.period if practical else None,
        order=context.sampler.order,
        anchor_order=context.sampler.anchor_order,
        subsample=rows if rows < size else None,
        key=0,
    )
    which = "svrg" if estimator.name == "control_variate" else str(estimator.name)
    unit = strength(context.sampler)

    def ratios(noise: Any, count: int) -> tuple[float, float, float]:
        if estimator.name == "full":
            return 0.0, 0.0, 0.0
        at_rest = unit * getattr(noise.zero_frequency, which) / count
        return unit * getattr(noise, which) / count, at_rest, at_rest

    blocks = {name: ratios(found.blocks[name], count) for name, count in counts.items()}
    total = ratios(found, sum(counts.values()))[1]
    drift = 0.0 if anchor is None else found.S2.difference / found.S2.alpha
    return Finding(total, 0.0, drift, blocks, None, rows * (4 if anchor is not None else 2))


def strength(sampler: Sampler) -> float:
    """What an error of variance 1 adds to the injected noise, relative to it."""
    integrator = sampler.integrator
    temperature = float(getattr(integrator, "temperature", 0.0))
    friction = 1.0 if integrator.name == "sgld" else float(getattr(integrator, "friction", 0.0))
    if integrator.name not in (*KNOWN, "sgnht"):
        raise ValueError(
            f"audit: the noise that {integrator.name}() injects is not known here; audit a run of "
            f"{', '.join(KNOWN)} or sgnht."
        )
    if not temperature * friction > 0:
        raise ValueError(
            "audit: at temperature 0, or without friction, no noise is injected, so gradient noise has "
            "nothing to be compared with."
        )
    return sampler.step_size / (2 * friction * temperature)
