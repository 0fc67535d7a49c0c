"""A number as target: linear regression with an unknown noise, and its robust sibling.

    linear   y_i ~ N(mu_i, sd^2),              sd ~ Exponential(1)
    robust   (y_i - mu_i) / scale ~ t_4,    scale ~ Exponential(1)

eta_i = (mu_i, log sd): the noise is sampled as its logarithm, whose prior has density sd exp(-sd).
The target is standardised, so a noise sd near 1 means that the columns say nothing. The degrees of
freedom of the robust model are fixed: 4 takes the weight from outliers, and few tables tell 4 from 6.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from vrsgmcmc.core import Params, Scalar

from ..likelihoods import check_targets

DOF = 4.0


def log_exponential(log_value: Float[Array, "..."]) -> Scalar:
    """The log density of log v where v ~ Exponential(1), summed."""
    return jnp.sum(log_value - jnp.exp(log_value))


@dataclass(frozen=True)
class Linear:
    name: ClassVar = "linear"
    kind: ClassVar = "number"
    concave: ClassVar = False
    width: ClassVar = 1
    ratio: ClassVar = ""
    shared: ClassVar = {"log_sd": ()}
    sentence: ClassVar = "noise sd: Exponential(1)"

    def __call__(self, eta: Float[Array, " 2"], y: Shaped[Array, ""]) -> Scalar:
        mean, log_sd = eta[0], eta[1]
        residual = (y - mean) * jnp.exp(-log_sd)
        return -0.5 * jnp.square(residual) - log_sd - 0.5 * math.log(2 * math.pi)

    def logprior(self, params: Params) -> Scalar:
        return log_exponential(params["log_sd"])

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return eta[..., 0]

    def draw(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        return eta[..., 0] + np.exp(eta[..., 1]) * rng.normal(size=eta.shape[:-1])

    def check(self, y: Any) -> None:
        check_targets(self.name, y)


@dataclass(frozen=True)
class Robust:
    name: ClassVar = "robust"
    kind: ClassVar = "number"
    concave: ClassVar = False
    width: ClassVar = 1
    ratio: ClassVar = ""
    shared: ClassVar = {"log_scale": ()}
    sentence: ClassVar = f"noise: Student-t with {DOF:g} degrees of freedom, scale: Exponential(1)"

    def __call__(self, eta: Float[Array, " 2"], y: Shaped[Array, ""]) -> Scalar:
        mean, log_scale, half = eta[0], eta[1], (DOF + 1) / 2
        residual = (y - mean) * jnp.exp(-log_scale)
        constant = math.lgamma(half) - math.lgamma(DOF / 2) - 0.5 * math.log(DOF * math.pi)
        return constant - log_scale - half * jnp.log1p(jnp.square(residual) / DOF)

    def logprior(self, params: Params) -> Scalar:
        return log_exponential(params["log_scale"])

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return eta[..., 0]

    def draw(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        return eta[..., 0] + np.exp(eta[..., 1]) * rng.standard_t(DOF, size=eta.shape[:-1])

    def check(self, y: Any) -> None:
        check_targets(self.name, y)
