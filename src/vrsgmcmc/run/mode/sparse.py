"""The mode with a diagonal metric, or a diagonal one with some directions, for many parameters.

The diagonal D of H is exact for a generalised linear model; for others it is that of the Fisher
information of a subsample and of the prior. Lanczos' method on D^-1/2 H D^-1/2, t products from a
random vector, finds the ends of its spectrum: eigenvalues theta, far from 1, and directions U, so that
L = D^-1/2 (I + U (theta^-1/2 - 1) U^T) has L L^T = H^-1 along them.
"""

import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core

from .curvature import Products
from .linear import LinearTarget
from .located import NEAR, Located
from .refusals import UPWARDS, Saddle, refuse_coarse, refuse_large, refuse_support
from .search import begin, positive_part, precondition, settle
from .target import Target, Vector

ROWS, SHARE = 500, 50  # rows of a subsample for the metric: 500, or N / 50
STEPS = 40  # of Lanczos' method
ALLOWANCE = 0.4  # of what is left, for them
FAR, RESIDUAL = 1.3, 0.3  # a direction counts if theta is so far from 1, and so well resolved;
# noise of a subsample spreads eigenvalues, too, by up to (1 + sqrt(d / m))^2
RATE = 0.5  # by which a step shrinks the distance, until measured


def locate_sparse(full: Target, x: Vector, kind: str, seed: int) -> Located:
    meter, notes = full.meter, []
    place, model, _ = begin(full, x, False, seed)
    each = full.product_cost * (STEPS if kind == "low_rank" else 1)  # evaluations of a row
    allowance = min(ALLOWANCE * meter.left / each, full.rows)
    some = full.subsample(int(max(ROWS, full.size // SHARE, allowance)), seed)
    measured = full if isinstance(full, LinearTarget) else some
    few = some.rows < full.dimension  # they say little about H: the search uses all data
    if model is None and few:
        model = precondition(measured, place.x, False)
    elif model is None:
        model = Products(some, place.x, precondition(some, place.x, False))
    reserve = measured.rows + (each * some.rows if kind == "low_rank" and not few else 0)
    end = settle(full, place, model, RATE, False, reserve)
    place = end.place
    diagonal = measured.likelihood_diagonal(place.x) + full.prior_diagonal(place.x)
    refuse_large(full, diagonal)
    poor = ~(np.isfinite(diagonal) & (diagonal > 0))
    if poor.any():
        notes.append(
            f"{poor.sum()} entries of the diagonal were not positive, and got the least one"
        )
    diagonal = positive_part(np.where(poor, full.prior_diagonal(place.x), diagonal))
    if end.distance == np.inf:
        raise Saddle(UPWARDS.format(name="some parameters"))
    scale, spread = 1 / np.sqrt(diagonal), diagonal.max() / diagonal.min()
    row = [jnp.asarray(each, full.dtype) for each in (place.x, scale)]
    metric = core.Diagonal(*row)
    if kind == "low_rank":
        allowed = meter.left / (some.product_cost * some.rows)
        steps = int(max(1, min(STEPS, full.dimension, allowed)))
        theta, directions = lanczos(some, place.x, scale, steps)
        if np.any(theta < 0):
            notes.append(
                f"{np.sum(theta < 0)} directions curve upwards, and got their size as a floor"
            )
        theta = np.abs(theta)
        spread *= max(theta.max(initial=1.0), 1.0) / min(theta.min(initial=1.0), 1.0)
        notes.append(f"{len(theta)} directions from {steps} products on {some.rows:,} rows")
        extra = [jnp.asarray(each, full.dtype) for each in (directions, 1 / np.sqrt(theta))]
        metric = core.LowRank(*row, *extra)
    if not isinstance(full, LinearTarget):
        notes.append(f"the diagonal is that of {some.rows:,} rows' squared gradients")
    if place.gradient is None:
        notes.append("no pass was left for a gradient at the end: the distance is an estimate")
    if end.distance < NEAR:
        refuse_support(full, place.x, metric, seed)
        refuse_coarse(full, full.eps / 4 * np.hypot(place.x, scale) / scale)
    return Located(
        params=full.params(place.x),
        evaluations=meter.evaluations,
        distance=end.distance,
        metric=metric,
        likelihood_hessian=None,
        exact=False,
        condition=float(spread),
        seconds=0.0,
        notes=tuple(notes),
        gradient=place.gradient,
    )


def lanczos(target: Target, x: Vector, scale: Vector, steps: int) -> tuple[Vector, np.ndarray]:
    """Eigenvalues of diag(scale) H diag(scale) that are resolved and far from 1; directions [d, k]."""
    basis, alpha, beta = np.zeros((steps, len(x))), [], []
    vector = np.random.default_rng(0).normal(size=len(x))
    for t in range(steps):
        basis[t] = vector / np.linalg.norm(vector)
        vector = scale * target.product(x, scale * basis[t])
        alpha.append(basis[t] @ vector)
        for _ in range(2):  # once more, for what rounding left
            vector = vector - basis[: t + 1].T @ (basis[: t + 1] @ vector)
        beta.append(np.linalg.norm(vector))
        if beta[-1] < 1e-10 * max(np.abs(alpha)):
            basis = basis[: t + 1]
            break
    theta, ritz = np.linalg.eigh(np.diag(alpha) + np.diag(beta[:-1], 1) + np.diag(beta[:-1], -1))
    resolved = np.abs(beta[-1] * ritz[-1]) < RESIDUAL * np.abs(theta)
    noise = (1 + np.sqrt(target.dimension / target.rows)) ** 2 if target.weight > 1 else 1.0
    far = np.abs(np.log(np.abs(theta) + (theta == 0))) > np.log(max(FAR, noise))
    return theta[resolved & far], basis.T @ ritz[:, resolved & far]
