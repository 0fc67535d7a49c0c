"""Which data the steps and the refreshes of a sampler draw, how many and in which order.

resolve    the arguments of a law -> one `Sampler`, with all sizes and orders that take effect
drawing    a `Sampler` -> the draws of its steps and of its refreshes
"""

import math
from typing import NamedTuple

from vrsgmcmc.core import ORDERS, Estimator, Integrator, Sampler
from vrsgmcmc.core.estimators import full

from .problems import LinearGaussian

ESTIMATORS = ("full", "minibatch", "practical", "svrg", "saga", "control_variate")
SWEEPS = ("shuffled", "symmetric")  # orders in which one draw depends on another


class Draws(NamedTuple):
    """How many data, in which order; `axis` is the axis of their permutations in the moments."""

    count: int
    order: str
    axis: int

    def is_sweep(self, size: int) -> bool:
        """Whether one draw depends on another. A draw of all data does not."""
        return self.order in SWEEPS and self.count < size


class Drawing(NamedTuple):
    """The draws of an estimator, and what its refresh needs."""

    batch: Draws
    anchor: Draws
    period: int
    average: int
    error: Draws  # the draws that cause the error where all data have the same features


def resolve(
    problem: LinearGaussian,
    estimator: Estimator,
    integrator: Integrator,
    step_size: float,
    batch_size: int | None,
    order: str,
    anchor_order: str,
) -> Sampler:
    """Check the arguments of a law on a problem. A draw of all data has no order."""
    size = len(problem.targets)
    if estimator.name not in ESTIMATORS:
        raise ValueError(
            f"estimator {estimator.name!r} has no closed law; known: {', '.join(ESTIMATORS)}"
        )
    if getattr(estimator, "order", 1) == 2:  # control_variate: no residual, so no noise
        estimator = full()
    if estimator.name == "full":
        batch_size, order = size, "without_replacement"
    batch_size = _count("batch_size", batch_size, order, size)
    anchor_size = getattr(estimator, "anchor_size", size)
    if anchor_size == size:  # the samplers then visit each datum once
        anchor_order = "without_replacement"
    _count("anchor_size", anchor_size, anchor_order, size)
    if not step_size > 0:
        raise ValueError(f"step_size must be positive, got {step_size}")
    return Sampler(estimator, integrator, step_size, batch_size, order, anchor_order)


def drawing(sampler: Sampler, size: int) -> Drawing:
    """The draws of a sampler that `resolve` returned."""
    estimator = sampler.estimator
    batch = Draws(sampler.batch_size, sampler.order, axis=-3)
    anchor = Draws(getattr(estimator, "anchor_size", size), sampler.anchor_order, axis=-4)
    period = getattr(estimator, "period", 1)
    if period is None:  # svrg: one pass over the data
        period = math.ceil(size / batch.count)
    error = {"minibatch": batch, "practical": anchor}.get(
        estimator.name, Draws(size, "without_replacement", axis=-4)
    )
    return Drawing(batch, anchor, period, getattr(estimator, "average", 1), error)


def _count(name: str, count: int | None, order: str, size: int) -> int:
    if order not in ORDERS:
        raise ValueError(f"unknown order {order!r}; choose one of {', '.join(ORDERS)}")
    if count is None or count < 1 or (count > size and order != "with_replacement"):
        raise ValueError(
            f"{name} must be between 1 and the number of data, {size}, got {count} "
            f"with order={order!r}"
        )
    return count
