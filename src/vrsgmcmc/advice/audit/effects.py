"""What the gradient noise of a sampler does to its answer, by the local model or measured at a state.

A step of SGLD injects noise of variance 2 h T into each parameter, and an error of variance V in the
gradient adds h^2 V; dynamics with friction f inject 2 f h T into each momentum.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from vrsgmcmc import core, theory
from vrsgmcmc.core import Data, Params, Posterior, Sampler, State, data_size, named_leaves
from vrsgmcmc.core.estimators import full
from vrsgmcmc.theory import LARGEST, Local, predict

MOST_ROWS, FEWEST_ROWS = 4096, 256  # data whose gradients are measured
MOST_NUMBERS, MOST_VALUES = 2**32, 2**24  # numbers in their gradients, and in the data themselves
LINEAR = ("sgld", "sghmc", "splitting")  # integrators whose law on a quadratic is a formula
ANCHORS = {"practical": "anchor", "svrg": "anchor", "control_variate": "center"}  # in the memory


class Effect(NamedTuple):
    """What gradient noise does to a run."""

    inflation: float
    full: float  # inflation with the full gradient
    drift: float
    blocks: dict[str, tuple[float, float, float]]  # ratio, at rest, inflation
    variances: Any
    evaluations: int

    @property
    def noise(self) -> float:
        """Inflation due to gradient noise."""
        return self.inflation - self.full if np.isfinite(self.inflation) else np.inf


def predict_effect(model: Local, sampler: Sampler, center: Params) -> Effect:
    """The effect under the local model; it costs no evaluations."""
    prediction, unit = predict(model, sampler), noise_unit(sampler)
    exact = predict(model, replace(sampler, estimator=full()))
    inflation = prediction.inflation[0]
    ratio, at_rest = (unit * np.diagonal(v[0]) for v in (prediction.noise, prediction.quiet))
    blocks, start, variances = {}, 0, []
    for name, leaf in named_leaves(center):
        part = slice(start, start + leaf.size)
        blocks[name] = tuple(float(v[part].mean()) for v in (ratio, at_rest, inflation))
        variances.append(prediction.variances[0, part].reshape(leaf.shape))
        start += leaf.size
    return Effect(
        inflation=float(inflation.mean()),
        full=float(exact.inflation[0].mean()),
        drift=float(prediction.drift[0]),
        blocks=blocks,
        variances=jax.tree.unflatten(jax.tree.structure(center), variances),
        evaluations=0,
    )


def measure_effect(posterior: Posterior, data: Data, sampler: Sampler, state: State) -> Effect:
    """The effect at the state of the first chain, block by block, in the limit of small steps."""
    estimator, size = sampler.estimator, data_size(data)
    if getattr(estimator, "order", 1) == 2:
        raise ValueError(
            f"audit: the noise of control_variate(order=2) on more than {LARGEST} parameters, or with "
            f"{sampler.integrator.name}, is not known; audit a run of control_variate()."
        )
    if estimator.name == "saga":
        raise ValueError(
            f"audit: saga() on more than {LARGEST} parameters, or with {sampler.integrator.name}, is "
            "not known; audit a run of minibatch(), practical(), svrg() or control_variate()."
        )
    first: State = jax.tree.map(lambda leaf: leaf[0], state)
    point, anchor = first.position, None
    if name := ANCHORS.get(estimator.name):
        anchor = getattr(first.memory, name)
        if not core.all_finite(anchor):
            raise ValueError(
                f"audit: the state's {name} is not known yet: kernel.refresh it first."
            )
    counts = {name: leaf.size for name, leaf in named_leaves(point)}
    rows = subsample_size(data, size, sum(counts.values()))
    practical = estimator.name == "practical"
    noise: Any = theory.noise(
        posterior,
        data,
        point,
        anchor,
        batch_size=sampler.batch_size,
        anchor_size=estimator.refresh_size(size) if practical else None,
        period=estimator.refresh_period(size, sampler.batch_size) if practical else None,
        order=sampler.order,
        anchor_order=sampler.anchor_order,
        subsample=rows if rows < size else None,
        key=0,
    )
    field = "svrg" if estimator.name == "control_variate" else estimator.name
    unit = noise_unit(sampler)

    def ratios(noise: Any, count: int) -> tuple[float, float, float]:
        if estimator.name == "full":
            return 0.0, 0.0, 0.0
        at_rest = unit * getattr(noise.zero_frequency, field) / count
        return unit * getattr(noise, field) / count, at_rest, at_rest

    blocks = {name: ratios(noise.blocks[name], count) for name, count in counts.items()}
    total = ratios(noise, sum(counts.values()))[1]
    drift = 0.0 if anchor is None else noise.S2.difference / noise.S2.alpha
    return Effect(total, 0.0, drift, blocks, None, rows * (4 if anchor is not None else 2))


def subsample_size(data: Any, size: int, parameters: int) -> int:
    """The rows to measure: fewer for a large network, or for large data such as groups of images."""
    values = max(1, core.tree.size(data) // size)
    affordable = min(MOST_NUMBERS // parameters, MOST_VALUES // values)
    return min(size, MOST_ROWS, max(FEWEST_ROWS, affordable))


def noise_unit(sampler: Sampler) -> float:
    """Added noise over injected noise, for a gradient error of variance 1."""
    integrator = sampler.integrator
    temperature = float(getattr(integrator, "temperature", 0.0))
    friction = 1.0 if integrator.name == "sgld" else float(getattr(integrator, "friction", 0.0))
    if integrator.name not in (*LINEAR, "sgnht"):
        raise ValueError(
            f"audit: the noise that {integrator.name}() injects is not known here; audit a run of "
            f"{', '.join(LINEAR)} or sgnht."
        )
    if not temperature * friction > 0:
        raise ValueError(
            "audit: at temperature 0, or without friction, no noise is injected, so gradient noise has "
            "nothing to be compared with."
        )
    return sampler.step_size / (2 * friction * temperature)
