"""Linear regression with known noise: conjugate, with per-datum Hessians that differ.

    w   ~ N(0, prior_variance I)
    y_i ~ N(x_i . w, variance),   i = 1, ..., N

The posterior is N(mean, C) with C^-1 = X^T X / variance + I / prior_variance and
mean = C X^T y / variance. Data: a tuple (x [N, d], y [N]); parameters: w [d]. An intercept is a
column of ones in x, which the caller adds (`vrsgmcmc.datasets.with_intercept`).
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Real, Shaped

from vrsgmcmc.core import GLM, Params, Scalar

from .checks import as_variance, check_table
from .gaussian import log_normal, normal_prior
from .likelihoods import gaussian


def posterior(*, variance: float | int = 1.0, prior_variance: float | int = 1.0) -> GLM:
    """The posterior of the weights; `variance` is the variance of the noise in y."""
    loglik = _loglik(as_variance("variance", variance))
    likelihood = gaussian(math.sqrt(variance))
    return GLM(normal_prior(prior_variance), loglik, check=check, likelihood=likelihood)


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
    variance = as_variance("variance", variance)
    x, y = (np.asarray(leaf, np.float64) for leaf in data)
    ridge = np.eye(x.shape[1]) / as_variance("prior_variance", prior_variance)
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
    """Refuse data other than a tuple (x [N, d], y [N]) of real numbers."""
    check_table("linear", data)
