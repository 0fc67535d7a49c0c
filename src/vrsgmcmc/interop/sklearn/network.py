"""The posterior of a network with one hidden layer, whose scales are parameters.

    f(x) = tanh(x W1 exp(s1) / sqrt(d) + b1) W2 exp(s2) / sqrt(h) + b2,   every parameter ~ N(0, 1).

So s1 says how bent f is and s2 how large: a small table learns a smooth function. With a fixed
`prior_scale` it stands in the place of exp(s1) and exp(s2). Classes: logits f(x) [K]; a number:
y ~ N(f(x), sigma^2), with the prior of sigma that linear regression has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from vrsgmcmc.core import Scalar, tree

from .linear import log_noise


@dataclass(frozen=True)
class NetworkStart:
    """A start for each key: random weights, no bias."""

    d: int
    hidden: int
    outputs: int
    scales: bool
    noise: bool

    def __call__(self, key: Key[Array, ""]) -> dict[str, Array]:
        first, second = jax.random.split(key)
        params = {
            "W1": jax.random.normal(first, (self.d, self.hidden)),
            "b1": jnp.zeros(self.hidden),
            "W2": jax.random.normal(second, (self.hidden, self.outputs)),
            "b2": jnp.zeros(self.outputs),
        }
        params |= {"s1": jnp.zeros(()), "s2": jnp.zeros(())} if self.scales else {}
        return params | ({"log_sigma": jnp.zeros(())} if self.noise else {})


@dataclass(frozen=True, eq=False)
class DrawStart:
    """A start for each key: one of these draws [draw, ...]."""

    draws: dict[str, np.ndarray]

    def __call__(self, key: Key[Array, ""]) -> dict[str, Array]:
        index = jax.random.randint(key, (), 0, len(self.draws["b2"]))
        return {name: jnp.asarray(leaf, float)[index] for name, leaf in self.draws.items()}


@dataclass(frozen=True)
class NetworkPrior:
    """N(0, 1) for every number but log sigma."""

    def __call__(self, params: dict[str, Array]) -> Scalar:
        rest = {name: leaf for name, leaf in params.items() if name != "log_sigma"}
        height = -0.5 * tree.square_norm(rest)
        return height + log_noise(params["log_sigma"]) if "log_sigma" in params else height


@dataclass(frozen=True)
class ClassLoglik:
    """weight log softmax(f(x))_y."""

    prior_scale: float | None

    def __call__(self, params: dict[str, Array], datum: Any) -> Scalar:
        x, y, weight = datum
        return weight * jax.nn.log_softmax(outputs(params, x, self.prior_scale))[y]


@dataclass(frozen=True)
class NumberLoglik:
    """weight log N(y; f(x), sigma^2), up to a constant."""

    prior_scale: float | None

    def __call__(self, params: dict[str, Array], datum: Any) -> Scalar:
        x, y, weight = datum
        residual = y - outputs(params, x, self.prior_scale)[0]
        log_sigma = params["log_sigma"]
        return -weight * (0.5 * jnp.square(residual * jnp.exp(-log_sigma)) + log_sigma)


def outputs(
    params: dict[str, Array], x: Float[Array, " d"], prior_scale: float | None
) -> Float[Array, " K"]:
    """f(x) of one row."""
    d, hidden = params["W1"].shape
    inner, outer = (
        (prior_scale if prior_scale else jnp.exp(params[name])) / math.sqrt(width)
        for name, width in (("s1", d), ("s2", hidden))
    )
    return jnp.tanh(x @ params["W1"] * inner + params["b1"]) @ params["W2"] * outer + params["b2"]


def all_outputs(
    draws: dict[str, np.ndarray], x: np.ndarray, prior_scale: float | None
) -> np.ndarray:
    """f(x) of rows [n, d] and draws [draw, ...]: [n, draw, K], in NumPy: nothing compiles."""
    d, hidden = draws["W1"].shape[1:]
    result = np.empty((len(x), len(draws["W1"]), draws["W2"].shape[2]))
    for number in range(len(draws["W1"])):
        one = {name: leaf[number] for name, leaf in draws.items()}
        inner, outer = (
            (prior_scale if prior_scale else np.exp(one[name])) / math.sqrt(width)
            for name, width in (("s1", d), ("s2", hidden))
        )
        layer = np.tanh(x @ (one["W1"] * inner) + one["b1"])
        result[:, number] = layer @ (one["W2"] * outer) + one["b2"]
    return result
