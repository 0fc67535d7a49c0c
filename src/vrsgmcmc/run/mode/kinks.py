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
from .newton import Stuck, climb, distance, measure
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
    the rows that are asked.
    """
    target = full.subsample(max(START_ROWS, full.dimension), seed)
    model = gradient_factor(target, x)
    refuse_large(full, model.scale**2)
    if not isinstance(model, Factor):
        return False
    z = np.random.default_rng(seed).normal(size=target.dimension)
    move = np.sqrt(target.weight) * model.root @ (z / np.linalg.norm(z))
    curvature = np.abs(target.row_curvatures(x, move)).sum() * target.weight
    change = (target.slope(x - move)[1] - target.slope(x + move)[1]) @ move / 2
    prior = target.prior_product(x, move) @ move
    promise = target.weight  # move^T H move
    return bool(curvature <= LITTLE * promise and change - prior > LITTLE * promise)


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


def locate_by_gradients(full: Target, x: Vector, seed: int) -> Located:
    """A mode and a metric by gradients and their covariance alone."""
    for size in [*levels(full), full.rows]:
        target = full.subsample(size, seed)
        place = measure(target, x)
        refuse_start(target, place)
        most = max(ROWS, ROWS_EACH * full.dimension) if target is full else size
        some = target.subsample(most, seed)
        model = gradient_factor(some, place.x)
        near = NEAR if target is full else np.sqrt(full.size / size) / 2
        try:
            place, model, away = climb(
                target,
                place,
                lambda place, some=some: gradient_factor(some, place.x),
                model,
                near=near,
                iterations=ITERATIONS,
            )
        except Stuck as stuck:
            if target is full and distance(model.solve(stuck.place.gradient)) >= NEAR:
                refuse_stuck(full, stuck.place, stuck.step, stuck.finite)
            place, away = stuck.place, distance(model.solve(stuck.place.gradient))
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
    )
