"""What the outputs of a network say about y: log p(y | output), for one datum.

    categorical   P(y = k) = softmax(output)_k,   output [..., K], y [...] in {0, ..., K-1}
    bernoulli     P(y = 1) = sigmoid(output),     y in {0, 1}
    poisson       y ~ Poisson(exp(output))
    normal        y ~ N(output, scale^2), where scale is a number, or exp(log_scale) is sampled

The last three take outputs of the shape of y; one output [1] for a number y counts as a number. Each
is a value: equal ones are equal functions. `mean` is E[y | output], for classes their probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vrsgmcmc import core
from vrsgmcmc.models import likelihoods

LOG_SCALE = "log_scale"  # the name of the extra parameter
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Categorical:
    concave: ClassVar = True
    log_scale: ClassVar = False  # whether the noise is a parameter

    def __call__(self, output: Float[Array, "*shape K"], y: Array) -> core.Scalar:
        logs = jax.nn.log_softmax(output)
        return jnp.sum(jnp.take_along_axis(logs, jnp.asarray(y, int)[..., None], axis=-1))

    def mean(self, output: Float[Array, "*shape K"], y_shape: Shape) -> Array:
        return jax.nn.softmax(output)

    def misfit(self, output: Any, y: Any) -> str:
        shape = getattr(output, "shape", None)
        if shape is not None and shape[:-1] == y.shape and len(shape) > len(y.shape):
            if shape[-1] > 1:
                return ""
            return 'there is one output; a single logit is likelihood="bernoulli"'
        return misfit(output, f"[{', '.join(map(str, (*y.shape, 'K')))}], the logits of K classes")

    def is_number(self, output: Any, y: Any) -> bool:
        return False

    def check(self, y: Any, output: Shape) -> None:
        check_classes(np.asarray(y), output[-1])


class OneForEach:
    """Outputs of the shape of y: what likelihoods of single numbers share."""

    log_scale: ClassVar = False
    link: Callable[[Array], Array]

    def mean(self, output: Float[Array, "..."], y_shape: Shape) -> Array:
        return self.link(output.reshape(y_shape))

    def misfit(self, output: Any, y: Any) -> str:
        if getattr(output, "shape", None) in (y.shape, *([(1,)] if y.shape == () else [])):
            return ""
        return misfit(output, f"the shape of y, {list(y.shape) if y.shape else '[] or [1]'}")

    def is_number(self, output: Any, y: Any) -> bool:
        return y.shape == ()


@dataclass(frozen=True)
class Elementwise(OneForEach):
    """A likelihood of `vr.likelihoods` for each output."""

    one: Any
    link: Callable[[Array], Array] = jnp.asarray
    concave: ClassVar = True

    def __call__(self, output: Float[Array, "..."], y: Array) -> core.Scalar:
        return jnp.sum(self.one(output.reshape(jnp.shape(y)), y))

    def check(self, y: Any, output: Shape) -> None:
        self.one.check(np.asarray(y).ravel())


@dataclass(frozen=True)
class NormalWithScale(OneForEach):
    """Normal noise whose log standard deviation is a parameter."""

    link: ClassVar = staticmethod(jnp.asarray)
    log_scale: ClassVar = True

    def __call__(self, output: Float[Array, "..."], y: Array, log_scale: Any) -> core.Scalar:
        residual = jnp.asarray(y, output.dtype) - output.reshape(jnp.shape(y))
        constant = residual.size * (log_scale + 0.5 * math.log(2 * math.pi))
        return -0.5 * jnp.sum(jnp.square(residual * jnp.exp(-log_scale))) - constant

    def check(self, y: Any, output: Shape) -> None:
        likelihoods.gaussian().check(np.asarray(y).ravel())


@dataclass(frozen=True)
class Custom:
    """The caller's own function (output, y) -> log p(y | output)."""

    function: Callable[[Any, Any], Any]
    log_scale: ClassVar = False

    def __call__(self, output: Any, y: Any) -> core.Scalar:
        return self.function(output, y)

    def misfit(self, output: Any, y: Any) -> str:
        value = jax.eval_shape(self.function, output, y)
        if getattr(value, "shape", None) == ():
            return ""
        shapes = jax.tree.map(lambda leaf: list(leaf.shape), (output, value))
        return f"likelihood(output, y) returns {shapes[1]} for outputs {shapes[0]}, not one number"

    def is_number(self, output: Any, y: Any) -> bool:
        return getattr(output, "shape", None) == ()

    def check(self, y: Any, output: Shape) -> None:
        pass


def misfit(output: Any, needs: str) -> str:
    """How the outputs differ from what is needed."""
    shapes = jax.tree.map(lambda leaf: list(leaf.shape), output)
    return f"the outputs have the shape {shapes}, and the likelihood needs {needs}"


NAMES = ("categorical", "normal", "bernoulli", "poisson")


def as_likelihood(where: str, likelihood: Any, scale: Any) -> Any:
    """The likelihood of a name or of a function; `scale` belongs to "normal"."""
    if scale is not None and likelihood != "normal":
        raise ValueError(
            f'{where}(scale={scale!r}): scale is the noise of likelihood="normal", and the likelihood '
            f"is {likelihood!r}. Leave scale out."
        )
    if callable(likelihood):
        return Custom(likelihood)
    name = core.one_of(where, "likelihood", likelihood, NAMES)
    if name == "categorical":
        return Categorical()
    if name == "bernoulli":
        return Elementwise(likelihoods.bernoulli(), jax.nn.sigmoid)
    if name == "poisson":
        return Elementwise(likelihoods.poisson(), jnp.exp)
    if scale is None:
        return NormalWithScale()
    return Elementwise(likelihoods.gaussian(core.positive(where, "scale", scale)))


def check_classes(y: np.ndarray, count: int) -> None:
    """Refuse labels other than 0 .. count-1: JAX reads others as the first or the last class."""
    if y.dtype.kind not in "iub":
        raise ValueError(
            f"categorical: y must hold the numbers 0..{count - 1} of the classes, got dtype {y.dtype}. "
            "classes, y = numpy.unique(y, return_inverse=True) numbers them."
        )
    outside = np.flatnonzero((y < 0) | (y >= count))
    if outside.size:
        raise ValueError(
            f"categorical: the network has {count} outputs, so y must hold 0..{count - 1}; got "
            f"{outside.size} of {y.size} outside, the first is {y.ravel()[outside[0]]}. Give the "
            "network one output for each class, and number the classes from 0: classes, y = "
            "numpy.unique(y, return_inverse=True)."
        )
