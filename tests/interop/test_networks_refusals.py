"""Mistakes are refused at the door, with what to do."""

import sys

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from support.modules import HAIKU, Linen, Nnx, named, problem, weights

import vrsgmcmc as vr

X, Y = np.ones((5, 3)), np.array([0, 1, 0, 1, 1])
LAYERS = weights(2)


@pytest.mark.parametrize(
    ("data", "likelihood", "options", "text"),
    [
        ((X, Y), "softmax", {}, "must be one of 'categorical', 'normal', 'bernoulli', 'poisson'"),
        (
            (X, Y),
            "bernoulli",
            {},
            r"outputs have the shape \[2\], and the likelihood needs the shape",
        ),
        (
            (X, Y * 2),
            "categorical",
            {},
            "the network has 2 outputs, so y must hold 0..1; got 3 of 5",
        ),
        ((X, Y - 1), "categorical", {}, "the first is -1"),
        ((X, Y * 1.0), "categorical", {}, "numpy.unique"),
        ((X, np.array(list("abcde"))), "categorical", {}, "y must hold numbers, got dtype <U1"),
        ((X, Y[:4]), "categorical", {}, "same number of rows"),
        ((X * np.nan, Y), "categorical", {}, "NaN or infinite"),
        (X, "categorical", {}, r"data must be \(x, y\)"),
        ((X[:, :2], Y), "categorical", {}, "do not fit one datum, with x .2. and y"),
        ((X, Y), "categorical", {"scale": 1.0}, "Leave scale out"),
        ((X, X[:, :2]), "normal", {"scale": -1.0}, "scale must be positive"),
        (
            (X, Y),
            "categorical",
            {"prior": -1.0},
            "prior_variance must be a finite number above zero",
        ),
        ((X, Y), lambda output, y: output, {}, r"returns \[2\] for outputs \[2\], not one number"),
        ((X, Y), "categorical", {"dropout": True}, "draws no random numbers"),
        (
            (X, Y),
            "categorical",
            {"sample_only": lambda path: path == "third"},
            "none of the parameters first/weight, first/bias",
        ),
    ],
)
def test_arguments_that_do_not_fit(data, likelihood, options, text):
    with pytest.raises(ValueError, match=text):
        problem("equinox", LAYERS, data, likelihood, **options)


def test_one_logit_is_bernoulli():
    with pytest.raises(ValueError, match='a single logit is likelihood="bernoulli"'):
        problem("haiku", weights(1), (X, Y), "categorical")


def test_things_that_are_no_modules():
    with pytest.raises(TypeError, match="the class itself; make a module of it"):
        vr.from_flax(Linen, (X, Y), "categorical")
    with pytest.raises(TypeError, match=r"must be a flax\.linen or flax\.nnx Module"):
        vr.from_flax(jnp.tanh, (X, Y), "categorical")
    with pytest.raises(TypeError, match="must be a callable module that holds arrays"):
        vr.from_equinox(jnp.tanh, (X, Y), "categorical")
    with pytest.raises(TypeError, match="Pass the model alone"):
        vr.from_equinox((eqx.nn.Identity(), None), (X, Y), "categorical")
    with pytest.raises(TypeError, match=r"Call hk\.transform on the function"):
        vr.from_haiku(lambda x: hk.Linear(2)(x), (X, Y), "categorical")


def test_trained_weights_of_another_module():
    params = named("linen", weights(3))
    extra = {**named("haiku", LAYERS), "third": {"w": np.ones(1)}}
    bad = named("linen", [LAYERS[0], LAYERS[1] * np.nan, *LAYERS[2:]])
    with pytest.raises(ValueError, match=r"second/bias is \[3\] there, and \[2\] in the module"):
        vr.from_flax(Linen(2), (X, Y), "categorical", params=params)
    with pytest.raises(ValueError, match=r"third/w is \[1\] there, and missing in the module"):
        vr.from_haiku(HAIKU[2], (X, Y), "categorical", params=extra)
    with pytest.raises(ValueError, match="an nnx module holds its own parameters"):
        vr.from_flax(Nnx(2), (X, Y), "categorical", params=params)
    with pytest.raises(ValueError, match="first/bias holds NaN"):
        vr.from_flax(Linen(2), (X, Y), "categorical", params=bad)


def test_a_library_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "haiku", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'vrsgmcmc\[haiku\]'"):
        vr.from_haiku(HAIKU[2], (X, Y), "categorical")


def test_frozen_parts_need_trained_weights():
    with pytest.raises(ValueError, match=r"params=... of linen and Haiku"):
        vr.from_flax(Linen(2), (X, Y), "categorical", sample_only=lambda path: "second" in path)


def test_parameters_of_integer_type():
    class Integers(nnx.Module):
        def __init__(self):
            self.shift = nnx.Param(jnp.ones(3, int))
            self.head = nnx.Linear(3, 2, rngs=nnx.Rngs(0))

        def __call__(self, x):
            return self.head(x + self.shift[...])

    with pytest.raises(
        TypeError, match="parameter shift has dtype int64; parameters must be float"
    ):
        vr.from_flax(Integers(), (X, Y), "categorical")


class Dropout(linen.Module):
    deterministic: bool | None = None

    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(linen.Dropout(0.5, deterministic=bool(self.deterministic))(x))


def test_random_layers_that_nobody_asked_for():
    class Masked(nnx.Module):
        def __init__(self):
            rngs = nnx.Rngs(0)
            self.mask, self.head = nnx.Dropout(0.5, rngs=rngs), nnx.Linear(3, 2, rngs=rngs)

        def __call__(self, x):
            return self.head(self.mask(x))

    with pytest.raises(ValueError, match="Pass dropout=True to sample with random masks"):
        vr.from_flax(Masked(), (X, Y), "categorical")
    with pytest.raises(ValueError, match="random numbers that cannot be switched off"):
        vr.from_flax(Dropout(), (X, Y), "categorical", dropout=True)
    quiet = vr.from_flax(Dropout(deterministic=True), (X, Y), "categorical")
    assert quiet.posterior.augment is None


def test_predictions_that_do_not_fit():
    door = problem("haiku", LAYERS, (X, Y), lambda output, y: output[0] * y)
    draws = jax.tree.map(lambda leaf: leaf[None, None], door.init)
    with pytest.raises(ValueError, match="a likelihood of your own has no mean"):
        door.predict(draws, X)
    with pytest.raises(ValueError, match=r"a row of x has the shape \(3,\) .* \(5, 2\)"):
        door.outputs(draws, X[:, :2])
