"""One architecture, tanh and two dense layers, in the four libraries, with the same weights."""

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import vrsgmcmc as vr


class Linen(linen.Module):
    outputs: int

    @linen.compact
    def __call__(self, x):
        hidden = jnp.tanh(linen.Dense(4, param_dtype=float, name="first")(x))
        return linen.Dense(self.outputs, param_dtype=float, name="second")(hidden)


class Nnx(nnx.Module):
    def __init__(self, outputs):
        options = {"param_dtype": float, "rngs": nnx.Rngs(0)}
        self.first = nnx.Linear(3, 4, **options)
        self.second = nnx.Linear(4, outputs, **options)

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))


class Equinox(eqx.Module):
    first: eqx.nn.Linear
    second: eqx.nn.Linear

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))


def haiku(outputs):
    def function(x):
        return hk.Linear(outputs, name="second")(jnp.tanh(hk.Linear(4, name="first")(x)))

    return hk.transform(function)


def weights(outputs):
    """W1, b1, W2, b2."""
    rng = np.random.default_rng(5)
    return [rng.normal(size=shape) for shape in ((3, 4), (4,), (4, outputs), (outputs,))]


def output(layers, x):
    """Of one row."""
    W1, b1, W2, b2 = layers
    return jnp.tanh(x @ W1 + b1) @ W2 + b2


def named(library, layers):
    """These arrays as the door of a library calls them."""
    kernel, bias = {"equinox": ("weight", "bias"), "haiku": ("w", "b")}.get(
        library, ("kernel", "bias")
    )
    turn = (lambda a: jnp.asarray(a).T) if library == "equinox" else jnp.asarray
    W1, b1, W2, b2 = layers
    first, second = ({kernel: turn(W), bias: jnp.asarray(b)} for W, b in ((W1, b1), (W2, b2)))
    return {"first": first, "second": second}


def problem(library, layers, data, likelihood, **options):
    """The door of this library, with the network that has these weights."""
    outputs, params = len(layers[3]), named(library, layers)
    if library == "linen":
        return vr.from_flax(Linen(outputs), data, likelihood, params=params, **options)
    if library == "haiku":
        return vr.from_haiku(HAIKU[outputs], data, likelihood, params=params, **options)
    if library == "nnx":
        module = Nnx(outputs)
        for name, part in params.items():
            for each, array in part.items():
                getattr(getattr(module, name), each)[...] = array
        return vr.from_flax(module, data, likelihood, **options)
    one, other = jax.random.split(jax.random.key(0))
    module = Equinox(eqx.nn.Linear(3, 4, key=one), eqx.nn.Linear(4, outputs, key=other))
    for name, part in params.items():
        for each, array in part.items():
            module = eqx.tree_at(lambda m, n=name, e=each: getattr(getattr(m, n), e), module, array)
    return vr.from_equinox(module, data, likelihood, **options)


HAIKU = {outputs: haiku(outputs) for outputs in (1, 2, 3)}
LIBRARIES = (
    pytest.param("linen", marks=pytest.mark.slow),
    pytest.param("nnx", marks=pytest.mark.slow),
    "equinox",
    "haiku",
)
