"""Log-likelihoods of one datum as functions of its linear predictor eta, for `vr.glm`.

    gaussian(scale)                 y ~ N(eta, scale^2)
    student_t(dof, scale)           (y - eta) / scale ~ t_dof
    bernoulli()                     P(y = 1) = sigmoid(eta),   y in {0, 1}
    poisson()                       y ~ Poisson(exp(eta))
    negative_binomial(dispersion)   mean mu = exp(eta), variance mu + dispersion mu^2
    softmax(num_classes)            P(y = k) = softmax(eta)_k,   eta [K], y in {0, ..., K-1}

Each is a value: equal parameters make equal functions, so that nothing compiles twice. `check` refuses
targets that the likelihood is not for; `concave` says that it is smooth and concave in eta, whatever y.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Shaped

from vrsgmcmc.core import Scalar, positive, whole

from .checks import TWO_LABELS, check_labels


@dataclass(frozen=True)
class Gaussian:
    scale: float
    concave: ClassVar = True

    def __call__(self, eta: Float[Array, ""], y: Shaped[Array, ""]) -> Scalar:
        residual = (y - eta) / self.scale
        return -0.5 * jnp.square(residual) - math.log(self.scale * math.sqrt(2 * math.pi))

    def check(self, y: Any) -> None:
        check_targets("gaussian", y)


@dataclass(frozen=True)
class StudentT:
    dof: float
    scale: float

    def __call__(self, eta: Float[Array, ""], y: Shaped[Array, ""]) -> Scalar:
        residual, half = (y - eta) / self.scale, (self.dof + 1) / 2
        constant = math.lgamma(half) - math.lgamma(self.dof / 2)
        constant -= math.log(self.scale * math.sqrt(self.dof * math.pi))
        return constant - half * jnp.log1p(jnp.square(residual) / self.dof)

    def check(self, y: Any) -> None:
        check_targets("student_t", y)


@dataclass(frozen=True)
class Bernoulli:
    concave: ClassVar = True

    def __call__(self, eta: Float[Array, ""], y: Shaped[Array, ""]) -> Scalar:
        return jax.nn.log_sigmoid(jnp.where(y == 1, eta, -eta))

    def check(self, y: Any) -> None:
        check_labels("bernoulli", y, 2, TWO_LABELS)


@dataclass(frozen=True)
class Poisson:
    concave: ClassVar = True

    def __call__(self, eta: Float[Array, ""], y: Shaped[Array, ""]) -> Scalar:
        y = jnp.asarray(y, eta.dtype)
        return y * eta - jnp.exp(eta) - gammaln(y + 1)

    def check(self, y: Any) -> None:
        check_counts("poisson", y)


@dataclass(frozen=True)
class NegativeBinomial:
    dispersion: float
    concave: ClassVar = True

    def __call__(self, eta: Float[Array, ""], y: Shaped[Array, ""]) -> Scalar:
        y, r = jnp.asarray(y, eta.dtype), 1 / self.dispersion
        log_odds = eta + math.log(self.dispersion)  # of mu / (mu + r)
        constant = gammaln(y + r) - gammaln(y + 1) - math.lgamma(r)
        return constant + y * jax.nn.log_sigmoid(log_odds) + r * jax.nn.log_sigmoid(-log_odds)

    def check(self, y: Any) -> None:
        check_counts("negative_binomial", y)


@dataclass(frozen=True)
class Softmax:
    num_classes: int
    concave: ClassVar = True

    def __call__(self, eta: Float[Array, " K"], y: Shaped[Array, ""]) -> Scalar:
        if eta.shape != (self.num_classes,):  # else JAX would clamp the labels
            raise ValueError(
                f"softmax: there are {self.num_classes} classes, and a linear predictor of shape "
                f"{eta.shape}. Start from parameters [d, {self.num_classes}]."
            )
        return jax.nn.log_softmax(eta)[y]

    def check(self, y: Any) -> None:
        check_labels("softmax", y, self.num_classes)


def gaussian(scale: float = 1.0) -> Gaussian:
    """Normal noise with standard deviation `scale`."""
    return Gaussian(positive("gaussian", "scale", scale))


def student_t(dof: float = 4.0, scale: float = 1.0) -> StudentT:
    """Noise with heavy tails: outliers lose their weight."""
    return StudentT(positive("student_t", "dof", dof), positive("student_t", "scale", scale))


def bernoulli() -> Bernoulli:
    """Logistic regression."""
    return Bernoulli()


def poisson() -> Poisson:
    """Counts with the logarithm as link."""
    return Poisson()


def negative_binomial(dispersion: float = 1.0) -> NegativeBinomial:
    """Counts that vary more than a Poisson's."""
    return NegativeBinomial(positive("negative_binomial", "dispersion", dispersion))


def softmax(num_classes: int) -> Softmax:
    """Classes 0 .. K-1, with parameters [d, K]."""
    return Softmax(whole("softmax", "num_classes", num_classes, least=2))


def check_targets(name: str, y: Any) -> None:
    """Refuse targets that are not finite numbers [N]."""
    numbers = np.asarray(y)
    if numbers.dtype.kind not in "fiub" or numbers.ndim != 1:
        raise ValueError(
            f"{name}: y must be numbers [N], got dtype {numbers.dtype} and shape {numbers.shape}."
        )


def check_counts(name: str, y: Any) -> None:
    """Refuse targets that are not whole numbers from 0."""
    check_targets(name, y)
    numbers = np.asarray(y)
    bad = np.flatnonzero(~((numbers >= 0) & (numbers == np.floor(numbers))))
    if bad.size:
        raise ValueError(
            f"{name}: y must hold counts 0, 1, 2, ..., got {numbers[bad[0]]} in row {bad[0]} "
            f"({bad.size} of {len(numbers)} rows)."
        )
