"""A log posterior over some rows, each of which stands for N / m data, with its evaluations counted.

    log p(x) = logprior(x) + N / m * sum over m rows of loglik(x, d_i)

Points and sums are float64 on the host; the model computes in its own dtype. H is the negative
Hessian. A value with its gradient costs one evaluation per row, a Hessian-vector product two.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core

Vector = np.ndarray  # float64 [d]
Matrix = np.ndarray  # float64 [d, d]

DIRECTIONS = 16  # of Hessian-vector products at once
HESSIAN_NUMBERS = 2**22  # of the prior's Hessians at several points at once
ALIKE = 1e-4  # of the largest entry of a prior's H: so much is rounding
PROBES = 8  # of the diagonal of a prior's Hessian: one is enough for independent parameters


class Meter:
    """Evaluations that were spent, and how many may be in all."""

    def __init__(self, most: float, wait: Callable[[Any], Any] = jax.block_until_ready) -> None:
        self.most, self.wait, self.evaluations = most, wait, 0

    def count(self, evaluations: int, value: Any) -> None:
        self.wait(value)
        self.evaluations += evaluations

    @property
    def left(self) -> float:
        return self.most - self.evaluations


class Target:
    """Any posterior."""

    product_cost = 2  # evaluations per row

    def __init__(
        self, posterior: core.Posterior, data: core.Data, params: core.Params, meter: Meter
    ) -> None:
        flat, self.unravel = ravel_pytree(params)
        self.posterior, self.data, self.meter = posterior, data, meter
        self.index = np.arange(core.data_size(data))
        self.dimension, self.dtype = flat.size, flat.dtype
        self.rows = self.size = core.data_size(data)  # m and N

    @property
    def weight(self) -> float:
        return self.size / self.rows

    @property
    def eps(self) -> float:
        return float(jnp.finfo(self.dtype).eps)

    @property
    def hessian_cost(self) -> int:
        return self.product_cost * self.dimension * self.rows

    def subsample(self, rows: int, seed: int) -> "Target":
        """The target of `rows` rows, drawn without replacement; those of fewer rows are among them."""
        if rows >= self.rows:
            return self
        index = np.sort(np.random.default_rng(seed).permutation(self.rows)[:rows])
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        part.data = jax.tree.map(lambda leaf: leaf[index], self.data)
        part.index, part.rows = self.index[index], rows
        return part

    def round(self, x: Vector) -> Vector:
        """x as the model's dtype has it."""
        return np.asarray(jnp.asarray(x, self.dtype), np.float64)

    def params(self, x: Vector) -> core.Params:
        return self.unravel(jnp.asarray(x, self.dtype))

    def batch(self) -> core.Batch:
        return core.Batch(jnp.asarray(self.index), self.data)

    def slope(self, x: Vector) -> tuple[float, Vector]:
        """The log posterior and its gradient."""
        value, gradient = self.likelihood_slope(x)
        prior, prior_slope = _prior_slope(self.posterior, self.params(x))
        prior_slope = np.asarray(prior_slope, np.float64)
        return float(prior) + self.weight * value, prior_slope + self.weight * gradient

    def likelihood_slope(self, x: Vector) -> tuple[float, Vector]:
        value, gradient = _slope(self.posterior, self.batch(), self.params(x))
        self.meter.count(self.rows, gradient)
        return float(value), np.asarray(gradient, np.float64)

    def product(self, x: Vector, direction: Vector) -> Vector:
        """H times a direction."""
        product = self.likelihood_products(x, direction[None])[0]
        return product + self.prior_product(x, direction)

    def likelihood_products(self, x: Vector, directions: np.ndarray) -> np.ndarray:
        """H of the likelihood times each of the rows of `directions`."""
        length = np.linalg.norm(directions, axis=1, keepdims=True)
        length = np.where(length > 0, length, 1.0)  # long directions would overflow in float32
        units = jnp.asarray(directions / length, self.dtype)
        products = _products(self.posterior, self.batch(), self.params(x), units)
        self.meter.count(2 * self.rows * len(directions), products)
        return -self.weight * length * np.asarray(products, np.float64)

    def likelihood_hessian(self, x: Vector) -> Matrix:
        """H of the likelihood: all columns, a few at once."""
        columns = []
        for first in range(0, self.dimension, DIRECTIONS):
            some = np.arange(first, min(first + DIRECTIONS, self.dimension))
            directions = np.zeros((len(some), self.dimension))
            directions[np.arange(len(some)), some] = 1.0
            columns.append(self.likelihood_products(x, directions))
        hessian = np.concatenate(columns)
        return (hessian + hessian.T) / 2

    def row_gradients(self, x: Vector) -> Iterator[np.ndarray]:
        """grad loglik of the rows, in blocks [b, d]."""
        params, batch = self.params(x), self.batch()
        part = core.part_size(self.posterior, params, self.data)
        for first in range(0, self.rows, part):
            some = jax.tree.map(lambda leaf, first=first: leaf[first : first + part], batch)
            block = _row_gradients(self.posterior, some, params)
            self.meter.count(len(some.index), block)
            yield np.asarray(block, np.float64)

    def row_curvatures(self, x: Vector, direction: Vector) -> np.ndarray:
        """-d^T H_i d of each row, along one direction."""
        tangent = self.params(direction)
        curvatures = _row_curvatures(self.posterior, self.batch(), self.params(x), tangent)
        self.meter.count(2 * self.rows, curvatures)
        return np.asarray(curvatures, np.float64)

    def likelihood_diagonal(self, x: Vector) -> Vector:
        return self.fisher_diagonal(x)

    def fisher_diagonal(self, x: Vector) -> Vector:
        """The diagonal of the Fisher information: of the squares of the rows' gradients."""
        squares = [np.square(block).sum(0) for block in self.row_gradients(x)]
        return self.weight * np.stack(squares).sum(0)

    def prior_product(self, x: Vector, direction: Vector) -> Vector:
        tangent = jnp.asarray(direction, self.dtype)
        product = _prior_product(self.posterior, self.params(x), tangent)
        return -np.asarray(product, np.float64)

    def prior_hessian(self, x: Vector) -> Matrix:
        return self.prior_hessians(x[None])[0]

    def prior_hessians(self, points: np.ndarray) -> np.ndarray:
        """The prior's H at each of the rows of `points`, a few at once."""
        stacks, count = [], max(1, HESSIAN_NUMBERS // self.dimension**2)
        for first in range(0, len(points), count):
            some = jnp.asarray(points[first : first + count], self.dtype)
            stacks.append(_prior_hessians(self.posterior, self.params(points[0]), some))
        hessians = -np.concatenate(stacks).astype(np.float64)
        return (hessians + hessians.transpose(0, 2, 1)) / 2

    def prior_excess(self, x: Vector) -> Matrix | float:
        """The mean of the prior's H around x, less that at x: 0 for a normal prior.

        The prior of a scale hardly curves at x where the parameters that have this scale are zero: a
        step of Newton's method leads nowhere there. Around x means as far as the prior changes by about
        a factor of e.
        """
        slope = np.asarray(_prior_slope(self.posterior, self.params(x))[1], np.float64)
        here = self.prior_hessian(x)
        sizes = np.maximum(np.abs(np.diagonal(here)), slope**2)
        reach = np.where(sizes > 0, 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0)), 0.0)
        total, count = np.zeros_like(here), 0
        probes = reach * np.random.default_rng(0).normal(size=(PROBES, self.dimension))
        for some in (probes[:1], probes[1:]):  # one tells whether the prior is normal
            for there in self.prior_hessians(np.concatenate([x + some, x - some])):
                if np.all(np.isfinite(there)):
                    total, count = total + there - here, count + 1
            if np.abs(total).max(initial=0.0) <= ALIKE * np.abs(here).max(initial=0.0):
                return 0.0
        return total / max(count, 1)

    def prior_diagonal(self, x: Vector) -> Vector:
        """The diagonal of the prior's H, by random signs: exact if the parameters are independent."""
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (PROBES, self.dimension))
        return np.stack([s * self.prior_product(x, s) for s in signs]).mean(0)


@core.bounded_jit
def _slope(posterior: core.Posterior, batch: core.Batch, params: core.Params):
    """The sum of the log-likelihoods, and its gradient in one row."""

    def total(params, rows, fresh):
        terms = core.row_likelihoods(posterior, params, rows, jax.random.key(0))
        return jnp.sum(jnp.where(fresh > 0, terms, jnp.zeros_like(terms)))

    parts, part = core.cut(batch.index.shape[0], core.part_size(posterior, params, batch.items))

    def one_part(number, accumulated):
        rows, fresh = core.split_part(number, part, batch)
        return core.add(accumulated, jax.value_and_grad(total)(params, rows, fresh))

    shape = jax.eval_shape(total, params, *jax.eval_shape(lambda: core.split_part(0, part, batch)))
    start = core.empty_sum((jnp.zeros(shape.shape, shape.dtype), params))
    value, gradient = jax.lax.fori_loop(0, parts, one_part, start).value
    return value, ravel_pytree(gradient)[0]


@core.bounded_jit
def _products(posterior: core.Posterior, batch: core.Batch, params: core.Params, directions: Any):
    """The Hessian of the summed log-likelihood times each direction."""
    flat, unravel = ravel_pytree(params)

    def gradient(x):
        sums = core.likelihood_gradient(posterior, unravel(x), batch, jax.random.key(0))
        return ravel_pytree(sums)[0]

    return jax.lax.map(lambda v: jax.jvp(gradient, (flat,), (v,))[1], directions)


@core.bounded_jit
def _row_gradients(posterior: core.Posterior, batch: core.Batch, params: core.Params):
    rows = core.row_gradients(posterior, params, batch, jax.random.key(0))
    return jax.vmap(lambda row: ravel_pytree(row)[0])(rows)


@core.bounded_jit
def _row_curvatures(
    posterior: core.Posterior, batch: core.Batch, params: core.Params, tangent: Any
):
    def terms(params):
        return core.row_likelihoods(posterior, params, batch, jax.random.key(0))

    def slopes(params):
        return jax.jvp(terms, (params,), (tangent,))[1]

    return jax.jvp(slopes, (params,), (tangent,))[1]


@core.bounded_jit
def _prior_slope(posterior: core.Posterior, params: core.Params):
    value, gradient = jax.value_and_grad(posterior.logprior)(params)
    return value, ravel_pytree(gradient)[0]


@core.bounded_jit
def _prior_product(posterior: core.Posterior, params: core.Params, direction: Any):
    flat, unravel = ravel_pytree(params)
    return jax.jvp(jax.grad(lambda x: posterior.logprior(unravel(x))), (flat,), (direction,))[1]


@core.bounded_jit
def _prior_hessians(posterior: core.Posterior, params: core.Params, points: Any):
    _, unravel = ravel_pytree(params)
    return jax.lax.map(jax.hessian(lambda x: posterior.logprior(unravel(x))), points)
