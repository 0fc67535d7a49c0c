"""The mode of a posterior and its curvature there: what a control variate and a metric are built on.

lbfgs       `find_mode`: L-BFGS on all data, for `control_variate()`
target      the log posterior over some rows: gradients and products with H, counted
linear      the same for a generalised linear model, with H in one pass
curvature   solve H s = g: by a factor, or by conjugate gradients
newton      Newton's method with a trust region
search      subsamples first, then all data
refusals    why there is no mode, and what to do
derivative  `check_gradient`: is the gradient the derivative of the density?
locate      `locate_mode`: the mode, H and the metric there
"""

from .derivative import check_gradient
from .kinks import gradient_metric, has_kinks
from .lbfgs import Mode, find_mode, warn_of_mode
from .locate import likelihood_hessian, locate_mode, mean_metric
from .located import Located
from .modes import Modes, find_modes
from .refusals import CoarseNumbers, NoMode, Saddle

__all__ = [
    "CoarseNumbers",
    "Located",
    "Mode",
    "Modes",
    "NoMode",
    "Saddle",
    "check_gradient",
    "find_mode",
    "find_modes",
    "gradient_metric",
    "has_kinks",
    "likelihood_hessian",
    "locate_mode",
    "mean_metric",
    "warn_of_mode",
]
