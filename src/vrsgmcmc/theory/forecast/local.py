"""A Gaussian model of the posterior around a point, for forecasts of a run.

The model takes the gradient of one datum as linear around a centre c,

    alpha_i(x) = alpha_i(c) - H_i (x - c),

so that a step is affine given its minibatch, as on a linear-Gaussian problem. In the directions in
which the precision H = prior + sum_i H_i is diagonal, with eigenvalues lambda_k, it consists of

    S     the covariance of alpha_i(c) over the data: the noise of a minibatch
    C_kl  the variance of (H_i)_kl: the noise of a difference alpha_i(x) - alpha_i(y) in direction k is
          sum_l C_kl E(x - y)_l^2

Rows may be a sample of the data; then S and C are estimates, and H is the sample's mean times N.

With states x_1, ..., x_K of a chain, S and C are not those at the centre: C is the mean of the
variances at the states, and S is such that S + C E(x - c)^2 is the mean of the covariances of
alpha_i(x_k), so that the noise of a minibatch is the one that the chain meets.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from vrsgmcmc.core import Batch, Posterior, augment_batch, bounded_jit, data_size

Array = np.ndarray

LARGEST = 512  # number of parameters: every row has a Hessian
RESOLUTION = 1e-6  # of a curvature, for parameters of equal scale: what float32 leaves of it
HESSIAN_NUMBERS = 2**22  # numbers of one part's Hessians
FEWEST_ROWS = 256  # at a state
LEAST_SHARE = 0.01  # of the noise at the states, that S keeps


class Local(NamedTuple):
    """A Gaussian model of the posterior around `center`, in the directions that diagonalise it."""

    size: int  # N
    center: Float[Array, " d"]
    directions: Float[Array, "d d"]  # columns: x - c = directions @ z
    curvature: Float[Array, " d"]  # lambda
    likelihood_curvature: Float[Array, " d"]  # the mean of H_i, per datum
    covariance: Float[Array, "d d"]  # S, per datum
    spread: Float[Array, "d d"]  # C, per datum
    evaluations: int  # its cost; a Hessian-vector product counts 2
    unresolved: int = 0  # directions with a floor for a curvature that was negative, or rounding

    @property
    def variances(self) -> Float[Array, " d"]:
        """Posterior variances of the parameters."""
        return self.directions**2 @ (1 / self.curvature)


def local(
    posterior: Posterior,
    data: Any,
    params: Any,
    *,
    rows: int | None = None,
    seed: int = 0,
    states: Any = None,
) -> Local:
    """Measure the model at `params`, on `rows` data drawn without replacement (None: all).

    `states`, leaves [K, ...]: where the noise is measured, each on a K-th of these data or 256 of them.
    """
    size = data_size(data)
    center, unravel = ravel_pytree(params)
    dimension = center.shape[0]
    if dimension > LARGEST:
        raise ValueError(
            f"a local Gaussian model needs the Hessian of {dimension} parameters, more than {LARGEST}."
        )
    index = np.arange(size)
    if rows is not None and rows < size:
        index = np.sort(np.random.default_rng(seed).choice(size, max(rows, 2), replace=False))
    total = len(index)

    def derivatives(x: Any, index: Array) -> tuple[Array, Array]:
        part, parts = int(np.clip(HESSIAN_NUMBERS // dimension**2, 1, len(index))), []
        for some in np.resize(
            index, (-(-len(index) // part), part)
        ):  # the last starts again at row 0
            items = jax.tree.map(lambda leaf, some=some: leaf[some], data)
            some_rows = _rows(posterior, unravel, x, Batch(jnp.asarray(some), items))
            parts.append([np.asarray(leaf, np.float64) for leaf in some_rows])
        gradient, hessian = (
            np.concatenate(each)[: len(index)] for each in zip(*parts, strict=True)
        )
        return gradient, hessian

    gradient, hessian = derivatives(center, index)
    prior = -np.asarray(jax.hessian(lambda x: posterior.logprior(unravel(x)))(center), np.float64)
    precision = prior + size * hessian.mean(0)
    curvature, directions, unresolved = spectrum(precision, np.linalg.eigvalsh(prior)[0])

    def moments(gradient: Array, hessian: Array) -> tuple[Array, Array, Array]:
        """S, C and the mean of H_i, in the directions."""
        hessian = np.einsum("ak,iab,bl->ikl", directions, hessian, directions, optimize=True)
        offsets = (gradient - gradient.mean(0)) @ directions
        covariance = offsets.T @ offsets / (len(offsets) - 1)
        return covariance, np.var(hessian, axis=0, ddof=1), np.diagonal(hessian.mean(0))

    covariance, spread, mean = moments(gradient, hessian)
    evaluations = total
    if states is not None:
        points = np.asarray(jax.vmap(lambda state: ravel_pytree(state)[0])(states))
        share = min(total, max(FEWEST_ROWS, total // len(points)))
        parts = [
            moments(*derivatives(jnp.asarray(x), np.sort(np.roll(index, -k * share)[:share])))[:2]
            for k, x in enumerate(points)
        ]
        covariance, spread = (np.mean(each, 0) for each in zip(*parts, strict=True))
        squares = np.mean(((points - np.asarray(center, np.float64)) @ directions) ** 2, 0)
        own = np.diagonal(covariance)
        covariance = covariance - np.diag(np.minimum(spread @ squares, (1 - LEAST_SHARE) * own))
        evaluations += len(points) * share
    return Local(
        size=size,
        center=np.asarray(center, np.float64),
        directions=directions,
        curvature=curvature,
        likelihood_curvature=mean,
        covariance=covariance,
        spread=spread,
        evaluations=evaluations * (1 + 2 * dimension),
        unresolved=unresolved,
    )


def spectrum(
    precision: Float[Array, "d d"], least: float
) -> tuple[Float[Array, " d"], Float[Array, "d d"], int]:
    """Eigenvalues and directions of the precision, and how many of the eigenvalues are a floor.

    Scales of parameters may differ by any factor: rounding is relative to sqrt(H_jj H_kk). So what is
    not resolved shows in the precision of the parameters scaled to H_jj = 1. `least` is the least
    curvature of the prior, where that is positive.
    """
    precision = (precision + precision.T) / 2
    scale = np.abs(np.diagonal(precision))
    scale = np.sqrt(np.where(scale > 0, scale, scale.max(initial=0.0) or 1.0))
    values, vectors = np.linalg.eigh(precision / np.outer(scale, scale))
    unresolved = int(np.sum(values < RESOLUTION))
    if unresolved:
        precision = (vectors * np.maximum(values, RESOLUTION)) @ vectors.T
        precision = precision * np.outer(scale, scale)
    curvature, directions = np.linalg.eigh(precision)
    below = int(np.sum(curvature < 0.99 * least))
    tiny = np.finfo(float).eps * curvature[-1]  # of eigh itself
    return np.maximum(curvature, max(least, tiny)), directions, max(unresolved, below)


@partial(bounded_jit, static=2)
def _rows(posterior: Posterior, unravel: Any, center: Any, batch: Batch) -> Any:
    """Gradient and negative Hessian of each row's log-likelihood."""

    def slope(x, datum):
        gradient = jax.grad(lambda x: posterior.loglik(unravel(x), datum))(x)
        return gradient, gradient

    data = augment_batch(posterior, batch, jax.random.key(0))
    hessian, gradient = jax.vmap(jax.jacfwd(slope, has_aux=True), (None, 0))(center, data)
    return gradient, -hessian
