"""A control variate by the Taylor polynomial of each datum's gradient at a fixed centre c.

With H_i = -(second derivative of loglik(., d_i) at c), positive where the log-likelihood is concave,
the residual of a row is

    order 1:   r_i(x) = grad loglik(x, d_i) - grad loglik(c, d_i)
    order 2:   r_i(x) = grad loglik(x, d_i) - grad loglik(c, d_i) + H_i (x - c)

and the sum over all data is  sum_i grad loglik(x, d_i) = G(c) - H (x - c) + sum_i r_i(x),  where
G(c) = sum_i grad loglik(c, d_i) and, for order 2, H = sum_i H_i are computed once. The last sum is
estimated,

    g(x) = G(c) - H (x - c) + grad logprior(x) + sum_{i hot} r_i(x)
                                               + N/n sum_{i in batch, i not hot} r_i(x).

Hot rows are visited by every step. A batch is drawn from all rows, and a hot one in it counts zero, so
the estimate is unbiased in every order of drawing. All rows hot: the exact gradient. The prior is in
neither G nor H. On a quadratic likelihood order 2 has r_i = 0, and there is no noise.

H_i (x - c) is a derivative of the gradient along x - c, which counts as 2 evaluations. In a `GLM`, with
s = d likelihood/d eta, the residual of a row in eta is  s(eta(x)) - s(eta(c)) - s'(eta(c)) (eta(x) -
eta(c)),  pulled back through the linear predictor: 3 evaluations in all instead of 4.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .. import tree
from ..gradients import likelihood_gradient, prior_gradient
from ..types import GLM, STATIC, Batch, Params, Posterior, PRNGKey, description
from .centered import Centered, Memory


@description
@dataclass(frozen=True, eq=False)
class Taylor(Centered):
    center: Params | None
    gradient: Params | None  # G(c); None: the one refresh sums it
    hessian: Float[Array, "d d"] | None  # H
    hot: Batch | None
    linear: bool = field(metadata=STATIC)
    order: int = field(metadata=STATIC)
    guard: str | None = field(metadata=STATIC, default="auto")  # how hot rows are chosen

    def __str__(self) -> str:
        return f"{self.name}(order={self.order})"

    @property
    def hot_count(self) -> int:
        return 0 if self.hot is None else self.hot.index.shape[0]

    def cost(self, size, batch_size):
        each = 2 if self.order == 1 else 3 if self.linear else 4
        return each * (batch_size + self.hot_count)

    def refresh_size(self, size):
        return size if self.gradient is None else 0

    def init(self, params, size):
        if self.seeks_curvature:
            raise ValueError(
                "control_variate(order=2): the Hessian at the centre is missing. vr.sample measures "
                "it; for a kernel pass center= and hessian=, minus the second derivative of the "
                "log-likelihood summed over all data."
            )
        memory = super().init(params, size)
        if self.gradient is None:
            return memory
        gradient = tree.cast(jax.tree.map(jnp.asarray, self.gradient), params)
        return memory._replace(gradient=gradient)

    def estimate(self, posterior, memory: Memory, point, batch, augment_key, size):
        kind = jnp.result_type(*jax.tree.leaves(point))
        rows, weights = self._rows(batch, size, kind)
        arguments = posterior, memory.center, point, rows, weights
        if self.linear and self.order == 2:
            rest = _linear_residual(*arguments)
        else:
            rest = _residual(*arguments, augment_key, self.order)
        prior, old = prior_gradient(posterior, point), self._extrapolate(memory, point)
        return jax.tree.map(lambda old, prior, rest: old + prior + rest, old, prior, rest), memory

    def _extrapolate(self, memory: Memory, point: Params) -> Params:
        """G(c) - H (x - c); G(c) for order 1."""
        if self.order == 1:
            return memory.gradient
        distance, unravel = ravel_pytree(jax.tree.map(jnp.subtract, point, memory.center))
        bent = unravel(jnp.asarray(self.hessian, distance.dtype) @ distance)
        return jax.tree.map(jnp.subtract, memory.gradient, bent)

    def _rows(self, batch: Batch, size: int, kind: Any) -> tuple[Batch, Float[Array, " b"]]:
        """The batch and the hot rows, and how often each counts."""
        weights = jnp.full(batch.index.shape, size / batch.index.shape[0], kind)
        if not self.hot_count:
            return batch, weights
        hot: Batch = jax.tree.map(jnp.asarray, self.hot)
        weights = jnp.where(jnp.isin(batch.index, hot.index), 0, weights)
        rows = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), batch, hot)
        return rows, jnp.concatenate([weights, jnp.ones(hot.index.shape, kind)])

    def check_posterior(self, posterior):
        super().check_posterior(posterior)
        if self.linear and not isinstance(posterior, GLM):
            raise ValueError(
                "control_variate(linear=True) needs a posterior made by vr.glm(), whose data enter "
                "through a linear predictor. Leave linear out."
            )

    def check_sizes(self, size, batch_size):
        index = np.asarray([] if self.hot is None else self.hot.index)
        if index.size and (largest := int(index.max())) >= size:
            raise ValueError(
                f"control_variate: hot names row {largest}, but there are {size} rows, counted from 0."
            )

    def check_params(self, params):
        super().check_params(params)
        count = tree.size(params)
        if self.hessian is not None and np.shape(self.hessian) != (count, count):
            raise ValueError(
                f"control_variate: there are {count} parameters, so the Hessian must have shape "
                f"{(count, count)}, got {np.shape(self.hessian)}."
            )

    @property
    def seeks_curvature(self) -> bool:
        return self.order == 2 and self.hessian is None

    def at_mode(self, mode, gradient=None):
        return replace(self, center=mode, gradient=gradient)

    def with_curvature(self, hessian, hot=None, linear=False):
        return replace(self, hessian=hessian, hot=hot, linear=linear)


def _residual(
    posterior: Posterior,
    center: Params,
    point: Params,
    rows: Batch,
    weights: Float[Array, " b"],
    augment_key: PRNGKey,
    order: int,
) -> Params:
    """sum_i w_i r_i(x), for any posterior."""

    def gradient(params: Params) -> Params:
        return likelihood_gradient(posterior, params, rows, augment_key, weights)

    if order == 1:
        return jax.tree.map(jnp.subtract, gradient(point), gradient(center))
    away = jax.tree.map(jnp.subtract, point, center)
    there, slope = jax.jvp(gradient, (center,), (away,))  # slope = -H (x - c)
    return jax.tree.map(
        lambda here, there, slope: here - there - slope, gradient(point), there, slope
    )


def _linear_residual(
    posterior: GLM, center: Params, point: Params, rows: Batch, weights: Float[Array, " b"]
) -> Params:
    """The same of order 2 for a `GLM`: the residual in eta, pulled back."""
    x, y = rows.items
    features = jax.vmap(posterior.features)(x)

    def predict(params: Params) -> Array:
        return features @ posterior.coefficients(params)

    def slope(eta: Array) -> Array:
        return jax.vmap(jax.grad(posterior.likelihood))(eta, y)

    here, pull = jax.vjp(predict, point)
    there = predict(center)
    old, bent = jax.jvp(slope, (there,), (here - there,))
    weights = weights.astype(here.dtype).reshape(-1, *(1,) * (here.ndim - 1))
    return pull(weights * (slope(here) - old - bent))[0]


def as_hessian(hessian: Any, center: Params | None) -> Any:
    """The Hessian as it was given, or `ValueError`."""
    if hessian is None:
        return None
    if center is None:
        raise ValueError(
            "control_variate(hessian=...): pass the center too, at which the Hessian was taken."
        )
    values = np.asarray(hessian)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.dtype.kind not in "fiu":
        raise ValueError(
            f"control_variate: the Hessian must be a matrix [d, d] of numbers, got shape "
            f"{values.shape} and dtype {values.dtype}."
        )
    if not np.all(np.isfinite(values)):
        raise ValueError("control_variate: the Hessian is not finite.")
    return hessian


def as_hot_rows(hot: Any) -> Batch | None:
    """The hot rows, or an error that says what they are."""
    if hot is None:
        return None
    if not isinstance(hot, Batch):
        raise TypeError(
            f"control_variate: hot must be vr.Batch(index, rows), got {type(hot).__name__}. With "
            "index = np.array([3, 5]) the rows are jax.tree.map(lambda leaf: leaf[index], data)."
        )
    index = np.asarray(hot.index)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise ValueError(
            f"control_variate: the index of hot must be whole numbers [k], got shape {index.shape} "
            f"and dtype {index.dtype}."
        )
    if index.size and (index.min() < 0 or len(np.unique(index)) < len(index)):
        raise ValueError(
            "control_variate: hot names a row twice, or one below 0. Name each once, counted from 0."
        )
    if lengths := {np.shape(leaf)[:1] for leaf in jax.tree.leaves(hot.items)} - {index.shape}:
        raise ValueError(
            f"control_variate: hot names {len(index)} rows, but its items have {lengths.pop()} rows."
        )
    return hot
