"""Where a decision is made: a posterior, its data, a mode, and the variables that suit it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core


class Site(NamedTuple):
    """A posterior with a mode; draws from its Gaussian approximation there are c + L z."""

    posterior: core.Posterior
    data: core.Data
    mode: core.Params
    metric: core.Metric  # L L^T is the inverse Hessian at the mode

    @property
    def size(self) -> int:
        return core.data_size(self.data)

    def draws(self, key: Any, count: int, width: float = 1.0) -> core.Params:
        """Some draws, leaves [draw, ...]."""
        row, unravel = ravel_pytree(self.mode)
        z = width * jax.random.normal(key, (count, row.size), row.dtype)
        return jax.vmap(lambda z: unravel(row + self.metric.stretch(z)))(z)

    def standard_deviations(self) -> np.ndarray:
        """Of the Gaussian approximation, in one row."""
        metric: Any = self.metric
        if isinstance(metric, core.Dense):
            return np.sqrt(np.sum(np.square(np.asarray(metric.factor, np.float64)), 1))
        scale = np.asarray(metric.scale, np.float64)
        if isinstance(metric, core.LowRank):
            U, widths = (np.asarray(a, np.float64) for a in (metric.directions, metric.widths))
            scale = scale * np.sqrt(1 + np.square(U) @ (widths**2 - 1))
        return scale

    def squares(self, positions: core.Params) -> Any:
        """|z|^2 / d of positions [draw, ...]: 1 on average under the Gaussian approximation."""
        rows = jax.vmap(lambda tree: ravel_pytree(tree)[0])(positions)
        z = jax.vmap(lambda row: self.metric.shrink(row - self.metric.center.astype(row.dtype)))(
            jnp.asarray(rows)
        )
        return np.asarray(jnp.mean(jnp.square(z), 1), np.float64)
