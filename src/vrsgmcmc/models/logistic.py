"""Logistic regression.

    w   ~ N(0, prior_variance I)
    P(y_i = 1) = sigmoid(x_i . w),   y_i in {0, 1},   i = 1, ..., N

so that log p(y_i | w) = log sigmoid(x_i . w) for y_i = 1 and log sigmoid(-x_i . w) for y_i = 0,
which neither overflows nor loses digits far from the decision boundary. Data: a tuple
(x [N, d], y [N] integers); parameters: w [d]. An intercept is a column of ones in x, which the
caller adds (`vrsgmcmc.datasets.with_intercept`).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Shaped

from vrsgmcmc.core import GLM, Scalar

from .checks import TWO_LABELS, class_check
from .gaussian import normal_prior
from .likelihoods import bernoulli

check = class_check("logistic", 2, TWO_LABELS)


def posterior(*, prior_variance: float | int = 1.0) -> GLM:
    """The posterior of the weights."""
    return GLM(normal_prior(prior_variance), loglik, check=check, likelihood=bernoulli())


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
