"""The mean of Gaussian data: the smallest model, with an exact posterior.

    theta ~ N(0, prior_variance I)
    x_i   ~ N(theta, variance I),   i = 1, ..., N

The posterior is N(mean, v I) with 1/v = 1/prior_variance + N/variance and
mean = v sum_i x_i / variance. Data: an array [N] with a scalar theta, or [N, d] with theta [d].

The other models take their prior from here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Real, Shaped

from vrsgmcmc.core import Params, Posterior, Scalar, tree

from .checks import as_variance, check_array


def posterior(*, variance: float | int = 1.0, prior_variance: float | int = 1.0) -> Posterior:
    """The posterior of the mean of Gaussian data of known variance."""
    loglik = _loglik(as_variance("variance", variance))
    return Posterior(normal_prior(prior_variance), loglik, check=check)


def initial(*shape: int) -> Float[Array, "*shape"]:
    """A start at zero: `initial()` for data [N], `initial(d)` for data [N, d]."""
    return jnp.zeros(shape)


def exact(
    data: Real[ArrayLike, "n ..."],
    *,
    variance: float | int = 1.0,
    prior_variance: float | int = 1.0,
) -> tuple[Float[np.ndarray, "..."], float]:
    """Mean and variance of the posterior, in float64; every coordinate has the same variance."""
    check(data)
    variance = as_variance("variance", variance)
    x = np.asarray(data, np.float64)
    prior_variance = as_variance("prior_variance", prior_variance)
    posterior_variance = 1 / (1 / prior_variance + len(x) / variance)
    return np.asarray(posterior_variance * x.sum(axis=0) / variance), posterior_variance


@dataclass(frozen=True)
class NormalPrior:
    """The log density of N(0, variance I) on all numbers of a pytree."""

    variance: float
    concave: ClassVar = True

    def __call__(self, params: Params) -> Scalar:
        return log_normal(params, self.variance)


def normal_prior(prior_variance: float | int) -> NormalPrior:
    return NormalPrior(as_variance("prior_variance", prior_variance))


def log_normal(deviation: Params, variance: float) -> Scalar:
    """log N(deviation; 0, variance I), normalised."""
    constant = 0.5 * tree.size(deviation) * math.log(2 * math.pi * variance)
    return (-0.5 / variance) * tree.square_norm(deviation) - constant


@cache
def _loglik(variance: float) -> Callable[[Params, Any], Scalar]:
    def loglik(theta: Float[Array, "..."], x: Shaped[Array, "..."]) -> Scalar:
        if jnp.shape(x) != jnp.shape(theta):  # else broadcasting would silently fit another model
            raise ValueError(
                f"gaussian: theta must have the shape of one datum, got theta {jnp.shape(theta)} "
                f"and a datum {jnp.shape(x)}. Start from initial{jnp.shape(x)}."
            )
        return log_normal(x - theta, variance)

    return loglik


def check(data: Any) -> None:
    """Refuse data other than one array of real numbers, [N] or [N, d]."""
    check_array("gaussian: the data", data, ranks=(1, 2))
