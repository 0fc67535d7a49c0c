"""Is the chain where the local model is? The draws against the model at their mean.

An audit predicts the variances of a stationary chain around the mean of its draws. That says nothing of
a chain that has not arrived, or that noise has thrown far out. So the draws are compared with it:

    width      observed over predicted variance
    shift      between the means of the first and of the second half of the draws
    distance   from the mean of the draws to the mode, by one Newton step on all data

each for the worst of the parameters, the last two in predicted standard deviations.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc.core import Data, Params, Posterior, named_leaves
from vrsgmcmc.theory import Local

from ..gradients import gradient_program

WIDE, NARROW = 4.0, 0.1  # ratios of variances
SHIFT, FAR = 3.0, 5.0  # standard deviations: more than chance explains, however few draws there are


class Extreme(NamedTuple):
    """The value of the parameter where it is the worst."""

    value: float
    parameter: str


class Evidence(NamedTuple):
    """How well the draws agree with the model; without draws only the distance is known."""

    distance: Extreme
    width: Extreme | None = None
    shift: Extreme | None = None

    def __str__(self) -> str:
        parts = [f"mean {self.distance.value:.2g} sds from the mode ({self.distance.parameter})"]
        if self.width is not None:
            parts.append(f"variance {self.width.value:.3g} x predicted ({self.width.parameter})")
        if self.shift is not None:
            parts.append(f"halves {self.shift.value:.2g} sds apart ({self.shift.parameter})")
        return f"draws, at their worst: {', '.join(parts)}"


def gather_evidence(
    posterior: Posterior, data: Data, center: Params, model: Local, variances: Any, draws: Any
) -> Evidence:
    """Compare draws [chain, draw, ...], or None, with the model at their mean; N evaluations."""
    names = parameter_names(center)
    predicted = np.asarray(ravel_pytree(variances)[0], np.float64)
    predicted = np.where(np.isfinite(predicted), predicted, model.variances)
    gradient = np.asarray(ravel_pytree(gradient_program(posterior, data, center))[0], np.float64)
    step = model.directions @ (gradient @ model.directions / model.curvature)
    distance = worst(np.abs(step) / np.sqrt(predicted), names)
    if draws is None or np.shape(jax.tree.leaves(draws)[0])[1] < 4:
        return Evidence(distance)
    first, second, observed = moments(draws)
    ratio = observed / predicted
    with np.errstate(divide="ignore"):
        place = int(np.argmax(np.abs(np.log(ratio))))
    width = Extreme(float(ratio[place]), names[place])
    return Evidence(distance, width, worst(np.abs(first - second) / np.sqrt(predicted), names))


def moments(draws: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of the first and of the second half of the draws, and the variances of all."""
    parts = []
    for leaf in jax.tree.leaves(draws):
        values = np.asarray(leaf, np.float64).reshape(*leaf.shape[:2], -1)
        half = values.shape[1] // 2
        first, second = values[:, :half].mean((0, 1)), values[:, -half:].mean((0, 1))
        parts.append((first, second, values.var((0, 1))))
    first, second, variances = (np.concatenate(each) for each in zip(*parts, strict=True))
    return first, second, variances


def parameter_names(params: Params) -> list[str]:
    """The name of each number: its leaf, and where it stands in it."""
    names = []
    for name, leaf in named_leaves(params):
        places = np.ndindex(*np.shape(leaf))
        names += [f"{name}[{', '.join(map(str, place))}]" if place else name for place in places]
    return names


def worst(values: np.ndarray, names: list[str]) -> Extreme:
    place = int(np.argmax(values))
    return Extreme(float(values[place]), names[place])


def find_contradiction(evidence: Evidence) -> str | None:
    """What the draws say against the model; None if they agree with it."""
    distance, width, shift = evidence
    if width is not None and width.value > WIDE:
        return (
            f"the draws are {count(width.value)} times wider than the model at their mean says "
            f"(variance of {width.parameter}): the chain is not in the region that the model "
            "describes, and the audit's numbers do not hold. Take a smaller step size, and start at "
            "the mode."
        )
    if distance.value > FAR:
        return (
            f"the draws' mean is {count(distance.value)} standard deviations away from the mode (of "
            f"{distance.parameter}): the chain has not arrived, and the audit's numbers do not hold. "
            "Start at the mode, run longer, or scale the parameters alike."
        )
    if shift is not None and shift.value > SHIFT:
        return (
            f"the two halves of the draws have means {count(shift.value)} standard deviations apart "
            f"(of {shift.parameter}): the chain is still on its way, and the audit's numbers do not "
            "hold. Run longer, or start at the mode."
        )
    if width is not None and width.value < NARROW:
        return (
            f"the draws are {count(1 / max(width.value, 1e-30))} times narrower than the model at "
            f"their mean says (variance of {width.parameter}): the chain has hardly moved, and the "
            "audit's numbers do not hold. Run longer, or take a larger step size."
        )
    return None


def count(value: float) -> str:
    """2,000 rather than 2e+03."""
    return f"{value:,.0f}" if 10 <= value < 1e6 else f"{value:.2g}"
