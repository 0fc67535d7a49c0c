"""Why there is no mode, or numbers are too coarse to sample around it, and what to do."""

from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core

from .curvature import Factor, Indefinite
from .newton import Place
from .target import Matrix, Target, Vector

DRAWS, DRAW_NUMBERS = (
    256,
    2**24,
)  # of the Gaussian at the mode, to look for a support's end
FALL = 0.3  # of the fall that a quadratic promises at one sd: less, and there is no mode
DISTANCES, DEEP = (3.0, 12.0, 50.0, 200.0), 5.0  # sds to look at, and how far down is an end
LOPSIDED = 3.0  # times as far a fall on one side as on the other
COARSE = 0.01  # of a standard deviation of the gradient in z
COARSE_PRODUCT = 0.1  # of it, for rounding in H (x - c)
UPWARDS = (
    "no mode was reached: the log posterior curves upwards along a direction of {name} where the "
    "search ended (a saddle, or a point far from the mode). Start elsewhere (init), or give the "
    "search a larger budget."
)


class NoMode(ValueError):
    """The log posterior has no maximum, or none was reached; the message names parameter and repair."""


class Saddle(NoMode):
    """The log posterior curves upwards where the search ended."""


class CoarseNumbers(ValueError):
    """Rounding the parameters moves the gradient too far; the message names parameter and repair."""


def name_of(params: core.Params, place: int) -> str:
    """The name of a parameter: `weight[3, 1]`, from its place in the row of all parameters."""
    for name, leaf in core.named_leaves(params):
        if place < leaf.size:
            where = ", ".join(str(int(i)) for i in np.unravel_index(place, leaf.shape))
            return f"{name}[{where}]" if leaf.shape else name
        place -= leaf.size
    raise IndexError(place)


def name_largest(target: Target, direction: Vector) -> str:
    """The names of the parameters that a direction is mostly about, three at most."""
    sizes = np.abs(direction)
    order = np.argsort(-sizes)[:3]
    params = target.params(np.zeros(target.dimension))
    return ", ".join(name_of(params, int(j)) for j in order if sizes[j] > 0.3 * sizes[order[0]])


def refuse_start(target: Target, place: Place) -> None:
    """Raise where the log posterior or its gradient is not finite at the start."""
    bad = np.flatnonzero(~np.isfinite(place.gradient))
    if np.isfinite(place.value) and not bad.size:
        return
    what = f"the log posterior is {place.value}"
    if np.isfinite(place.value):
        name = name_of(target.params(place.x), int(bad[0]))
        what = f"the gradient of the log posterior in {name} is {place.gradient[bad[0]]}"
    raise NoMode(
        f"there is no mode to search from this start: {what} there. Start inside the support (init), "
        "or write the model in parameters that may take any value, such as a logarithm."
    )


def refuse_stuck(target: Target, place: Place, step: Vector, finite: bool) -> NoReturn:
    name = name_largest(target, step * np.sqrt(np.abs(place.gradient / (step + (step == 0)))))
    if not finite:
        raise NoMode(
            f"the log posterior has no mode inside its support: it grows in {name} up to a point "
            "beyond which it is not finite. Write the model in parameters that may take any value, "
            "such as the logarithm of a positive one."
        )
    raise NoMode(
        f"the search for a mode is stuck: no step in {name} raises the log posterior, though its "
        "gradient says so. Look for a kink or a wrong gradient in the model, scale the columns alike, "
        'or use float64: jax.config.update("jax_enable_x64", True).'
    )


def refuse_curvature(target: Target, model: Indefinite) -> NoReturn:
    """H is not positive where the search ended."""
    direction = model.vectors[:, 0]
    name, least = name_largest(target, direction), model.values[0]
    if abs(least) < 1e-6:
        raise NoMode(
            f"the log posterior has no mode: it is flat along a direction of {name} (columns that "
            "depend on each other, or parameters that the data do not tell apart, with a flat prior). "
            "Give these a proper prior, such as a normal one, or drop a column."
        )
    raise Saddle(UPWARDS.format(name=name))


def refuse_flat(full: Target, look: Target, place: Place, factor: Factor) -> None:
    """Raise where the log posterior does not fall as a quadratic does, away from the place.

    A likelihood that rises for ever (separable data) has a small gradient and a small curvature far
    out, and looks like a mode there. Looked at are the flattest direction and that of Newton's step s,
    so far along it that a gradient that stays positive falls by less than a quarter of the promise.
    Some rows look first, at one sd, and all if those see less than the promise, or one side that
    falls far more than the other.
    """
    flattest = factor.flattest()
    directions = [(flattest, 1.0)]
    if place.gradient is not None and np.any(place.gradient):
        step, square, _ = factor.solve(place.gradient)
        directions.append((step / np.sqrt(square), max(1.0, 4 * np.sqrt(square))))
    for direction, far in directions:
        if look is not full:
            low, high = sorted(falls(look, place.x, direction, (1.0, -1.0)))
            if low > FALL and high < LOPSIDED * low:
                continue
        if min(falls(full, place.x, direction, (far, -1.0))) < FALL and not all(
            ends(full, place.x, way * direction) for way in (1.0, -1.0)
        ):
            names = name_largest(full, direction * factor.scale)
            raise NoMode(
                f"the log posterior has no mode: it hardly falls along a direction of {names} "
                "(separable data, or parameters that the data do not determine, with a flat prior). "
                "Give these a proper prior, such as a normal one."
            )


def refuse_rise(target: Target, x: Vector, direction: Vector) -> None:
    """Raise where the slope rises along a direction, on both sides together."""
    if sum(falls(target, x, direction, (1.0, -1.0))) <= 0:
        raise Saddle(UPWARDS.format(name=name_largest(target, direction)))


def falls(target: Target, x: Vector, direction: Vector, ways: tuple[float, ...]) -> list[float]:
    """How much the slope falls along a direction, each way, of what a quadratic promises."""
    start = target.slope(x)[1] @ direction
    slopes = [(target.slope(x + way * direction)[1] @ direction, way) for way in ways]
    return [float((start - slope) / way) if np.isfinite(slope) else 1.0 for slope, way in slopes]


def ends(target: Target, x: Vector, direction: Vector) -> bool:
    """Whether the log posterior is far down somewhere along a direction: no quadratic, but it ends."""
    start = target.slope(x)[0]
    values = (target.slope(x + far * direction)[0] for far in DISTANCES)
    return any(not np.isfinite(value) or start - value > DEEP for value in values)


def refuse_support(target: Target, x: Vector, metric: core.Metric, seed: int) -> None:
    """Raise where the Gaussian at the mode reaches beyond the support of the prior."""
    count = max(1, min(DRAWS, DRAW_NUMBERS // len(x)))
    z = jnp.asarray(np.random.default_rng(seed).normal(size=(count, len(x))), target.dtype)
    draws = x + np.asarray(jax.vmap(metric.stretch)(z), np.float64)
    values = np.asarray(_priors(target.posterior, jax.vmap(target.params)(draws)))
    outside = np.flatnonzero(~np.isfinite(values))
    if not outside.size:
        return
    inside = np.isfinite(values)
    params = target.params(x)
    alone = (
        np.where(np.eye(len(x), dtype=bool), draws[outside[0]], x) if len(x) <= DRAWS else x[None]
    )
    guilty = np.flatnonzero(~np.isfinite(_priors(target.posterior, jax.vmap(target.params)(alone))))
    name = name_of(params, int(guilty[0])) if guilty.size else "some parameter"
    raise NoMode(
        f"the prior is -inf beyond an end of its support that is near: {np.mean(~inside):.0%} of the "
        f"draws from the Gaussian at the mode lie outside, in {name}. Write the model in parameters "
        "that may take any value, such as the logarithm of a positive one."
    )


@core.bounded_jit
def _priors(posterior: core.Posterior, params: core.Params):
    return jax.vmap(posterior.logprior)(params)


def refuse_rounding(target: Target, x: Vector, hessian: Matrix, sd: Vector) -> None:
    """Raise where rounding x moves the gradient in z = L^-1 (x - c) by over 1 % of its sd, which is 1.

    A parameter of size |x_j| is rounded by about eps / 4 |x_j|, an error D; the gradient moves by
    L^T H D, whose largest size is the root of the largest eigenvalue of D H D.
    """
    error = target.eps / 4 * np.hypot(x, sd)
    values, vectors = np.linalg.eigh(hessian * np.outer(error, error))
    refuse_coarse(target, np.sqrt(max(values[-1], 0.0)) * vectors[:, -1])


def name_coarse_products(target: Target, hessian: Matrix, root: Matrix) -> str:
    """The parameters in whose directions rounding spoils H (x - c); an empty text if there are none.

    Entry i of the product is rounded by about e_i = eps / 4 times the root of sum_j (H_ij sd_j)^2. That
    moves the gradient in z by L^T e. Columns that are nearly the same have large entries in H that
    cancel, and little curvature.
    """
    sd = np.linalg.norm(root, axis=1)
    error = target.eps / 4 * np.linalg.norm(hessian * sd, axis=1)
    _, sizes, directions = np.linalg.svd(error[:, None] * root, full_matrices=False)
    if sizes.max(initial=0.0) <= COARSE_PRODUCT:
        return ""
    return name_largest(target, (root @ directions[0]) / sd)


def refuse_large(target: Target, curvature: Vector) -> None:
    """Raise where the curvature along a parameter is more than the model's dtype can hold."""
    largest = float(jnp.finfo(target.dtype).max)
    bad = np.flatnonzero(~(curvature < largest))
    if not bad.size:
        return
    name = name_of(target.params(np.zeros(target.dimension)), int(bad[0]))
    raise CoarseNumbers(
        f"{jnp.dtype(target.dtype).name} cannot hold the curvature in {name}: it is "
        f"{curvature[bad[0]]:.1g}, more than {largest:.1g}. The numbers of its column are too large: "
        "subtract their mean and divide them by their standard deviation (vr.datasets.standardise)."
    )


def refuse_coarse(target: Target, moves: Vector) -> None:
    """Raise for moves of the gradient in z, by the parameters that cause them, that are too long."""
    moved = np.linalg.norm(moves) if np.ndim(moves) else 0.0
    if moved <= COARSE:
        return
    name = name_largest(target, moves)
    raise CoarseNumbers(
        f"{jnp.dtype(target.dtype).name} is too coarse for {name}: rounding moves the gradient by "
        f"{moved:.1%} of its standard deviation, more than {COARSE:.0%}. Centre and scale the columns "
        "(vr.datasets.standardise) that these parameters belong to, or use float64: "
        'jax.config.update("jax_enable_x64", True).'
    )
