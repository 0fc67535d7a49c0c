"""Newton's method with a trust region, on a target whose evaluations are counted.

A step s = H^-1 g is shortened to the radius, a length in the H norm, and taken if the log posterior
grows as it should; else the radius shrinks. The distance to the mode, in posterior standard
deviations, root mean square over the parameters, is sqrt(g^T H^-1 g / d).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .curvature import Curvature, Solution
from .target import Target, Vector

FAIR, GOOD = (
    1e-3,
    0.5,
)  # of the growth that the quadratic promises: to accept, and to widen the radius
SHRINK, WIDEN = 0.25, 3.0
MOST_TRIALS = 40  # of one step


class Place(NamedTuple):
    """A point, and the log posterior and its gradient there."""

    x: Vector
    value: float
    gradient: Any  # Vector; None where it was not measured


class Stuck(Exception):
    """No step makes the log posterior grow, though its gradient says so."""

    def __init__(self, place: Place, step: Vector, finite: bool) -> None:
        self.place, self.step, self.finite = place, step, finite


def measure(target: Target, x: Vector, curve: bool = False) -> Place:
    """The place of x; with `curve`, H comes along where that costs nothing more."""
    x = target.round(x)
    if curve and target.hessian_cost == target.rows:
        target.likelihood_hessian(x)
    return Place(x, *target.slope(x))


def distance(solution: Solution) -> float:
    return float(np.sqrt(max(solution.square, 0.0) / len(solution.step)))


def advance(
    target: Target,
    place: Place,
    solution: Solution,
    radius: float,
    reserve: float = 0.0,
    curve: bool = False,
) -> tuple[Place, float]:
    """The place after one accepted step, and the next radius; `Stuck` if there is none."""
    length = float(np.sqrt(max(solution.square, 0.0)))
    noise = 4 * target.eps * max(abs(place.value), 1.0)
    finite = True
    for _ in range(MOST_TRIALS):
        scale = min(1.0, radius / length) if length > 0 else 1.0
        place_after = measure(target, place.x + scale * solution.step, curve)
        gain, promise = place_after.value - place.value, solution.square * (scale - scale**2 / 2)
        finite = bool(np.isfinite(gain) and np.all(np.isfinite(place_after.gradient)))
        if finite and gain >= FAIR * promise - noise:
            good = gain >= GOOD * promise or scale == 1.0
            return place_after, max(radius, WIDEN * scale * length) if good else radius
        radius = SHRINK * scale * length
        if target.meter.left - reserve < target.rows:
            break
    raise Stuck(place, scale * solution.step, finite)


def climb(
    target: Target,
    place: Place,
    curvature: Callable[[Place], Curvature],
    model: Curvature,
    *,
    near: float,
    iterations: int,
    reserve: float = 0.0,
    curve: bool = False,
) -> tuple[Place, Curvature, float]:
    """Newton's method until the distance is below `near`: the place, H there, and the distance.

    `model` is H at the first place. It ends early before `reserve` evaluations or fewer would be left.
    """
    radius = np.inf
    for iteration in range(iterations):
        model = curvature(place) if iteration else model
        solution = model.solve(place.gradient)
        away = distance(solution)
        if (solution.positive and away < near) or target.meter.left - target.rows <= reserve:
            break
        place, radius = advance(target, place, solution, radius, reserve, curve)
    return place, model, away if solution.positive else np.inf
