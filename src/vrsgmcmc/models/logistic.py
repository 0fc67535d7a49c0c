"""Logistic regression.

    w   ~ N(0, prior_variance I)
    P(y_i = 1) = sigmoid(x_i . w),   y_i in {0, 1},   i = 1, ..., N

so that log p(y_i | w) = log sigmoid(x_i . w) for y_i = 1 and log sigmoid(-x_i . w) for y_i = 0,
which neither overflows nor loses digits far from the decision boundary. Data: a tuple
(x [N, d], y [N] integers); parameters: w [d]. An intercept is a column of ones in x, and it is
yours to add (`vrsgmcmc.datasets.with_intercept`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Shaped

from vrsgmcmc.core import Posterior, Scalar
from vrsgmcmc.models.gaussian import normal_prior, positive
from vrsgmcmc.models.linear import check_pair


def posterior(*, prior_variance: float | int = 1.0) -> Posterior:
    """The posterior of the weights."""
    return Posterior(normal_prior(positive("prior_variance", prior_variance)), loglik, check=check)


def initial(d: int) -> Float[Array, " d"]:
    """A start at zero, where every probability is 1/2, for x [N, d]."""
    return jnp.zeros(d)


def predict(w: Float[ArrayLike, " d"], x: Shaped[ArrayLike, "*rows d"]) -> Float[Array, "*rows"]:
    """P(y = 1) for one row x [d], or for each row of x [n, d]."""
    return jax.nn.sigmoid(jnp.matmul(x, w))


def loglik(w: Float[Array, " d"], datum: tuple[Shaped[Array, " d"], Shaped[Array, ""]]) -> Scalar:
    """log p(y | x, w) of one datum (x, y)."""
    x, y = datum
    logit = x @ w
    return jax.nn.log_sigmoid(jnp.where(y == 1, logit, -logit))


def check(data: Any) -> None:
    """Refuses data other than (x [N, d], y [N]) with labels 0 and 1."""
    check_pair("logistic", data)
    check_labels("logistic", data[1], 2, repair="Labels -1 and 1 become 0 and 1 with (y + 1) // 2.")


def check_labels(model: str, y: Any, num_classes: int, repair: str) -> None:
    """Refuses labels [N] that are not integers 0..num_classes-1: JAX would read -1 as the last."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "iub":
        raise ValueError(
            f"{model}: labels must be integers, got dtype {labels.dtype}. Use y.astype(int)."
        )
    outside = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if outside.size:
        raise ValueError(
            f"{model}: labels must be in 0..{num_classes - 1}, got {outside.size} of {labels.size} "
            f"outside; the first is {labels[outside[0]]} in row {outside[0]}. {repair}"
        )
