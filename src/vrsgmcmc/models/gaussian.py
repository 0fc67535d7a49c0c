"""The Gaussian mean: the smallest model, with everything about it known.

    theta ~ N(0, prior_variance I)
    x_i   ~ N(theta, variance I),   i = 1, ..., N

The posterior is N(mean, v I) with 1/v = 1/prior_variance + N/variance and
mean = v sum_i x_i / variance. Data: an array [N] with a scalar theta, or [N, d] with theta [d].

The other models take their prior and their checks of numbers and arrays from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Real, Shaped

from vrsgmcmc.core import Params, Posterior, Scalar, tree


def posterior(*, variance: float | int = 1.0, prior_variance: float | int = 1.0) -> Posterior:
    """The posterior of the mean of Gaussian data of known variance."""
    return Posterior(
        normal_prior(positive("prior_variance", prior_variance)),
        _loglik(positive("variance", variance)),
        check=check,
    )


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
    variance = positive("variance", variance)
    x = np.asarray(data, np.float64)
    posterior_variance = 1 / (1 / positive("prior_variance", prior_variance) + len(x) / variance)
    return np.asarray(posterior_variance * x.sum(axis=0) / variance), posterior_variance


@cache
def normal_prior(variance: float) -> Callable[[Params], Scalar]:
    """The prior N(0, variance I) on all the numbers of a pytree, one function per variance."""

    def logprior(params: Params) -> Scalar:
        return log_normal(params, variance)

    return logprior


def log_normal(deviation: Params, variance: float) -> Scalar:
    """log N(deviation; 0, variance I), normalised: the constant costs a gradient nothing."""
    constant = 0.5 * tree.size(deviation) * math.log(2 * math.pi * variance)
    return (-0.5 / variance) * tree.square_norm(deviation) - constant


@cache
def _loglik(variance: float) -> Callable[[Params, Any], Scalar]:
    def loglik(theta: Float[Array, "..."], x: Shaped[Array, "..."]) -> Scalar:
        if jnp.shape(x) != jnp.shape(theta):  # would broadcast: another model, silently
            raise ValueError(
                f"gaussian: theta must have the shape of one datum, got theta {jnp.shape(theta)} "
                f"and a datum {jnp.shape(x)}. Start from initial{jnp.shape(x)}."
            )
        return log_normal(x - theta, variance)

    return loglik


def check(data: Any) -> None:
    """Refuses data other than one array of real numbers, [N] or [N, d]."""
    check_array("gaussian: the data", data, ranks=(1, 2))


def check_array(name: str, value: Any, ranks: tuple[int, ...]) -> None:
    """Refuses what is not a non-empty array of real numbers with one of these ranks."""
    wanted = " or ".join({1: "[N]", 2: "[N, d]"}[rank] for rank in ranks)
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        raise ValueError(
            f"{name} must be one array {wanted}, got a {type(value).__name__}. "
            "Convert it with numpy.asarray."
        )
    real = jnp.issubdtype(value.dtype, jnp.number) or jnp.issubdtype(value.dtype, jnp.bool_)
    if not real or jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise ValueError(
            f"{name} must hold real numbers, got dtype {value.dtype}. "
            "Encode it as floats or integers first."
        )
    if len(value.shape) not in ranks:
        raise ValueError(
            f"{name} must have shape {wanted}, got {tuple(value.shape)}. "
            "The first axis counts the data; reshape the array."
        )
    if 0 in value.shape:
        raise ValueError(f"{name} is empty, got shape {tuple(value.shape)}. Give at least one row.")


def positive(name: str, value: Any) -> float:
    """A finite number above zero, as a Python float; anything else is refused."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(
            f"{name} must be a finite number above zero, got {value!r}. "
            "It is a variance, the square of a standard deviation."
        )
    return number
