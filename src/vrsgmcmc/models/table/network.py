"""A network with one hidden layer in the place of the linear predictor: classes, or a number.

The posterior is that of `mlp`, whose noise variance is the one of a least-squares fit. Its weights have
no meaning one by one, so there are predictions and no effects.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped
from scipy.special import softmax

from vrsgmcmc.core import Posterior, Scalar

from .. import mlp
from ..gaussian import log_normal
from .classes import draw_classes

LEAST_NOISE = 1e-6  # of the variance of a standardised target


@dataclass(frozen=True)
class ClassNetwork:
    num_classes: int
    name: ClassVar = "mlp"
    kind: ClassVar = "classes"

    def __call__(self, eta: Float[Array, " k"], y: Shaped[Array, ""]) -> Scalar:
        return jax.nn.log_softmax(eta)[y]

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return softmax(eta, -1)

    def draw(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        return draw_classes(rng, self.mean(eta))


@dataclass(frozen=True)
class NumberNetwork:
    variance: float
    name: ClassVar = "mlp"
    kind: ClassVar = "number"

    def __call__(self, eta: Float[Array, " 1"], y: Shaped[Array, ""]) -> Scalar:
        return log_normal(y - eta[0], self.variance)

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return eta[..., 0]

    def draw(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        return rng.normal(eta[..., 0], np.sqrt(self.variance))


def network(
    x: Float[np.ndarray, "n p"], y: np.ndarray, num_classes: int, hidden: int = 50
) -> tuple[ClassNetwork | NumberNetwork, Posterior, Callable]:
    """The likelihood, posterior and start of a network for these rows; no classes: a number."""
    init = mlp.initial(x.shape[1], num_classes or 1, hidden)
    if num_classes:
        return ClassNetwork(num_classes), mlp.classifier(num_classes), init
    features = np.column_stack([x, np.ones(len(x))])
    weights, _, rank, _ = np.linalg.lstsq(features, y, rcond=None)
    variance = np.sum(np.square(y - features @ weights)) / max(len(y) - int(rank), 1)
    variance = max(float(variance), LEAST_NOISE)
    return NumberNetwork(variance), mlp.regressor(variance=variance), init


def outputs(draws: Any, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "draw n k"]:
    """The outputs of the network for every draw and row."""
    return np.asarray(_outputs(draws, jnp.asarray(x)), np.float64)


@jax.jit
def _outputs(draws: Any, x: Any) -> Any:
    return jax.lax.map(lambda net: mlp.outputs(net, x), draws)
