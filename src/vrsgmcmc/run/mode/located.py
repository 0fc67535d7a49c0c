"""The answer of `locate_mode`."""

from typing import NamedTuple

import numpy as np

from vrsgmcmc import core

NEAR = 0.1  # standard deviations, root mean square over the parameters: a mode was reached


class Located(NamedTuple):
    """A mode and the curvature there; H is the negative Hessian of the log posterior."""

    params: core.Params
    evaluations: int  # per-datum gradients; a Hessian-vector product counts 2, for a glm 1
    distance: float  # sqrt(g^T H^-1 g / d) left at params: to the mode, in posterior sds
    metric: core.Metric  # center = params, L L^T = H^-1
    likelihood_hessian: np.ndarray | None  # [d, d], its part in H at params, over all data
    exact: bool  # H is that of all data, at params
    condition: float  # of H
    seconds: float
    notes: tuple[str, ...]
    gradient: np.ndarray | None  # of the log posterior at params; None: `distance` is an estimate
    kinks: bool = False  # H is that of the gradients' covariance

    @property
    def converged(self) -> bool:
        return self.distance < NEAR
