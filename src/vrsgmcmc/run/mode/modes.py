"""Does the log posterior have one mode? Searches from several starts, on a subsample.

Two ends are different modes if their squared distance in the subsample's own H, over d, is above 10:
they are over three of its standard deviations apart in every parameter, or many in a few.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core

from ..checks import is_function
from .curvature import Factor
from .kinks import climb_by_gradients, gradient_factor
from .linear import make_target
from .located import Located
from .newton import Place, Stuck, climb, measure
from .search import make_curvature, positive_part
from .target import Meter, Target, Vector

ROWS, ROWS_EACH = 300, 20  # of the subsample
LARGEST = 2000  # parameters of a dense H
APART = 10.0  # squared distance over d of different modes
NEAR = 0.3  # standard deviations, to end a search
ITERATIONS = 60
HALVES = 10  # of a jump to where the density is not finite
WIDEST = 10.0  # a jump, in sizes of the parameter at the mode (or 1), where the prior is flat


class Modes(NamedTuple):
    """The ends of searches from several starts."""

    starts: int  # searches that ended at a mode
    lost: int  # searches that did not
    missing: int  # searches that there was no room for
    gaps: tuple[float, ...]  # of distinct ends: their log posterior below the best one
    rows: int  # of the subsample that was searched
    evaluations: int

    @property
    def count(self) -> int:
        return len(self.gaps)

    def __str__(self) -> str:
        if not self.starts + self.lost:
            return "other modes were not looked for: the pilot has no room for a search"
        if not self.starts:
            text = f"no search for other modes ended at a mode, of {self.lost}"
            return text + self._room
        number = "one mode" if self.count == 1 else f"{self.count} modes"
        text = f"{number} seen from {self.starts} start{'s' * (self.starts != 1)}"
        if self.count > 1:
            text += (
                f" (log posterior below the best: {', '.join(f'{gap:.3g}' for gap in self.gaps)})"
            )
        text += f"; {self.lost} searches did not end at a mode" if self.lost else ""
        return text + self._room

    @property
    def _room(self) -> str:
        return f"; the pilot has no room for {self.missing} more" if self.missing else ""


def find_modes(
    posterior: core.Posterior,
    data: core.Data,
    init: Any,
    located: Located,
    *,
    key: core.PRNGKey,
    starts: int = 8,
    most: float = np.inf,
) -> Modes:
    """Search from `starts` starts: init(key) if it is a function, else prior-sized jumps around it.

    Every second jump goes as far as the one before, the opposite way.
    It searches around the mode that was located first. A search begins if `most` evaluations have room
    for one that is as long as the longest before it.
    """
    meter = Meter(most)
    full = make_target(posterior, data, located.params, meter)
    key = core.as_key(key)
    words = np.asarray(jax.random.key_data(core.fold(key, starts)))
    rng = np.random.default_rng(words.tolist())
    rows = max(ROWS, ROWS_EACH * full.dimension)
    target = full.subsample(rows, int(rng.integers(2**31)))
    center = np.asarray(located.metric.center, np.float64)
    ends, searches, lost, longest = [], 0, 0, 2.0 * target.rows
    move = np.zeros_like(center)
    for number in range(-1, starts):
        before = meter.evaluations
        if meter.left < longest:
            break
        if number < 0:
            x = center
        elif is_function(init):
            x = np.asarray(ravel_pytree(init(core.fold(key, number)))[0], np.float64)
        else:
            middle = np.asarray(ravel_pytree(init)[0], np.float64)
            move = -move if number % 2 else jump(target, middle, center, rng)
            x = middle + shorten(target, middle, move)
        end = search(target, x, located.kinks)
        if end is None and meter.left < target.rows:  # it had no time to end
            break
        longest = max(longest, meter.evaluations - before)
        searches, lost = searches + (number >= 0), lost + (end is None and number >= 0)
        if end is not None and all(
            apart(target, each, end, located.kinks) > APART for each in ends
        ):
            ends.append(end)
    values = [end.value for end in ends]
    gaps = tuple(sorted(float(max(values) - value) for value in values))
    rest = starts - searches
    return Modes(searches - lost, lost, rest, gaps, target.rows, meter.evaluations)


def search(target: Target, x: Vector, kinks: bool) -> Place | None:
    """The end of a search, None if it reached no mode."""
    place, matrix = measure(target, x), target.dimension <= LARGEST
    if not (np.isfinite(place.value) and np.all(np.isfinite(place.gradient))):
        return None
    if kinks:
        near = NEAR * np.sqrt(target.weight)  # sds of these rows alone: kinks leave gradients
        place, away, _ = climb_by_gradients(target, target, place, near)
        return place if away < near else None

    def curvature(place: Place):
        return make_curvature(target, place.x, matrix)

    options = {"near": NEAR, "iterations": ITERATIONS}
    try:
        place, _, away = climb(target, place, curvature, curvature(place), **options)
    except Stuck:
        return None
    return place if away < NEAR else None


def apart(target: Target, place: Place, other: Place, kinks: bool) -> float:
    """The squared distance over d of two ends, in H at the first."""
    difference = other.x - place.x
    if not np.any(difference):
        return 0.0
    model = gradient_factor(target, place.x) if kinks else None
    if isinstance(model, Factor):
        return model.square(difference) / (target.weight * len(difference))
    return abs(float(difference @ target.product(place.x, difference))) / len(difference)


def jump(target: Target, x: Vector, center: Vector, rng: np.random.Generator) -> Vector:
    """A normal jump from x with the prior's sds."""
    diagonal = target.prior_diagonal(x)
    widest = WIDEST * np.maximum(np.maximum(np.abs(center), np.abs(x)), 1.0)
    fine = np.isfinite(diagonal) & (diagonal > 0)
    scale = np.where(fine, 1 / np.sqrt(positive_part(diagonal)), widest)
    return np.minimum(scale, widest) * rng.normal(size=len(x))


def shorten(target: Target, x: Vector, move: Vector) -> Vector:
    """The move, halved while the prior is not finite at its end."""
    for _ in range(HALVES):
        if np.isfinite(float(target.posterior.logprior(target.params(x + move)))):
            break
        move = move / 2
    return move
