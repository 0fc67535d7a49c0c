"""Generalised linear models: the data enter through a linear predictor.

    w ~ prior,   eta_i = x_i . w,   log p(y_i | w) = likelihood(eta_i, y_i),   i = 1, ..., N

Data: a tuple (x [N, d], y [N]); parameters: w [d], or w [d, K] where eta has K numbers (softmax). An
intercept is a column of ones in x, which the caller adds (`vrsgmcmc.datasets.with_intercept`). What a
model gains by being declared this way is its Hessian in one pass over the data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from vrsgmcmc.core import GLM, Params, Scalar, did_you_mean

from . import likelihoods
from .checks import check_array, check_tuple
from .gaussian import normal_prior

FAMILIES = {
    "gaussian": likelihoods.gaussian,
    "bernoulli": likelihoods.bernoulli,
    "poisson": likelihoods.poisson,
    "negative_binomial": likelihoods.negative_binomial,
    "student_t": likelihoods.student_t,
}


@dataclass(frozen=True)
class LinearLoglik:
    """The log-likelihood of one datum (x, y): a function of x . w."""

    likelihood: Callable[[Any, Any], Scalar]

    def __call__(self, w: Params, datum: Any) -> Scalar:
        x, y = datum
        return self.likelihood(x @ w, y)


@dataclass(frozen=True)
class DataCheck:
    """Refuse data other than a tuple (x [N, d], y [N]) that the likelihood is for."""

    likelihood: Callable[[Any, Any], Scalar]

    def __call__(self, data: Any) -> None:
        check_tuple("glm", data, "(x, y) with x [N, d] and y [N]", "Write data = (x, y).")
        x, y = data
        check_array("glm: x", x, ranks=(2,))
        if jnp.shape(y)[:1] != jnp.shape(x)[:1]:
            raise ValueError(
                f"glm: x and y must have one row per datum, got {jnp.shape(x)[0]} rows in x and "
                f"{jnp.shape(y)[0] if jnp.shape(y) else 'none'} in y. Take the same rows of both."
            )
        check: Any = getattr(self.likelihood, "check", None)
        if check is not None:
            check(y)


def glm(likelihood: Any, prior: Any = 1.0) -> GLM:
    """A generalised linear model.

    - `likelihood`: "gaussian", "bernoulli", "poisson", "negative_binomial" or "student_t"; one of
      `vr.likelihoods` for other parameters, such as `vr.likelihoods.softmax(10)`; or your own function
      (eta, y) -> log p(y | eta).
    - `prior`: the variance of a normal prior with mean 0 for every coefficient, or a function
      logprior(w).
    """
    if isinstance(likelihood, str):
        if likelihood == "softmax":
            raise ValueError(
                'glm("softmax"): it needs the number of classes: vr.likelihoods.softmax(10).'
            )
        if likelihood not in FAMILIES:
            hint = did_you_mean(likelihood, FAMILIES)
            raise ValueError(f"glm({likelihood!r}): known are {', '.join(FAMILIES)}.{hint}")
        likelihood = FAMILIES[likelihood]()
    if not callable(likelihood):
        raise TypeError(
            f"glm: likelihood must be a name or a function (eta, y) -> log p(y | eta), got "
            f"{type(likelihood).__name__}."
        )
    function: Any = likelihood
    logprior: Any = prior if callable(prior) else normal_prior(prior)
    loglik, check = LinearLoglik(function), DataCheck(function)
    return GLM(logprior, loglik, check=check, likelihood=function)
