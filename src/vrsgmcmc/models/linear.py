"""Linear regression with known noise: conjugate, with per-datum Hessians that differ.

    w   ~ N(0, prior_variance I)
    y_i ~ N(x_i . w, variance),   i = 1, ..., N

The posterior is N(mean, C) with C^-1 = X^T X / variance + I / prior_variance and
mean = C X^T y / variance. Data: a tuple (x [N, d], y [N]); parameters: w [d]. An intercept is a
column of ones in x, and it is yours to add (`vrsgmcmc.datasets.with_intercept`).

The models on rows of numbers take their check of the data from here, and those with several outputs
their `affine`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Real, Shaped

from vrsgmcmc.core import Params, Posterior, Scalar
from vrsgmcmc.models.gaussian import check_array, log_normal, normal_prior, positive


def posterior(*, variance: float | int = 1.0, prior_variance: float | int = 1.0) -> Posterior:
    """The posterior of the weights; `variance` is the variance of the noise in y."""
    return Posterior(
        normal_prior(positive("prior_variance", prior_variance)),
        _loglik(positive("variance", variance)),
        check=check,
    )


def initial(d: int) -> Float[Array, " d"]:
    """A start at zero for x [N, d]."""
    return jnp.zeros(d)


def exact(
    data: tuple[Real[ArrayLike, "n d"], Real[ArrayLike, " n"]],
    *,
    variance: float | int = 1.0,
    prior_variance: float | int = 1.0,
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
    """Mean and covariance of the posterior, in float64."""
    check(data)
    variance = positive("variance", variance)
    x, y = (np.asarray(leaf, np.float64) for leaf in data)
    ridge = np.eye(x.shape[1]) / positive("prior_variance", prior_variance)
    precision = x.T @ x / variance + ridge
    return np.linalg.solve(precision, x.T @ y / variance), np.linalg.inv(precision)


def affine(
    x: Shaped[ArrayLike, "*rows d"], weight: Shaped[ArrayLike, "d k"], bias: Shaped[ArrayLike, " k"]
) -> Shaped[Array, "*rows k"]:
    """x W + b for one row x [d], or for each row of x [n, d]."""
    product = jnp.matmul(x, weight)
    return product + jnp.broadcast_to(bias, product.shape)


@cache
def _loglik(variance: float) -> Callable[[Params, Any], Scalar]:
    def loglik(
        w: Float[Array, " d"], datum: tuple[Shaped[Array, " d"], Shaped[Array, ""]]
    ) -> Scalar:
        x, y = datum
        return log_normal(y - x @ w, variance)

    return loglik


def check(data: Any) -> None:
    """Refuses data other than a pair (x [N, d], y [N]) of real numbers."""
    check_pair("linear", data)


def check_pair(model: str, data: Any) -> None:
    """Refuses what is not a tuple of x [N, d] and y [N] with the same N."""
    if not (isinstance(data, tuple) and len(data) == 2):
        count = f" of {len(data)}" if isinstance(data, tuple) else ""
        raise ValueError(
            f"{model}: the data must be a tuple (x, y) with x [N, d] and y [N], "
            f"got a {type(data).__name__}{count}. Write data = (x, y)."
        )
    x, y = data
    check_array(f"{model}: x", x, ranks=(2,))
    check_array(f"{model}: y", y, ranks=(1,))
    if x.shape[0] != y.shape[0]:
        raise ValueError(
            f"{model}: x and y must have one row per datum, got {x.shape[0]} rows in x and "
            f"{y.shape[0]} in y. Take the same rows of both."
        )
