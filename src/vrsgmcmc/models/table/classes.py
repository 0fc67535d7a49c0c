"""A class as target: two, several, or several in an order.

    logistic   P(y_i = 1) = sigmoid(eta_i)
    softmax    P(y_i = k) = softmax(0, eta_i1, ..., eta_i,K-1)_k: class 0 is the reference
    ordinal    P(y_i > k) = sigmoid(eta_i - t_k),   0 = t_0 < t_1 < ... < t_{K-2}

The weights of a class are log odds against the reference class, so that they have one meaning and no
direction without a likelihood. The gaps t_k - t_{k-1} of the ordinal model are sampled as their
logarithms; its cut points c_k = t_k - intercept, in order, have the prior N(0, 5^2) each.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped
from scipy.special import expit, softmax

from vrsgmcmc.core import Params, Scalar

from .. import likelihoods
from ..checks import check_labels
from .priors import Normal

CUTS = Normal(0.0, 5.0)


def draw_classes(rng: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
    """A class for each row of probabilities [..., K]."""
    below = np.cumsum(probabilities, -1)[..., :-1]
    return np.sum(rng.random(below.shape[:-1])[..., None] > below, -1)


@dataclass(frozen=True)
class Logistic:
    name: ClassVar = "logistic"
    kind: ClassVar = "classes"
    concave: ClassVar = True
    width: ClassVar = 1
    ratio: ClassVar = "odds ratio"
    shared: ClassVar = {}
    sentence: ClassVar = ""

    def __call__(self, eta: Float[Array, " 1"], y: Shaped[Array, ""]) -> Scalar:
        return likelihoods.Bernoulli()(eta[0], y)

    def logprior(self, params: Params) -> Scalar:
        return jnp.zeros(())

    def mean(self, eta: np.ndarray) -> np.ndarray:
        p = expit(eta[..., 0])
        return np.stack([1 - p, p], -1)

    def draw(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        return draw_classes(rng, self.mean(eta))

    def check(self, y: Any) -> None:
        check_labels(self.name, y, 2)


@dataclass(frozen=True)
class Softmax:
    num_classes: int
    name: ClassVar = "softmax"
    kind: ClassVar = "classes"
    concave: ClassVar = True
    ratio: ClassVar = "odds ratio"
    shared: ClassVar = {}
    sentence: ClassVar = ""

    @property
    def width(self) -> int:
        return self.num_classes - 1

    def __call__(self, eta: Float[Array, " k"], y: Shaped[Array, ""]) -> Scalar:
        return jax.nn.log_softmax(jnp.concatenate([jnp.zeros(1, eta.dtype), eta]))[y]

    def logprior(self, params: Params) -> Scalar:
        return jnp.zeros(())

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return softmax(np.concatenate([np.zeros_like(eta[..., :1]), eta], -1), -1)

    def draw(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        return draw_classes(rng, self.mean(eta))

    def check(self, y: Any) -> None:
        check_labels(self.name, y, self.num_classes)


@dataclass(frozen=True)
class Ordinal:
    num_classes: int
    name: ClassVar = "ordinal"
    kind: ClassVar = "classes"
    concave: ClassVar = False
    width: ClassVar = 1
    ratio: ClassVar = "odds ratio"

    @property
    def shared(self) -> dict[str, tuple[int, ...]]:
        return {"log_gaps": (self.num_classes - 2,)}

    @property
    def sentence(self) -> str:
        return f"cut points: {CUTS}, in order"

    def __call__(self, eta: Float[Array, " k"], y: Shaped[Array, ""]) -> Scalar:
        # log(sigmoid(a) - sigmoid(b)) = log sigmoid(a) + log sigmoid(-b) + log(1 - exp(b - a))
        first, gaps = jnp.zeros(1, eta.dtype), jnp.exp(eta[1:])
        over = eta[0] - jnp.concatenate([first, jnp.cumsum(gaps)])  # log odds of y > k
        last = self.num_classes - 1
        above, below = over[jnp.maximum(y - 1, 0)], over[jnp.minimum(y, last - 1)]
        gap = gaps[jnp.clip(y - 1, 0, last - 2)]  # above - below where both count
        inner = jnp.where((y > 0) & (y < last), log_one_less(gap), 0)
        up = jnp.where(y > 0, jax.nn.log_sigmoid(above), 0)
        return up + jnp.where(y < last, jax.nn.log_sigmoid(-below), 0) + inner

    def logprior(self, params: Params) -> Scalar:
        """Of the cut points but the first, which the intercept's prior is for."""
        cuts = jnp.cumsum(jnp.exp(params["log_gaps"])) - params["intercept"]
        return CUTS(cuts) + jnp.sum(params["log_gaps"])

    def mean(self, eta: np.ndarray) -> np.ndarray:
        steps = np.cumsum(np.exp(eta[..., 1:]), -1)
        over = expit(eta[..., :1] - np.concatenate([np.zeros_like(eta[..., :1]), steps], -1))
        ones = np.ones_like(over[..., :1])
        edges = np.concatenate([ones, over, 0 * ones], -1)
        return edges[..., :-1] - edges[..., 1:]

    def draw(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        return draw_classes(rng, self.mean(eta))

    def check(self, y: Any) -> None:
        check_labels(self.name, y, self.num_classes)


def log_one_less(gap: Float[Array, ""]) -> Scalar:
    """log(1 - exp(-gap)) for a gap above 0, without the loss of digits at either end."""
    near = gap < math.log(2)
    small, large = jnp.where(near, gap, 1.0), jnp.where(near, 1.0, gap)
    return jnp.where(near, jnp.log(-jnp.expm1(-small)), jnp.log1p(-jnp.exp(-large)))
