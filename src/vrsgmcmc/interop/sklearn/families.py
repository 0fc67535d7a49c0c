"""Linear predictors with weighted rows, as `core.GLM`s.

    log p(y | w) = sum_i weight_i likelihood(x_i . w, y_i)

Several classes: K - 1 predictors, which an orthonormal contrast takes to K logits that sum to zero, so
that no class is a reference and nothing is there twice.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.core import GLM, Params, Scalar


@dataclass(frozen=True)
class Weighted:
    """A likelihood of (eta, y) for data y with weights."""

    likelihood: Any

    @property
    def concave(self) -> bool:
        return self.likelihood.concave

    def __call__(self, eta: Any, datum: Any) -> Scalar:
        y, weight = datum
        return weight * self.likelihood(eta, y)


@dataclass(frozen=True)
class WeightedLoglik:
    """The same for a row (x, (y, weight)) and coefficients w."""

    likelihood: Weighted

    def __call__(self, w: Params, datum: Any) -> Scalar:
        x, y = datum
        return self.likelihood(x @ w, y)


@dataclass(frozen=True)
class Contrasts:
    """log softmax of K logits C eta, eta [K - 1]."""

    num_classes: int
    concave: ClassVar = True

    def __call__(self, eta: Any, y: Any) -> Scalar:
        return jax.nn.log_softmax(jnp.asarray(contrasts(self.num_classes), eta.dtype) @ eta)[y]


def contrasts(num_classes: int) -> np.ndarray:
    """[K, K - 1], orthonormal columns that sum to zero (Helmert's)."""
    K = num_classes
    columns = np.zeros((K, K - 1))
    for k in range(1, K):
        columns[:k, k - 1], columns[k, k - 1] = 1, -k
    return columns / np.linalg.norm(columns, axis=0)


def weighted_glm(likelihood: Any, prior: Any) -> GLM:
    weighted = Weighted(likelihood)
    return GLM(prior, WeightedLoglik(weighted), likelihood=weighted)
