"""The mode with a dense H and the metric x = mode + L z, L L^T = H^-1.

The search ends where the distance to the mode is small. There H is measured: over all data for a
generalised linear model (one pass), and for others if 2 d passes are allowed, else on a subsample.
It is scaled, factorised on the host in float64, and cast last.
"""

import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core

from .curvature import SINGULAR, Factor, Indefinite, dense
from .linear import LinearTarget
from .located import NEAR, Located
from .newton import Place, distance, measure
from .refusals import (
    name_coarse_products,
    refuse_curvature,
    refuse_flat,
    refuse_rounding,
    refuse_support,
)
from .search import SLOW, aim, begin, fisher_information, settle
from .target import Matrix, Target, Vector

ROUNDS = 5  # of a search on all data and H at its end
ROWS_EACH, SHARE = 20, 50  # rows of a subsample for H: 20 d, or N / 50
FEWEST_EACH = 7  # with fewer rows for each parameter, the gradients' squares are a better H
ALLOWANCE = 0.3  # of what is allowed, for H on a subsample
RATE = 0.3  # by which a step with the curvature of a subsample shrinks the distance, until measured
RESOLUTION = 8  # times the model's eps: of a scaled H by automatic differentiation
LOOK_ROWS, LOOK_SHARE, LOOK_ROWS_EACH = 200, 20, 2  # that look around the mode
FEWEST_LOOK = 10
LOOKS = 6  # evaluations of each of them


def locate_dense(full: Target, x: Vector, seed: int) -> Located:
    """With a dense H."""
    meter, notes, linear = full.meter, [], isinstance(full, LinearTarget)
    place, model, rows = begin(full, x, True, seed)
    some = min(max(LOOK_ROWS, LOOK_ROWS_EACH * full.dimension), full.size // LOOK_SHARE)
    look = full.subsample(max(some, FEWEST_LOOK), seed)
    exact = linear or meter.left >= full.hessian_cost + 2 * full.rows
    reserve = LOOKS * look.rows + (full.hessian_cost if exact and not linear else 0)
    if not linear:
        hessian, rows = subsample_hessian(full, place.x, seed)
        model = dense(hessian)
    else:  # H came with the gradient
        hessian = full.likelihood_hessian(place.x) + full.prior_hessian(place.x)
        model = dense(hessian)
    rate = min(1.0, np.sqrt(full.dimension / rows)) if rows else RATE
    for _ in range(ROUNDS):
        end = settle(full, place, model, rate, True, reserve)
        place, likelihood = end.place, None
        if exact:
            likelihood = full.likelihood_hessian(place.x)
            hessian = likelihood + full.prior_hessian(place.x)
        elif meter.left >= 2 * full.dimension * rows:
            hessian, rows = subsample_hessian(full, place.x, seed)
        model = dense(hessian)
        if place.gradient is None:
            if meter.left < full.rows + LOOKS * look.rows:
                break
            place = measure(full, place.x)
        solution = model.solve(place.gradient)
        near = solution.positive and distance(solution) < aim(full)
        if near or meter.left < reserve + full.rows:
            break
    factor, notes = positive_factor(full, place.x, hessian, exact, notes)
    away = end.distance
    if place.gradient is not None:
        away = distance(factor.solve(place.gradient))
        if exact and away >= NEAR:
            place_after, rest = step_once(full, look, place, factor, seed)
            if rest < away:
                notes.append(f"H is that at a point {away:.2g} standard deviations away")
                place, away, likelihood, exact = place_after, rest, None, False
    if place.gradient is None:
        notes.append("no pass was left for a gradient at the end: the distance is an estimate")
    if rows < full.rows and not exact and not linear:
        notes.append(f"H is that of {rows:,} of {full.size:,} rows")
    root = factor.root
    metric = core.Dense(*(jnp.asarray(each, full.dtype) for each in (place.x, root)))
    if away < NEAR:
        refuse_flat(full, look, place, factor)
        refuse_support(full, place.x, metric, seed)
        refuse_rounding(full, place.x, hessian, np.linalg.norm(root, axis=1))
        coarse = name_coarse_products(full, hessian, root)
        if coarse and likelihood is not None:
            likelihood = None
            notes.append(
                f"{jnp.dtype(full.dtype).name} is too coarse for H along {coarse}, so no control "
                "variate of order 2 is used: remove a column that is nearly a sum of others, or "
                "enable x64"
            )
    return Located(
        params=full.params(place.x),
        evaluations=meter.evaluations,
        distance=away,
        metric=metric,
        likelihood_hessian=likelihood,
        exact=exact,
        condition=float(np.linalg.eigvalsh(hessian)[-1] * np.linalg.norm(root, 2) ** 2),
        seconds=0.0,
        notes=tuple(notes),
        gradient=place.gradient,
    )


def step_once(
    full: Target, look: Target, place: Place, factor: Factor, seed: int
) -> tuple[Place, float]:
    """The place after Newton's step and the distance there, where no second H can be paid.

    If a gradient can, and is not small enough, a second step follows it unseen. If none can, some rows
    estimate it: after a step s it is what the quadratic misses, g(x + s) - g(x) + H s.
    """
    solution = factor.solve(place.gradient)
    x, away = full.round(place.x + solution.step), distance(solution)
    if full.meter.left < full.rows:
        spare = full.meter.left - LOOKS * look.rows
        rows = max(look.rows, int(spare / (2 + full.product_cost)))
        some = full.subsample(rows, seed)
        slope = some.slope(x)[1] - some.slope(place.x)[1] + some.product(place.x, solution.step)
        return Place(x, np.nan, None), _distance(factor, slope)
    after = measure(full, x)
    rest = _distance(factor, after.gradient)
    if NEAR <= rest < SLOW * away:
        x = full.round(after.x + factor.solve(after.gradient).step)
        return Place(x, np.nan, None), rest**2 / away
    return after, rest


def _distance(factor: Factor, gradient: Vector) -> float:
    return distance(factor.solve(gradient)) if np.all(np.isfinite(gradient)) else np.inf


def subsample_hessian(full: Target, x: Vector, seed: int) -> tuple[Matrix, int]:
    """H on a subsample, and its rows; where few are allowed, by the squares of more rows' gradients."""
    d, allowance = full.dimension, ALLOWANCE * full.meter.most
    wish = max(ROWS_EACH * d, full.size // SHARE)
    rows = int(min(full.size, wish, allowance // (2 * d)))
    prior = full.prior_hessian(x)
    if rows >= min(full.size, FEWEST_EACH * d):
        return full.subsample(rows, seed).likelihood_hessian(x) + prior, rows
    rows = int(min(full.size, wish, max(allowance, FEWEST_EACH * d)))
    return fisher_information(full.subsample(rows, seed), x) + prior, rows


def positive_factor(
    full: Target, x: Vector, hessian: Matrix, exact: bool, notes: list[str]
) -> tuple[Factor, list[str]]:
    """The factor of H; directions that numbers or a subsample do not resolve get a floor."""
    resolution = 0.0 if isinstance(full, LinearTarget) else RESOLUTION * full.eps
    model = dense(hessian)
    if isinstance(model, Factor) and np.min(np.diagonal(model.lower)) ** 2 > resolution:
        return model, notes
    model = Indefinite(hessian)
    prior = full.prior_hessian(x) / np.outer(model.scale, model.scale)
    floor = np.einsum("jk,ji,ik->k", model.vectors, prior, model.vectors)
    low = model.values < max(resolution, SINGULAR * len(floor))
    if np.any(low & (floor <= 0)) or (exact and np.any(model.values < -10 * resolution - 1e-9)):
        refuse_curvature(full, model)
    floor = np.maximum(floor, resolution if exact else np.maximum(np.abs(model.values), resolution))
    values = np.where(low, floor, model.values)
    scaled = (model.vectors * values) @ model.vectors.T
    note = f"{np.sum(low)} directions of H were not resolved, and got a floor from the prior"
    return Factor(scaled * np.outer(model.scale, model.scale)), [*notes, note]
