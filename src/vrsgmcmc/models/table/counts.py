"""A count as target, with the logarithm as link.

    poisson             y_i ~ Poisson(mu_i)
    negative_binomial   mean mu_i, variance mu_i + phi mu_i^2,   phi ~ Exponential(1)

eta_i = log mu_i, and (log mu_i, log phi) with the dispersion phi sampled as its logarithm.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Shaped

from vrsgmcmc.core import Params, Scalar

from .. import likelihoods
from .numbers import log_exponential

LARGEST_RATE = 1e18  # NumPy draws no Poisson numbers above it


@dataclass(frozen=True)
class Poisson:
    name: ClassVar = "poisson"
    kind: ClassVar = "count"
    concave: ClassVar = True
    width: ClassVar = 1
    ratio: ClassVar = "rate ratio"
    shared: ClassVar = {}
    sentence: ClassVar = ""

    def __call__(self, eta: Float[Array, " 1"], y: Shaped[Array, ""]) -> Scalar:
        return likelihoods.Poisson()(eta[0], y)

    def logprior(self, params: Params) -> Scalar:
        return jnp.zeros(())

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return np.exp(eta[..., 0])

    def draw(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        return rng.poisson(np.minimum(np.exp(eta[..., 0]), LARGEST_RATE))

    def check(self, y: Any) -> None:
        likelihoods.check_counts(self.name, y)


@dataclass(frozen=True)
class NegativeBinomial:
    name: ClassVar = "negative_binomial"
    kind: ClassVar = "count"
    concave: ClassVar = False
    width: ClassVar = 1
    ratio: ClassVar = "rate ratio"
    shared: ClassVar = {"log_dispersion": ()}
    sentence: ClassVar = "dispersion: Exponential(1)"

    def __call__(self, eta: Float[Array, " 2"], y: Shaped[Array, ""]) -> Scalar:
        y, log_phi = jnp.asarray(y, eta.dtype), eta[1]
        r, log_odds = jnp.exp(-log_phi), eta[0] + log_phi  # of mu / (mu + r)
        constant = gammaln(y + r) - gammaln(y + 1) - gammaln(r)
        return constant + y * jax.nn.log_sigmoid(log_odds) + r * jax.nn.log_sigmoid(-log_odds)

    def logprior(self, params: Params) -> Scalar:
        return log_exponential(params["log_dispersion"])

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return np.exp(eta[..., 0])

    def draw(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        phi = np.exp(eta[..., 1])
        rate = np.exp(eta[..., 0]) * phi * rng.gamma(1 / phi)
        return rng.poisson(np.minimum(rate, LARGEST_RATE))

    def check(self, y: Any) -> None:
        likelihoods.check_counts(self.name, y)
