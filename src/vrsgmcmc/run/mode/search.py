"""The search for a mode: Newton's method on growing subsamples, then on all data.

On a subsample of m rows the mode is sqrt(N / m) standard deviations away from that of all data, so the
search there ends when it is half as near. On all data, gradients (one pass each) meet the curvature of
the last subsample: the distance shrinks by the error of that curvature, about sqrt(d / m), each time.
Where it shrinks slowly, the curvature of all data takes over. A generalised linear model has that from
the beginning, since it comes with the gradient.
"""

from typing import NamedTuple

import numpy as np

from .curvature import Curvature, Diagonal, Factor, Products, dense
from .linear import LinearTarget
from .located import NEAR
from .newton import Place, Stuck, advance, climb, distance, measure
from .refusals import refuse_start, refuse_stuck
from .target import Matrix, Target, Vector

LEAST_ROWS, LEAST_ROWS_EACH = 100, 5  # of a subsample: in all, and for each parameter
GROWTH = 4  # of the subsamples
MOST_LEVELS = 4
WILD = 3.0  # times the distance that the noise of a subsample makes: such a step is looked at first
FEWEST_PASSES = 2.3  # over all data, that the subsamples leave: a gradient, H and a look around
ITERATIONS = 60  # on one target, at most
SLOW = 0.5  # a step that leaves more than this part of the distance wants a better curvature
FEW = 3  # parameters for which columns of H are cheaper than conjugate gradients


class End(NamedTuple):
    """Where a search ended."""

    place: Place
    model: Curvature  # of H around there
    distance: float  # an estimate, where the place has no gradient


def levels(target: Target) -> list[int]:
    """Sizes of the subsamples, growing."""
    top = target.size // (GROWTH if isinstance(target, LinearTarget) else GROWTH**2)
    least = max(LEAST_ROWS, LEAST_ROWS_EACH * target.dimension)
    sizes = [top // GROWTH**k for k in range(MOST_LEVELS) if top // GROWTH**k >= least]
    if not sizes and 2 * least <= target.size:
        return [least]
    return sizes[::-1]


def make_curvature(target: Target, x: Vector, matrix: bool) -> Curvature:
    """A model of the target's H at x, dense if `matrix`; the prior's part is its mean around x."""
    excess = target.prior_excess(x) if matrix else 0.0
    if matrix and (isinstance(target, LinearTarget) or target.dimension <= FEW):
        return dense(target.likelihood_hessian(x) + target.prior_hessian(x) + excess)
    return Products(target, x, precondition(target, x, matrix), excess=excess)


def precondition(target: Target, x: Vector, matrix: bool) -> Curvature:
    """The Fisher information of the rows and the prior's H: their sum, or its diagonal."""
    if not matrix:
        return Diagonal(positive_part(target.likelihood_diagonal(x) + target.prior_diagonal(x)))
    fisher = fisher_information(target, x)
    for prior in (target.prior_hessian(x), np.diag(np.abs(target.prior_diagonal(x)))):
        model = dense(fisher + prior)
        if isinstance(model, Factor):
            return model
    return Diagonal(positive_part(np.diagonal(fisher)))


def fisher_information(target: Target, x: Vector, center: bool = False) -> Matrix:
    """N / m times the sum of g_i g_i^T, or of their deviations from the mean."""
    total, mean = np.zeros((target.dimension,) * 2), np.zeros(target.dimension)
    for block in target.row_gradients(x):
        total += block.T @ block
        mean += block.sum(0) / target.rows
    return target.weight * (total - (target.rows * np.outer(mean, mean) if center else 0.0))


def is_finite(place: Place) -> bool:
    return bool(np.isfinite(place.value) and np.all(np.isfinite(place.gradient)))


def positive_part(diagonal: Vector) -> Vector:
    """Where it is not positive, the least positive entry."""
    fine = np.isfinite(diagonal) & (diagonal > 0)
    return np.where(fine, diagonal, diagonal[fine].min(initial=np.inf) if fine.any() else 1.0)


def begin(full: Target, x: Vector, matrix: bool, seed: int) -> tuple[Place, Curvature | None, int]:
    """A place near the mode, on all data; H and rows of the last subsample."""
    x, sure, model, rows = warm_start(full, x, matrix, seed)
    place = measure(full, x, matrix)
    if not is_finite(place) and not np.array_equal(x, sure):
        place = measure(full, sure, matrix)
    refuse_start(full, place)
    return place, model, rows


def warm_start(
    full: Target, x: Vector, matrix: bool, seed: int
) -> tuple[Vector, Vector, Curvature | None, int]:
    """A point near the mode from subsamples, for half of `most`; H and rows of the last one.

    The point is one step of Newton's method away from the second one, which a subsample has seen.
    """
    sure, model, rows, first = x, None, 0, True
    reserve = min(full.meter.most / 2, FEWEST_PASSES * full.rows)
    for size in levels(full):
        target = full.subsample(size, seed)
        if full.meter.left - 2 * size <= reserve:
            break
        noise = np.sqrt(full.size / size)
        place = measure(target, x, matrix)
        if first:
            refuse_start(target, place)
        elif not is_finite(place):
            return sure, sure, None, 0
        last = make_curvature(target, place.x, matrix)
        solution = last.solve(place.gradient)
        try:
            if first or not solution.positive or distance(solution) > WILD * noise:
                place, last, _ = climb(
                    target,
                    place,
                    lambda place, target=target: make_curvature(target, place.x, matrix),
                    last,
                    near=noise / 2,
                    iterations=ITERATIONS,
                    reserve=reserve,
                    curve=matrix,
                )
                solution = last.solve(place.gradient)
        except Stuck as stuck:  # all data decide whether there is a mode
            return stuck.place.x, stuck.place.x, None, 0
        x, model, rows, first = place.x, last, size, False
        sure = x
        if solution.positive and distance(solution) <= WILD * noise:
            x = full.round(x + solution.step)  # the next subsample looks at it
    return x, sure, model, rows


def aim(target: Target) -> float:
    """The distance to search for: `NEAR`, or less where few data bend H within it.

    H changes by about sqrt(d / N) at one sd, and sqrt(d) times the distance is how many sds are left.
    """
    return min(NEAR, NEAR * np.sqrt(target.size) / target.dimension)


def settle(
    full: Target, place: Place, model: Curvature, rate: float, matrix: bool, reserve: float
) -> End:
    """To the mode of all data; `reserve` evaluations stay unspent."""
    near = aim(full) if matrix else NEAR
    before = 0.0 if isinstance(model, Diagonal) else np.inf  # a diagonal alone is no model of H
    sweeps = matrix and isinstance(full, LinearTarget)  # H of all data comes with each gradient
    radius, fresh = np.inf, False  # fresh: the model is H of all data at the place
    for _ in range(ITERATIONS):
        if sweeps:
            model, fresh = make_curvature(full, place.x, matrix), True
        solution = model.solve(place.gradient)
        away = distance(solution) if solution.positive else np.inf
        if away >= near and not fresh and away > SLOW * before:
            better = improve(full, place, model, matrix, reserve)
            if better is not None:
                solution, fresh, before, rate = better.solve(place.gradient), True, np.inf, SLOW
                away = distance(solution) if solution.positive else np.inf
                model = model if isinstance(better, Products) else better
        if away < near:
            return End(place, model, away)
        rate = away / before if np.isfinite(before) else rate
        if full.meter.left - reserve < full.rows:
            if rate * away >= NEAR:
                return End(place, model, away)
            x = full.round(place.x + solution.step)
            return End(Place(x, np.nan, None), model, rate * away)
        try:
            place, radius = advance(full, place, solution, radius, reserve, sweeps)
            before, fresh = away, False
        except Stuck as stuck:
            if full.meter.left - reserve < full.rows:
                return End(place, model, away)
            if fresh:
                refuse_stuck(full, place, stuck.step, stuck.finite)
            before = 0.0
    return End(place, model, away)


def improve(
    full: Target, place: Place, model: Curvature, matrix: bool, reserve: float
) -> Curvature | None:
    """H of all data at the place, where that can be paid."""
    spare = full.meter.left - reserve - full.rows
    if matrix and (isinstance(full, LinearTarget) or full.dimension <= FEW):
        if spare < full.hessian_cost:
            return None
        return dense(full.likelihood_hessian(place.x) + full.prior_hessian(place.x))
    products = spare / (full.product_cost * full.rows)
    if products < 2:
        return None
    inner = model.preconditioner if isinstance(model, Products) else model
    if not isinstance(inner, Factor | Diagonal):
        inner = precondition(full, place.x, matrix)
    return Products(full, place.x, inner, int(min(products, 1e6)))
