"""The same target for a generalised linear model: one pass for the Hessian of all data.

With the features F [m, p], the linear predictors eta = F B, B [p, K] the coefficients, and the first
and second derivatives u_i [K] and -W_i [K, K] of the likelihood in eta,

    gradient = F^T u,   H[(p, k), (q, l)] = sum_i F_ip F_iq W_ikl.

One sweep over the rows makes the value, the gradient and H at a point, and counts once, whichever of
them are asked for one after the other. The model's dtype computes u and W; all products are float64 on
the host. The rows come in blocks of one
length (the last one is filled up), so that every number of rows runs the same program.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core

from .target import Matrix, Meter, Target, Vector

BLOCK_NUMBERS = 2**21  # features of one block
LONGEST_BLOCK, SHORTEST_BLOCK = 4096, 64  # rows


class Sweep(NamedTuple):
    """What one pass over the rows makes at x."""

    x: Vector
    value: float
    gradient: Vector
    hessian: Matrix


class LinearTarget(Target):
    """A `core.GLM` whose coefficients are the parameters in some order, with zeros between them."""

    product_cost = 1
    scalar: bool  # whether eta is a number
    places: np.ndarray  # [p, K] of the coefficients in the row of parameters; -1: always 0
    sweep: "Sweep | None" = None  # the last one

    @property
    def hessian_cost(self) -> int:
        return self.rows

    def subsample(self, rows: int, seed: int) -> Target:
        part = super().subsample(rows, seed)
        if isinstance(part, LinearTarget) and part is not self:
            part.sweep = None
        return part

    def likelihood_slope(self, x: Vector) -> tuple[float, Vector]:
        if self.sweep is not None and np.array_equal(self.sweep.x, x):
            return self.sweep.value, self.sweep.gradient
        value, total = 0.0, np.zeros(self.places.shape)
        with np.errstate(all="ignore"):  # far out they are not finite
            for features, terms, slopes in self.blocks(x, 1):
                value += float(terms.sum())
                total += features.T @ slopes
        self.meter.count(self.rows, total)
        return value, self.flat(total)

    def likelihood_products(self, x: Vector, directions: np.ndarray) -> np.ndarray:
        total = np.zeros((len(directions), *self.places.shape))
        for features, _, _, weights in self.blocks(x, 2):
            for each, direction in zip(total, directions, strict=True):
                moves = features @ self.coefficients(direction)
                each += features.T @ np.einsum("ikl,il->ik", weights, moves)
        self.meter.count(self.rows * len(directions), total)
        return self.weight * np.stack([self.flat(each) for each in total])

    def likelihood_hessian(self, x: Vector) -> Matrix:
        if self.sweep is None or not np.array_equal(self.sweep.x, x):
            self.sweep = self.sweep_rows(x)
        return self.sweep.hessian

    def sweep_rows(self, x: Vector) -> "Sweep":
        p, K = self.places.shape
        total, value, slope = np.zeros((K, K, p, p)), 0.0, np.zeros((p, K))
        with np.errstate(all="ignore"):
            for features, terms, slopes, weights in self.blocks(x, 2):
                value += float(terms.sum())
                slope += features.T @ slopes
                for k in range(K):
                    for l in range(k + 1):
                        total[k, l] += features.T @ (features * weights[:, k, l, None])
        for k in range(K):
            for l in range(k):
                total[l, k] = total[k, l].T
        self.meter.count(self.rows, total)
        total = self.weight * total.transpose(0, 2, 1, 3).reshape(p * K, -1)
        hessian, order = np.empty((self.dimension, self.dimension)), self.places.T.ravel()
        free = np.flatnonzero(order >= 0)
        hessian[np.ix_(order[free], order[free])] = total[np.ix_(free, free)]
        return Sweep(np.array(x), value, self.flat(slope), (hessian + hessian.T) / 2)

    def likelihood_diagonal(self, x: Vector) -> Vector:
        total = np.zeros(self.places.shape)
        for features, _, _, weights in self.blocks(x, 2):
            total = total + np.square(features).T @ np.einsum("ikk->ik", weights)
        self.meter.count(self.rows, total)
        return self.weight * self.flat(np.asarray(total))

    def flat(self, values: Any) -> Vector:
        """Values of the coefficients [p, K] in the order of the parameters."""
        row, free = np.empty(self.dimension), self.places >= 0
        row[self.places[free]] = values[free]
        return row

    def coefficients(self, row: Any) -> np.ndarray:
        """The coefficients [p, K] that a row of parameters stands for."""
        return np.append(np.asarray(row, np.float64), 0.0)[self.places]

    def blocks(self, x: Vector, order: int) -> Iterator[tuple[np.ndarray, ...]]:
        """Of some rows: features [b, p], log-likelihoods [b], slopes u [b, K], weights [b, K, K]."""
        coefficients = self.coefficients(x)
        most = max(SHORTEST_BLOCK, min(LONGEST_BLOCK, BLOCK_NUMBERS // len(coefficients)))
        length = min(2 ** int(np.log2(most)), max(SHORTEST_BLOCK, _power(self.rows)))
        scalar = self.scalar
        for first in range(0, self.rows, length):
            rows = np.minimum(np.arange(first, first + length), self.rows - 1)
            count = min(length, self.rows - first)
            inputs, y = jax.tree.map(lambda leaf, rows=rows: np.asarray(leaf)[rows], self.data)
            features = np.asarray(_features(self.posterior, inputs), np.float64)
            eta = features @ coefficients
            eta = jnp.asarray(eta[:, 0] if scalar else eta, self.dtype)
            parts = _derivatives(self.posterior, order, eta, y)
            yield features[:count], *(np.asarray(each, np.float64)[:count] for each in parts)


def make_target(
    posterior: core.Posterior, data: core.Data, params: core.Params, meter: Meter
) -> Target:
    """The target over all data; a generalised linear model gets its own."""
    general = Target(posterior, data, params, meter)
    if not isinstance(posterior, core.GLM) or posterior.augment is not None:
        return general
    numbers = general.unravel(jnp.arange(1, general.dimension + 1, dtype=general.dtype))
    places = np.asarray(posterior.coefficients(numbers), np.float64) - 1
    if not np.array_equal(np.sort(places[places != -1]), np.arange(general.dimension)):
        return general
    target = LinearTarget(posterior, data, params, meter)
    target.scalar = places.ndim == 1
    target.places = places.astype(int).reshape(len(places), -1)
    return target


def _power(rows: int) -> int:
    return 2 ** int(np.ceil(np.log2(rows)))


@core.bounded_jit
def _features(posterior: core.GLM, inputs: Any):
    return jax.vmap(posterior.features)(inputs)


def _one(posterior: core.GLM, order: int, eta: Any, y: Any):
    shape = jnp.atleast_1d(eta).shape
    value, slope = jax.value_and_grad(posterior.likelihood)(eta, y)
    parts = (value, slope.reshape(shape))
    if order == 1:
        return parts
    curvature = jax.jacfwd(jax.grad(posterior.likelihood))(eta, y)
    return *parts, -curvature.reshape(shape * 2)


@partial(core.bounded_jit, static=2)
def _derivatives(posterior: core.GLM, order: int, eta: Any, y: Any):
    return jax.vmap(lambda eta, y: _one(posterior, order, eta, y))(eta, y)
