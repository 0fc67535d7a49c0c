"""A neural network with one hidden layer: classes or a number from a row of numbers.

    W1 [d, h], b1 [h], W2 [h, K], b2 [K]: every entry ~ N(0, prior_variance)
    f(x) = a(x W1 + b1) W2 + b2,   a = tanh or sigmoid
    classifier: P(y_i = k) = softmax(f(x_i))_k,   y_i in {0, ..., K-1}
    regressor:  y_i ~ N(f(x_i)_0, variance),   K = 1

Chains start from the usual fan-in initialisation, W ~ N(0, 1 / rows of W) and b = 0; from the prior
they take longer to predict well. Data: a tuple (x [N, d], y [N]). Permuting hidden units, or flipping
their signs, changes nothing, so the posterior has many equal modes: look at predictions, not at single
weights.

The network of Chen et al. has 100 hidden units and activation="sigmoid": 79,510 parameters on MNIST,
308,310 on CIFAR-10, with the pixels of an image in a row. The experiments read them as v / 255 on MNIST
and as (v / 255 - 1/2) / (1/4) on CIFAR-10.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Shaped

from vrsgmcmc.core import Posterior, PRNGKey, Scalar, one_of, whole

from .checks import as_variance, check_outputs, check_table, class_check
from .gaussian import log_normal, normal_prior
from .layers import lecun_affine
from .linear import affine

ACTIVATIONS = {"tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid}


class MLP(eqx.Module):
    """The parameters, in the order of their names."""

    bias_1: Float[Array, " hidden"]
    bias_2: Float[Array, " k"]
    weight_1: Float[Array, "d hidden"]
    weight_2: Float[Array, "hidden k"]


def classifier(
    num_classes: int, *, activation: str = "tanh", prior_variance: float | int = 1.0
) -> Posterior:
    """The posterior of a network whose outputs are the logits of `num_classes` classes."""
    num_classes = whole("mlp.classifier", "num_classes", num_classes, least=2)
    activation = one_of("mlp.classifier", "activation", activation, ACTIVATIONS)
    loglik = _class_loglik(num_classes, activation)
    return Posterior(
        normal_prior(prior_variance), loglik, check=class_check("mlp", num_classes), network=True
    )


def regressor(
    *, variance: float | int = 1.0, activation: str = "tanh", prior_variance: float | int = 1.0
) -> Posterior:
    """The posterior of a network whose output is a mean; `variance` is that of the noise in y."""
    variance = as_variance("variance", variance)
    activation = one_of("mlp.regressor", "activation", activation, ACTIVATIONS)
    loglik = _regression_loglik(variance, activation)
    return Posterior(normal_prior(prior_variance), loglik, check=_check_regression, network=True)


def initial(d: int, outputs: int, hidden: int = 50) -> Callable[[PRNGKey], MLP]:
    """A function of a key, for x [N, d], so that every chain has its own start. `outputs`: K, or 1."""
    sizes = [whole("mlp.initial", "d", d), whole("mlp.initial", "hidden", hidden)]
    return _initial(*sizes, whole("mlp.initial", "outputs", outputs))


def outputs(
    net: MLP, x: Shaped[ArrayLike, "*rows d"], activation: str = "tanh"
) -> Float[Array, "*rows k"]:
    """f(x) for one row x [d], or for each row of x [n, d]."""
    hidden = ACTIVATIONS[activation](affine(x, net.weight_1, net.bias_1))
    return affine(hidden, net.weight_2, net.bias_2)


def predict(
    net: MLP, x: Shaped[ArrayLike, "*rows d"], activation: str = "tanh"
) -> Float[Array, "*rows k"]:
    """The K probabilities of a classifier."""
    return jax.nn.softmax(outputs(net, x, activation))


@cache
def _initial(d: int, hidden: int, outputs: int) -> Callable[[PRNGKey], MLP]:
    def initial(key: PRNGKey) -> MLP:
        first, second = jax.random.split(key)
        inner, outer = lecun_affine(first, d, hidden), lecun_affine(second, hidden, outputs)
        return MLP(inner.bias, outer.bias, inner.weight, outer.weight)

    return jax.jit(initial)


@cache
def _class_loglik(num_classes: int, activation: str) -> Callable[[MLP, Any], Scalar]:
    def loglik(net: MLP, datum: tuple[Any, Any]) -> Scalar:
        x, y = datum
        logits = outputs(net, x, activation)
        check_outputs("mlp", logits, num_classes, f"initial({x.shape[-1]}, {num_classes})")
        return jax.nn.log_softmax(logits)[y]

    return loglik


@cache
def _regression_loglik(variance: float, activation: str) -> Callable[[MLP, Any], Scalar]:
    def loglik(net: MLP, datum: tuple[Any, Any]) -> Scalar:
        x, y = datum
        (mean,) = outputs(net, x, activation)
        return log_normal(y - mean, variance)

    return loglik


def _check_regression(data: Any) -> None:
    check_table("mlp", data)
