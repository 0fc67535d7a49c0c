"""Softmax regression: K classes, linear logits.

    W [d, K], b [K]: every entry ~ N(0, prior_variance)
    P(y_i = k) = softmax(x_i W + b)_k,   y_i in {0, ..., K-1},   i = 1, ..., N

Adding the same number to all K logits changes no probability; the prior fixes that direction, so
the posterior is proper. Data: a tuple (x [N, d], y [N] integers); parameters:
{"weight": W, "bias": b}. The bias is the intercept: x needs no column of ones.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree, Shaped

from vrsgmcmc.core import GLM, Params, Scalar, whole

from . import likelihoods
from .checks import class_check
from .gaussian import normal_prior
from .linear import affine


def posterior(num_classes: int, *, prior_variance: float | int = 1.0) -> GLM:
    """The posterior of the weights and biases of `num_classes` classes."""
    num_classes = whole("softmax.posterior", "num_classes", num_classes, least=2)
    check = class_check("softmax", num_classes)
    return GLM(
        normal_prior(prior_variance),
        _loglik(num_classes),
        check=check,
        likelihood=likelihoods.softmax(num_classes),
        features=with_one,
        coefficients=stack_rows,
    )


def initial(d: int, num_classes: int) -> dict[str, Float[Array, "..."]]:
    """A start at zero, where every class has probability 1/K, for x [N, d]."""
    num_classes = whole("softmax.initial", "num_classes", num_classes, least=2)
    return {"weight": jnp.zeros((d, num_classes)), "bias": jnp.zeros(num_classes)}


def predict(params: PyTree, x: Shaped[ArrayLike, "*rows d"]) -> Float[Array, "*rows k"]:
    """The K probabilities for one row x [d], or for each row of x [n, d]."""
    return jax.nn.softmax(affine(x, params["weight"], params["bias"]))


def with_one(x: Shaped[Array, " d"]) -> Shaped[Array, " p"]:
    """The features: x and a 1 for the bias."""
    return jnp.append(x, jnp.ones(1, x.dtype))


def stack_rows(params: Params) -> Float[Array, "p k"]:
    """The coefficients of the features: W, and b below it."""
    return jnp.concatenate([params["weight"], params["bias"][None]])


@cache
def _loglik(num_classes: int) -> Callable[[Params, Any], Scalar]:
    def loglik(params: Params, datum: tuple[Shaped[Array, " d"], Shaped[Array, ""]]) -> Scalar:
        x, y = datum
        for name in ("weight", "bias"):
            if params[name].shape[-1:] != (num_classes,):  # else JAX would clamp the labels
                raise ValueError(
                    f"softmax: {name} must have {num_classes} columns, one per class, got shape "
                    f"{params[name].shape}. Start from initial({x.shape[-1]}, {num_classes})."
                )
        return jax.nn.log_softmax(affine(x, params["weight"], params["bias"]))[y]

    return loglik
