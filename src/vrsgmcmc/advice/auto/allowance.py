"""What a decision may cost, and what a run can afford."""

from __future__ import annotations

import numpy as np

from .request import NUTS_GRADIENTS, Request, is_nuts

SHARE, LEAST_PASSES, GLM_PASSES = 0.15, 4.0, 15.0
NOMINAL = 400.0  # passes that a run without a budget is thought to take
FEW = 2e6  # evaluations that any run without a budget can afford
LEAST_BUDGET = 5.0  # passes
LARGEST_DENSE, LARGEST_LOW_RANK = 2_000, 100_000  # parameters of a metric of this kind
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
    if any(request.names(name) for name in ("estimator", "batch_size", "order")) or request.clip:
        return False
    cost = NUTS_GRADIENTS * request.ess * size
    return cost <= min(NUTS_MOST, (1 - SHARE) * request.evaluations)


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
