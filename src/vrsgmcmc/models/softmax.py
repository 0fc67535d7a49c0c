"""Softmax regression: K classes, linear logits.

    W [d, K], b [K]: every entry ~ N(0, prior_variance)
    P(y_i = k) = softmax(x_i W + b)_k,   y_i in {0, ..., K-1},   i = 1, ..., N

Adding the same number to all K logits changes no probability; the prior settles that direction, so
the posterior is proper. Data: a tuple (x [N, d], y [N] integers); parameters:
{"weight": W, "bias": b}. The bias is the intercept: x needs no column of ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree, Shaped

from vrsgmcmc.models.gaussian import normal_prior, positive
from vrsgmcmc.models.linear import check_pair
from vrsgmcmc.models.logistic import check_labels
from vrsgmcmc.types import Params, Posterior, Scalar


def posterior(num_classes: int, *, prior_variance: float | int = 1.0) -> Posterior:
    """The posterior of the weights and biases of `num_classes` classes."""
    num_classes = _classes(num_classes)
    return Posterior(
        normal_prior(positive("prior_variance", prior_variance)),
        _loglik(num_classes),
        check=_check(num_classes),
    )


def initial(d: int, num_classes: int) -> dict[str, Float[Array, "..."]]:
    """A start at zero, where every class has probability 1/K, for x [N, d]."""
    num_classes = _classes(num_classes)
    return {"weight": jnp.zeros((d, num_classes)), "bias": jnp.zeros(num_classes)}


def predict(params: PyTree, x: Shaped[ArrayLike, "*rows d"]) -> Float[Array, "*rows k"]:
    """The K probabilities for one row x [d], or for each row of x [n, d]."""
    return jax.nn.softmax(_logits(params, x))


def _logits(params: PyTree, x: Shaped[ArrayLike, "*rows d"]) -> Float[Array, "*rows k"]:
    product = jnp.matmul(x, params["weight"])
    return product + jnp.broadcast_to(params["bias"], product.shape)


@cache
def _loglik(num_classes: int) -> Callable[[Params, Any], Scalar]:
    def loglik(params: Params, datum: tuple[Shaped[Array, " d"], Shaped[Array, ""]]) -> Scalar:
        x, y = datum
        for name in ("weight", "bias"):
            if params[name].shape[-1:] != (num_classes,):  # labels above it would be clamped
                raise ValueError(
                    f"softmax: {name} must have {num_classes} columns, one per class, got shape "
                    f"{params[name].shape}. Start from initial({x.shape[-1]}, {num_classes})."
                )
        return jax.nn.log_softmax(_logits(params, x))[y]

    return loglik


@cache
def _check(num_classes: int) -> Callable[[Any], None]:
    def check(data: Any) -> None:
        check_pair("softmax", data)
        repair = (
            f"num_classes is {num_classes}; to number the labels from 0 use "
            "numpy.unique(y, return_inverse=True)[1]."
        )
        check_labels("softmax", data[1], num_classes, repair)

    return check


def _classes(num_classes: Any) -> int:
    if isinstance(num_classes, bool) or not hasattr(num_classes, "__index__") or num_classes < 2:
        raise ValueError(
            f"num_classes must be an integer of at least 2, got {num_classes!r}. "
            "Count the classes with len(numpy.unique(y))."
        )
    return int(num_classes)
