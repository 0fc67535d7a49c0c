"""Models with kinks, whose second derivatives do not say how their gradients change.

A likelihood such as -|y - eta| has curvature zero almost everywhere, while its summed gradient changes
by N times a density as x moves by one standard deviation. There H comes from the gradients' covariance
over the rows, N Cov(g_i), and the prior: the curvature of the mean log-likelihood if the model
is right.
"""

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core

from .curvature import Factor, Indefinite, dense
from .linear import make_target
from .located import NEAR, Located
from .newton import Place, Stuck, climb, distance, measure
from .refusals import (
    refuse_curvature,
    refuse_large,
    refuse_rise,
    refuse_rounding,
    refuse_start,
    refuse_stuck,
    refuse_support,
)
from .search import fisher_information, levels
from .target import Meter, Target, Vector

DIRECTIONS = 4
ROWS, ROWS_EACH, FEWEST_ROWS = 500, 20, 50
LARGEST = 2000  # parameters of a dense metric
CHANGE = 0.2  # of the gradient, that the products do not explain
START_ROWS = 100  # that are asked at the start of a search
LITTLE = 0.05  # of the change of the gradient that their covariance promises
ITERATIONS = 60


def has_kinks(
    posterior: core.Posterior,
    data: core.Data,
    located: Located,
    key: core.PRNGKey,
    *,
    most: float = np.inf,
) -> tuple[bool, int]:
    """Whether Hessian-vector products differ from gradient differences at one sd by over 20 %.

    Also the evaluations, on a subsample that takes at most about `most`.
    """
    meter = Meter(np.inf)
    full = make_target(posterior, data, located.params, meter)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(core.as_key(key))).tolist())
    wish = max(ROWS, ROWS_EACH * full.dimension)
    affordable = most / (DIRECTIONS * (2 + full.product_cost))
    rows = int(np.clip(affordable, min(wish, FEWEST_ROWS), wish))
    target = full.subsample(rows, int(rng.integers(2**31)))
    x, metric = np.asarray(located.metric.center, np.float64), located.metric
    z = rng.normal(size=(DIRECTIONS, full.dimension))
    moves = [np.asarray(metric.stretch(jnp.asarray(row / np.linalg.norm(row)))) for row in z]
    change = unexplained(
        target, x, moves, lambda v: np.asarray(metric.pull(jnp.asarray(v)), np.float64)
    )
    return change > CHANGE, meter.evaluations


def unexplained(target: Target, x: Vector, moves: list[Vector], pull) -> float:
    """How far products with H are from differences of gradients, relative to the larger of the two."""
    missed, larger = 0.0, 0.0
    for move in moves:
        difference = (target.slope(x - move)[1] - target.slope(x + move)[1]) / 2
        product = target.product(x, move)
        if not np.all(np.isfinite(difference)):
            continue
        missed += float(np.sum(pull(difference - product) ** 2))
        larger += max(float(np.sum(pull(each) ** 2)) for each in (difference, product))
    return float(np.sqrt(missed / larger)) if larger > 0 else 0.0


def starts_with_kinks(full: Target, x: Vector, seed: int) -> bool:
    """Whether gradients change at the start of a search, while no row's likelihood has curvature.

    Elsewhere the search has something to go by, and `has_kinks` looks at its end. The move is one sd of
    the rows that are asked. Where their gradients do not change, as those of a hinge at zero, their own
    mode is asked.
    """
    target = full.subsample(max(START_ROWS, full.dimension), seed)
    refuse_large(full, gradient_factor(target, x).scale ** 2)
    z = np.random.default_rng(seed).normal(size=target.dimension)
    bends = bends_at_kinks(target, x, z)
    if bends is None:
        end, _, _ = climb_by_gradients(target, target, measure(target, x), NEAR)
        bends = bends_at_kinks(target, end.x, z)
    return bool(bends)


def bends_at_kinks(target: Target, x: Vector, direction: Vector) -> bool | None:
    """Whether the gradient changes though no row's likelihood has curvature; None: it does not change.

    The move along the direction is one sd of the target's rows.
    """
    model = gradient_factor(target, x)
    if not isinstance(model, Factor):
        return False
    move = np.sqrt(target.weight) * model.root @ (direction / np.linalg.norm(direction))
    little = LITTLE * target.weight  # of move^T H move
    if np.abs(target.row_curvatures(x, move)).sum() * target.weight > little:
        return False
    (low, before), (high, after) = target.slope(x - move), target.slope(x + move)
    if not (np.isfinite(low) and np.isfinite(high)):  # the end of the support is no kink
        return False
    change = (before - after) @ move / 2
    return True if change - target.prior_product(x, move) @ move > little else None


def gradient_metric(
    posterior: core.Posterior,
    data: core.Data,
    located: Located,
    *,
    rows: int | None = None,
    seed: int = 0,
) -> tuple[core.Metric, int]:
    """The metric from the gradients' covariance at a mode, on `rows` rows, and the evaluations."""
    meter = Meter(np.inf)
    full = make_target(posterior, data, located.params, meter)
    wish = max(ROWS, ROWS_EACH * full.dimension) if rows is None else rows
    target = full.subsample(wish, seed)
    x = np.asarray(located.metric.center, np.float64)
    if full.dimension > LARGEST:
        diagonal = target.fisher_diagonal(x) + full.prior_diagonal(x)
        parts = x, 1 / np.sqrt(np.maximum(diagonal, diagonal[diagonal > 0].min()))
        return core.Diagonal(*(jnp.asarray(each, full.dtype) for each in parts)), meter.evaluations
    model = gradient_factor(target, x)
    if isinstance(model, Indefinite):
        refuse_curvature(full, model)
    parts = x, model.root
    return core.Dense(*(jnp.asarray(each, full.dtype) for each in parts)), meter.evaluations


def gradient_factor(target: Target, x: Vector) -> Factor | Indefinite:
    return dense(fisher_information(target, x, center=True) + target.prior_hessian(x))


def climb_by_gradients(
    target: Target, some: Target, place: Place, near: float
) -> tuple[Place, float, Stuck | None]:
    """Newton's method with the covariance of some gradients as H: the end, its distance from the mode.

    Also why it stopped, if no step made the log posterior grow: at a kink, none may.
    """

    def curvature(place: Place) -> Factor | Indefinite:
        return gradient_factor(some, place.x)

    model, options = curvature(place), {"near": near, "iterations": ITERATIONS}
    try:
        place, _, away = climb(target, place, curvature, model, **options)
    except Stuck as stuck:
        return stuck.place, distance(curvature(stuck.place).solve(stuck.place.gradient)), stuck
    return place, away, None


def locate_by_gradients(full: Target, x: Vector, seed: int) -> Located:
    """A mode and a metric by gradients and their covariance alone."""
    for size in [*levels(full), full.rows]:
        target = full.subsample(size, seed)
        place = measure(target, x)
        refuse_start(target, place)
        most = max(ROWS, ROWS_EACH * full.dimension) if target is full else size
        some = target.subsample(most, seed)
        near = NEAR if target is full else np.sqrt(full.size / size) / 2
        place, away, stuck = climb_by_gradients(target, some, place, near)
        if stuck is not None and target is full and away >= NEAR:
            refuse_stuck(full, stuck.place, stuck.step, stuck.finite)
        x = place.x
    model = gradient_factor(some, x)
    if isinstance(model, Indefinite):
        refuse_curvature(full, model)
    root = model.root
    z = np.random.default_rng(seed).normal(size=(DIRECTIONS, full.dimension))
    for row in z:
        refuse_rise(some, x, root @ (row / np.linalg.norm(row)))
    metric = core.Dense(*(jnp.asarray(each, full.dtype) for each in (x, root)))
    hessian = (model.lower @ model.lower.T) * np.outer(model.scale, model.scale)
    if away < NEAR:
        refuse_support(full, x, metric, seed)
        refuse_rounding(full, x, hessian, np.linalg.norm(root, axis=1))
    return Located(
        params=full.params(x),
        evaluations=full.meter.evaluations,
        distance=away,
        metric=metric,
        likelihood_hessian=None,
        exact=False,
        condition=float(np.linalg.eigvalsh(hessian)[-1] * np.linalg.norm(root, 2) ** 2),
        seconds=0.0,
        notes=("the model has kinks: the metric is that of the gradients' covariance",),
        gradient=place.gradient,
        kinks=True,
    )
