"""A control variate at a fixed centre (Baker et al. 2019): SVRG whose anchor never moves.

With centre c and G(c) = sum_{i=1..N} grad loglik(c, d_i), computed once,

    g(x) = G(c) + grad logprior(x) + N/n sum_{i in batch} (grad loglik(x, d_i) - grad loglik(c, d_i)).

This is order 1. `taylor.py` has order 2, and rows that every step visits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..tree import named_leaves
from ..types import Params, description
from .anchored import corrected_gradient
from .centered import Centered
from .taylor import Taylor, as_hessian, as_hot_rows


@description
@dataclass(frozen=True, eq=False)
class ControlVariate(Centered):
    center: Params | None

    def __str__(self) -> str:
        return self.name

    def estimate(self, posterior, memory, point, batch, augment_key, size):
        gradient = corrected_gradient(
            posterior, memory.gradient, memory.center, point, batch, augment_key, size
        )
        return gradient, memory

    def at_mode(self, mode, gradient=None):
        return (
            ControlVariate(mode) if gradient is None else control_variate(mode, gradient=gradient)
        )


def control_variate(
    center: Params | None = None,
    order: int = 1,
    hot: Any = None,
    hessian: Any = None,
    linear: bool = False,
    gradient: Params | None = None,
    guard: str | None = "auto",
) -> ControlVariate | Taylor:
    """A fixed centre: 2 n evaluations per step and N once (plus the search, when there is one).

    - `center`: a pytree like the parameters, best a posterior mode. None: `vr.sample` searches a
      mode once and counts what that costs; a bare kernel takes the position at its refresh.
    - `order`: 2 subtracts the curvature at the centre, too, at 4 evaluations for a datum. What is
      left is of third order in x - c.
    - `hot`: rows that every step visits, `vr.Batch(index, rows)`: those whose residuals are large.
    - `gradient`: G(c), like the parameters, where it is known; else N evaluations find it.
    - `hessian`, for order 2: [d, d], minus the second derivative of the log-likelihood at the centre,
      summed over ALL data and without the prior; rows and columns as in `ravel_pytree`.
      None: `vr.sample` measures it; a bare kernel needs it.
    - `linear`, for order 2: the posterior is a `vr.glm`, whose curvature takes one evaluation less.
    - `guard`, where `vr.sample` measures the Hessian: "auto" makes as many rows of high leverage hot
      as their residuals ask for, None makes none.
    """
    for name, leaf in named_leaves(center):
        if not np.issubdtype(np.asarray(leaf).dtype, np.number):
            raise TypeError(
                f"control_variate: the centre must hold numbers, got {leaf!r} in leaf {name}."
            )
        if not np.all(np.isfinite(np.asarray(leaf))):
            raise ValueError(f"control_variate: the centre is not finite in leaf {name}.")
    if order not in (1, 2) or isinstance(order, bool):
        raise ValueError(f"control_variate(order={order!r}): order must be 1 or 2.")
    if guard not in ("auto", None):
        raise ValueError(f'control_variate(guard={guard!r}): guard must be "auto" or None.')
    if gradient is not None and center is None:
        raise ValueError("control_variate(gradient=...): pass the center that it belongs to.")
    for name, value in (("hessian", hessian), ("linear", linear or None)):
        if value is not None and order == 1:
            raise ValueError(f"control_variate: {name} belongs to order=2, and order is 1.")
    if order == 1 and hot is None and gradient is None:
        return ControlVariate(center)
    curvature = as_hessian(hessian, center)
    return Taylor(center, gradient, curvature, as_hot_rows(hot), bool(linear), order, guard)
