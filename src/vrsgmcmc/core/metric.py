"""A metric: the chain moves in z, the model sees x = c + L z.

With L L^T near the posterior's covariance every direction of z has a variance near 1, so that one step
size suits them all. The change of variables is linear, so the density in z is that in x, times a
constant, and its gradient is L^T times that in x. Estimators work in x, integrators in z.
"""

from __future__ import annotations

import typing
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from . import tree
from .tree import cast
from .types import DensityIntegrator, Integrator, Params, description


@typing.runtime_checkable
class Metric(Protocol):
    """c and L, of the parameters in one row (`ravel_pytree`)."""

    center: Float[Array, " d"]

    @abstractmethod
    def stretch(self, z: Float[Array, " d"]) -> Float[Array, " d"]:
        """L z."""
        ...

    @abstractmethod
    def pull(self, gradient: Float[Array, " d"]) -> Float[Array, " d"]:
        """L^T g."""
        ...

    @abstractmethod
    def shrink(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """L^-1 x."""
        ...

    def position(self, z: Params) -> Params:
        """x = c + L z."""
        return _on_rows(lambda row: self.center.astype(row.dtype) + self.stretch(row), z)

    def coordinates(self, position: Params) -> Params:
        """z = L^-1 (x - c)."""
        return _on_rows(lambda row: self.shrink(row - self.center.astype(row.dtype)), position)

    def gradient(self, gradient: Params) -> Params:
        """L^T g: the gradient in z."""
        return _on_rows(self.pull, gradient)


def _on_rows(function: Callable[[Array], Array], values: Params) -> Params:
    row, unravel = ravel_pytree(values)
    return unravel(function(row).astype(row.dtype))


@description
class Dense(Metric):
    """Any matrix L."""

    center: Float[Array, " d"]
    factor: Float[Array, "d d"]

    def stretch(self, z):
        return self.factor.astype(z.dtype) @ z

    def pull(self, gradient):
        return gradient @ self.factor.astype(gradient.dtype)

    def shrink(self, x):
        return jnp.linalg.solve(self.factor.astype(x.dtype), x)


@description
class Diagonal(Metric):
    """L = diag(scale)."""

    center: Float[Array, " d"]
    scale: Float[Array, " d"]

    def stretch(self, z):
        return self.scale.astype(z.dtype) * z

    def pull(self, gradient):
        return self.stretch(gradient)

    def shrink(self, x):
        return x / self.scale.astype(x.dtype)


@description
class LowRank(Metric):
    """L = diag(scale) (I + U diag(widths - 1) U^T): the k orthonormal directions U have own widths."""

    center: Float[Array, " d"]
    scale: Float[Array, " d"]
    directions: Float[Array, "d k"]  # U
    widths: Float[Array, " k"]

    def stretch(self, z):
        return self.scale.astype(z.dtype) * self._along(z, self.widths)

    def pull(self, gradient):
        return self._along(self.scale.astype(gradient.dtype) * gradient, self.widths)

    def shrink(self, x):
        return self._along(x / self.scale.astype(x.dtype), 1 / self.widths)

    def _along(self, row: Array, widths: Array) -> Array:
        U = self.directions.astype(row.dtype)
        return row + U @ ((widths.astype(row.dtype) - 1) * (row @ U))


class Coordinates(NamedTuple):
    """What an integrator with a metric carries: the place in z, and its own variables there."""

    z: Params
    dynamics: Any


@description
class Preconditioned(Integrator):
    """An integrator that moves in z."""

    name = "preconditioned"

    integrator: Integrator
    metric: Metric

    def init(self, key, params):
        z = self.metric.coordinates(params)
        return Coordinates(z, self.integrator.init(key, z))

    def step(self, key, position, dynamics: Coordinates, gradient, step_size, size):
        metric = self.metric

        def in_z(z: Params) -> Any:
            value = gradient(cast(metric.position(z), position))
            if isinstance(self.integrator, DensityIntegrator):
                return value  # the density, up to a constant
            return metric.gradient(value)

        z, inner = self.integrator.step(key, dynamics.z, dynamics.dynamics, in_z, step_size, size)
        return cast(metric.position(z), position), Coordinates(z, inner)


def as_metric(metric: Any) -> Metric | None:
    """A metric, also from (center, L): L a matrix, or its diagonal."""
    if metric is None or isinstance(metric, Metric):
        return metric
    if isinstance(metric, tuple) and len(metric) == 2:
        center, factor = ravel_pytree(metric[0])[0], jnp.asarray(metric[1])
        return Diagonal(center, factor) if factor.ndim == 1 else Dense(center, factor)
    raise TypeError(
        f"metric must be None, or (center, L) for x = center + L z, got {type(metric).__name__}. L is "
        "a matrix, or its diagonal."
    )


def check_metric_shapes(metric: Metric, params: Params) -> None:
    """Raise `ValueError` for a metric of other sizes than the parameters, or one without inverse."""
    count = tree.size(params)
    shapes = [list(np.shape(leaf)) for leaf in jax.tree.leaves(metric)]
    row = jax.ShapeDtypeStruct((count,), jnp.result_type(float))
    try:
        fits = np.shape(metric.center) == jax.eval_shape(metric.stretch, row).shape == (count,)
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(
            f"metric: there are {count} parameters, got a centre and L of shapes {shapes}. L is a "
            "matrix of as many rows and columns, or its diagonal."
        )
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(metric)):
        raise ValueError("metric: the centre and L must be finite.")
    there_and_back = np.asarray(metric.shrink(metric.stretch(jnp.ones(count))))
    if not np.allclose(there_and_back, 1.0, rtol=0, atol=0.1):
        raise ValueError(
            "metric: L is singular, or so nearly that rounding moves L^-1 L by over 10 %. Every "
            "direction needs a width above zero."
        )
