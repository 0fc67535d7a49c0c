"""What a decision may cost, and what a run can afford."""

from __future__ import annotations

import numpy as np

from vrsgmcmc import core

from .request import NUTS_GRADIENTS, Request, is_nuts

SHARE, LEAST_PASSES, GLM_PASSES = 0.15, 4.0, 15.0
NOMINAL = 400.0  # passes that a run without a budget is thought to take
FEW = 2e6  # evaluations that any run without a budget can afford
LEAST_BUDGET = 5.0  # passes
LARGEST_DENSE, LARGEST_LOW_RANK = 2_000, 100_000  # parameters of a metric of this kind
FEWEST_DRAWS = 100  # of a chain, where there are as many steps
NUTS_LEAST = 200  # steps of a chain
NUTS_MOST = 5e7  # evaluations that a run with full gradients may take


def pilot_allowance(request: Request, size: int, glm: bool) -> float:
    """Evaluations for mode, curvature, noise and trial."""
    limited = np.isfinite(request.evaluations)
    most = max(LEAST_PASSES * size, SHARE * (request.evaluations if limited else NOMINAL * size))
    if glm and not wants_nuts(request, size):
        return min(most, GLM_PASSES * size)
    return most if limited else max(most, FEW)


def wants_nuts(request: Request, size: int) -> bool:
    """Whether the whole run is affordable with full gradients."""
    if request.names("integrator"):
        return is_nuts(request.integrator)
    if wants_minibatches(request):
        return False
    cost = NUTS_GRADIENTS * request.ess * size
    return cost <= min(NUTS_MOST, (1 - SHARE) * request.evaluations)


def wants_minibatches(request: Request) -> bool:
    """Whether the caller names what full gradients do not have."""
    names = ("estimator", "batch_size", "order")
    return any(request.names(name) for name in names) or bool(request.clip)


def affords_nuts(request: Request, size: int) -> bool:
    """Whether NUTS, with full gradients, has room for its warm-up and the fewest draws."""
    steps = request.num_chains * NUTS_LEAST
    if request.names("integrator") or wants_minibatches(request):
        return False
    return NUTS_GRADIENTS * steps * size <= (1 - SHARE) * request.evaluations


def metric_kind(request: Request, dimension: int) -> str:
    if isinstance(request.metric, str) and request.metric != "auto":
        return request.metric
    if dimension <= LARGEST_DENSE:
        return "hessian"
    return "low_rank" if dimension <= LARGEST_LOW_RANK else "diagonal"


def check_budget(request: Request, size: int) -> None:
    """Refuse a budget that the mode alone would take."""
    if request.evaluations < LEAST_BUDGET * size:
        raise ValueError(
            f"sample(budget=...): {request.evaluations / size:.3g} passes are too few to find the mode "
            f"and to sample around it. Give at least {LEAST_BUDGET:g} passes."
        )


def draws_that_fit(request: Request, params: core.Params) -> float:
    """Draws of a chain in a quarter of the memory."""
    return request.memory_limit / 4 / (request.num_chains * core.nbytes(params))


def check_memory(request: Request, params: core.Params) -> None:
    """Refuse a limit that has no room for the fewest draws."""
    if draws_that_fit(request, params) < FEWEST_DRAWS:
        need = FEWEST_DRAWS * request.num_chains * core.nbytes(params)
        raise ValueError(
            f"sample(memory_limit={request.memory_limit:g}): a quarter of it is for draws, and "
            f"{FEWEST_DRAWS} of {request.num_chains} chains need {need:,} bytes. Give at least "
            f"{4 * need:,}."
        )
