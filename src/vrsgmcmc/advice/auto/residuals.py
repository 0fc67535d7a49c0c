"""How far the gradients of single data are from their Taylor series around the mode c.

    order 1:  r_i(x) = g_i(x) - g_i(c)
    order 2:  r_i(x) = g_i(x) - g_i(c) + H_i (x - c)

at a few draws x = c + L z, z ~ N(0, I). They are the noise of a control variate: with n rows a step,
the gradient in z has the variance  N (N - n)/n Var_i(L^T r_i)  in each direction, at most N/n times

    energy = sum_i (L^T r_i)^2.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core

from .site import Site

DRAWS = 4  # of the Gaussian approximation, at which residuals are measured
PART = 1024  # rows whose gradients are held at once
MOST_HOT = 64
TOP = 256  # rows of highest leverage that are always looked at
SUSPECTS, MOST_DRAWS = 128, 64  # rows that may be hot, and draws at which they are looked at again
WIDE = 1.5  # sds: how far out every second of these draws is, on average


class Residuals(NamedTuple):
    """The energy of all rows, and the rows that have most of it."""

    order: int
    energy: np.ndarray  # [d]
    top: np.ndarray  # [T]: the rows of highest energy, first
    top_energy: np.ndarray  # [T, d]
    evaluations: int

    def without(self, hot: int) -> np.ndarray:
        """The energy that is left when the first `hot` rows are always visited."""
        return np.maximum(self.energy - self.top_energy[:hot].sum(0), 0.0)


def measure_residuals(site: Site, order: int, allowance: float, seed: int) -> Residuals:
    """Measure on all rows, or on as many as the allowance of evaluations permits."""
    posterior, data, center, metric = site
    draws = DRAWS if allowance > 2 * DRAWS * site.size else 1
    rng = np.random.default_rng([seed, 19])
    row, unravel = ravel_pytree(center)
    z = jnp.asarray(rng.normal(size=(draws, row.size)), row.dtype)
    points = jax.vmap(lambda z: unravel(row + metric.stretch(z)))(z)
    each = 1 + order  # per row and draw: g_i(x), g_i(c), and H_i (x - c)
    rows = int(0.75 * allowance / (each * draws))
    index, weights, levers = choose_rows(posterior, data, center, metric, rows, rng)
    energy, scores, part = np.zeros(row.size), np.zeros(len(index)), min(PART, len(index))
    for start in range(0, len(index), part):
        some = np.arange(start, min(start + part, len(index)))
        padded = np.resize(some, part)  # one shape for all parts
        squares = _squares(posterior, order, data, index[padded], center, points, metric)
        squares = np.asarray(squares, np.float64)[: len(some)]
        energy += weights[some] @ squares
        scores[some] = squares.sum(1)
    # A row of high leverage is quiet at most draws and throws the chain far out at others, so the rows
    # that may be hot are looked at again, at more draws and further out.
    rank = np.maximum(np.argsort(np.argsort(scores)), np.argsort(np.argsort(levers)))
    suspects = np.argsort(-rank, kind="stable")
    suspects = suspects[weights[suspects] == 1][:SUSPECTS]  # one that stands for others cannot go
    more = int(np.clip(allowance / 4 / (each * max(len(suspects), 1)), draws, MOST_DRAWS))
    widths = np.where(np.arange(more) % 2, WIDE, 1.0)
    z = jnp.asarray(widths[:, None] * rng.normal(size=(more, row.size)), row.dtype)
    further = jax.vmap(lambda z: unravel(row + metric.stretch(z)))(z)
    top_energy = np.zeros((len(suspects), row.size))
    if len(suspects):
        before = _squares(posterior, order, data, index[suspects], center, points, metric)
        after = _squares(posterior, order, data, index[suspects], center, further, metric)
        top_energy = np.asarray(after, np.float64)
        energy = energy - np.asarray(before, np.float64).sum(0) + top_energy.sum(0)
    best = np.argsort(-top_energy.sum(1))[:MOST_HOT]
    evaluations = each * (draws * (len(index) + len(suspects)) + more * len(suspects))
    return Residuals(
        order, np.maximum(energy, 0.0), index[suspects[best]], top_energy[best], evaluations
    )


def choose_rows(
    posterior: core.Posterior,
    data: core.Data,
    center: core.Params,
    metric: core.Metric,
    most: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, how many each stands for, and their leverage: all, or some with the highest leverage."""
    size = core.data_size(data)
    levers = np.zeros(size)
    if isinstance(posterior, core.GLM) and isinstance(metric, core.Dense):
        levers = np.asarray(leverages(posterior, data, center, metric), np.float64)
    most = max(most, min(size, 64))
    if most >= size:
        return np.arange(size), np.ones(size), levers
    first = np.argsort(-levers)[: min(TOP, most // 2)] if levers.any() else np.array([], int)
    rest = np.setdiff1d(np.arange(size), first)
    some = np.sort(rng.choice(rest, most - len(first), replace=False))
    weights = np.concatenate([np.ones(len(first)), np.full(len(some), len(rest) / len(some))])
    index = np.concatenate([first, some])
    return index, weights, levers[index]


@core.bounded_jit
def leverages(
    posterior: core.Posterior, data: core.Data, center: core.Params, metric: core.Dense
) -> Any:
    """|L^T J_i|^2 of each row, J_i the derivative of its linear predictor: no gradient is evaluated."""
    assert isinstance(posterior, core.GLM)
    row, unravel = ravel_pytree(center)
    numbers = unravel(jnp.arange(1, row.size + 1, dtype=row.dtype))  # 0: always zero
    place = posterior.coefficients(numbers).astype(int)
    features = jax.vmap(posterior.features)(data[0]).astype(row.dtype)
    factor = jnp.pad(metric.factor.astype(row.dtype), ((1, 0), (0, 0)))
    factor = factor[place.reshape(len(place), -1)]  # [p, K, d]
    inner = jnp.einsum("pkd,qkd->pq", factor, factor)
    return jnp.sum((features @ inner) * features, 1)


@partial(core.bounded_jit, static=2)
def _squares(
    posterior: core.Posterior,
    order: int,
    data: core.Data,
    index: Any,
    center: core.Params,
    points: core.Params,
    metric: core.Metric,
) -> Any:
    """The mean over the points of (L^T r_i)^2, [row, d]."""
    batch, key = core.rows(data, index), jax.random.key(0)

    def gradients(params: core.Params) -> core.Params:
        return core.row_gradients(posterior, params, batch, key)

    def one(point: core.Params) -> Any:
        here = gradients(point)
        away = jax.tree.map(jnp.subtract, point, center)
        there, slope = jax.jvp(gradients, (center,), (away,))
        if order == 1:
            slope = jax.tree.map(jnp.zeros_like, slope)
        rest = jax.tree.map(lambda a, b, c: a - b - c, here, there, slope)
        flat = jax.vmap(lambda tree: ravel_pytree(tree)[0])(rest)
        return jnp.square(jax.vmap(metric.pull)(flat))

    return jnp.mean(jax.lax.map(one, points), 0)
