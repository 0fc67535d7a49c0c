"""Dropout, batch axes, statistics and other arrays that are no parameters."""

from functools import partial

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import vrsgmcmc as vr
from vrsgmcmc import core
from vrsgmcmc.core import Batch, all_rows, augment_batch, row_likelihoods

RNG = np.random.default_rng(1)
X, Y = RNG.normal(size=(6, 3)), RNG.integers(0, 2, 6)
IMAGES = RNG.normal(size=(6, 4, 4, 1))


class LinenDropout(linen.Module):
    @linen.compact
    def __call__(self, x, train):
        x = linen.Dropout(0.5, deterministic=not train)(linen.Dense(8)(x))
        return linen.Dense(2)(x)


class NnxDropout(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.first, self.second = nnx.Linear(3, 8, rngs=rngs), nnx.Linear(8, 2, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.second(self.dropout(self.first(x)))


class EquinoxDropout(eqx.Module):
    first: eqx.nn.Linear
    second: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __call__(self, x, key):
        return self.second(self.dropout(self.first(x), key=key))


def equinox_dropout():
    one, other = jax.random.split(jax.random.key(0))
    layers = eqx.nn.Linear(3, 8, key=one), eqx.nn.Linear(8, 2, key=other)
    return EquinoxDropout(*layers, eqx.nn.Dropout(0.5))


@hk.transform
def haiku_dropout(x, is_training):
    x = hk.Linear(8)(x)
    if is_training:
        x = hk.dropout(hk.next_rng_key(), 0.5, x)
    return hk.Linear(2)(x)


DROPOUT = {
    "linen": (vr.from_flax, LinenDropout),
    "nnx": (vr.from_flax, NnxDropout),
    "equinox": (vr.from_equinox, equinox_dropout),
    "haiku": (vr.from_haiku, lambda: haiku_dropout),
}


@partial(jax.jit, static_argnums=0)
def rows(posterior, params, data, key):
    return row_likelihoods(posterior, params, all_rows(data), key)


def start(problem):
    return jax.jit(problem.init)(jax.random.key(0)) if callable(problem.init) else problem.init


@pytest.mark.parametrize(
    "library",
    [
        "nnx",
        "equinox",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("linen", "haiku")),
    ],
)
def test_a_dropout_mask_belongs_to_its_datum(library):
    """At the anchor the gradients of a pair cancel, whatever the batch, and another key differs."""
    door, module = DROPOUT[library]
    problem = door(module(), (X, Y), "categorical", dropout=True)
    params = start(problem)
    kernel = vr.kernel(
        problem.posterior, vr.practical(anchor_size=6, period=5), vr.sgld(), size=6, batch_size=2
    )
    state = kernel.init(jax.random.key(1), params)
    state = jax.jit(kernel.refresh)(jax.random.key(2), state, all_rows(problem.data))
    gradients, step = [], jax.jit(kernel.step)
    for picks in (np.array([0, 1]), np.array([4, 3])):
        batch = Batch(jnp.array(picks), jax.tree.map(lambda leaf, i=picks: leaf[i], problem.data))
        gradients.append(step(jax.random.key(3), state, batch, 1e-3)[1].gradient)
    for one, other in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)

    values = [rows(problem.posterior, params, problem.data, jax.random.key(s)) for s in (0, 1)]
    assert not np.allclose(*values)
    draws = jax.tree.map(lambda leaf: leaf[None, None], params)
    quiet = door(module(), (X, Y), "categorical", dropout=False)
    assert quiet.posterior.augment is None
    sure = rows(quiet.posterior, params, quiet.data, jax.random.key(0))
    predictions = problem.predict(draws, X)[np.arange(6), Y]
    np.testing.assert_allclose(np.log(predictions), sure, rtol=1e-5)


def test_masks_of_a_last_layer_are_drawn_anew():
    """The features are not fixed, so it is no GLM; its density is that of the whole network."""
    module, key = equinox_dropout(), jax.random.key(5)
    whole = vr.from_equinox(module, (X, Y), "categorical", dropout=True)
    last = vr.from_equinox(
        module, (X, Y), "categorical", dropout=True, sample_only=lambda path: "second" in path
    )
    assert not isinstance(last.posterior, core.GLM)
    values = [rows(each.posterior, each.init, each.data, key) for each in (whole, last)]
    np.testing.assert_allclose(*values, rtol=1e-9)


def test_the_key_of_a_datum_is_a_part_of_it():
    problem = vr.from_flax(NnxDropout(), (X, Y), "categorical", dropout=True)
    key = jax.random.key(7)
    x, _, masks = augment_batch(problem.posterior, all_rows(problem.data), key)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(
        jax.random.key_data(masks[4]), jax.random.key_data(jax.random.fold_in(key, 4))
    )


class LinenConvolution(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.relu(linen.Conv(3, (3, 3), param_dtype=float)(x))
        return linen.Dense(2, param_dtype=float)(x.mean((1, 2)))


class NnxConvolution(nnx.Module):
    def __init__(self, params):
        options = {"param_dtype": float, "rngs": nnx.Rngs(0)}
        self.conv, self.head = nnx.Conv(1, 3, (3, 3), **options), nnx.Linear(3, 2, **options)
        if params is not None:
            self.conv.kernel[...] = params["Conv_0"]["kernel"]
            self.head.kernel[...] = params["Dense_0"]["kernel"]

    def __call__(self, x):
        return self.head(nnx.relu(self.conv(x)).mean((1, 2)))


class EquinoxConvolution(eqx.Module):
    conv: eqx.nn.Conv2d
    head: eqx.nn.Linear

    def __call__(self, x):
        return self.head(jax.nn.relu(self.conv(jnp.moveaxis(x, -1, 0))).mean((1, 2)))


@hk.transform
def haiku_convolution(x):
    x = jax.nn.relu(hk.Conv2D(3, 3, name="conv")(x))
    return hk.Linear(2, name="head")(x.mean((1, 2)))


def test_convolutions_get_the_batch_axis_that_their_library_expects():
    """One datum, an image [4, 4, 1]: without a batch axis linen would take it for another network."""
    module = LinenConvolution()
    variables = jax.jit(module.init)(jax.random.key(0), IMAGES)
    conv, head = variables["params"]["Conv_0"]["kernel"], variables["params"]["Dense_0"]["kernel"]
    logits = module.apply(variables, IMAGES)
    expected = jax.nn.log_softmax(logits)[np.arange(6), Y]

    one = eqx.nn.Conv2d(1, 3, 3, padding=1, key=jax.random.key(0))
    equinox = EquinoxConvolution(one, eqx.nn.Linear(3, 2, key=jax.random.key(0)))
    leaves = lambda m: [m.conv.weight, m.conv.bias, m.head.weight, m.head.bias]  # noqa: E731
    values = [conv.transpose(3, 2, 0, 1), jnp.zeros((3, 1, 1)), head.T, jnp.zeros(2)]
    equinox = eqx.tree_at(leaves, equinox, values)
    haiku = {"conv": {"w": conv, "b": np.zeros(3)}, "head": {"w": head, "b": np.zeros(2)}}
    data = (IMAGES, Y)
    problems = [
        vr.from_flax(module, data, "categorical", params=variables),
        vr.from_flax(NnxConvolution(variables["params"]), data, "categorical"),
        vr.from_equinox(equinox, data, "categorical"),
        vr.from_haiku(haiku_convolution, data, "categorical", params=haiku),
    ]
    assert [problem.model.network.batched for problem in problems] == [True, True, False, True]
    for problem in problems:
        values = rows(problem.posterior, problem.init, problem.data, jax.random.key(0))
        np.testing.assert_allclose(values, expected, rtol=1e-9)


class Tagger(linen.Module):
    """A class for each word of a text, written for one text, whose first word gets a mark."""

    @linen.compact
    def __call__(self, words):
        (length,) = words.shape
        marks = jnp.zeros((length, 2)).at[0].set(1.0)
        return linen.Dense(3)(linen.Embed(5, 2)(words) + marks)


def test_a_module_for_one_datum_with_labels_in_each_place():
    words, labels = RNG.integers(0, 5, (6, 4)), RNG.integers(0, 3, (6, 4))
    problem = vr.from_flax(Tagger(), (words, labels), "categorical")
    params = start(problem)
    logs = [jax.nn.log_softmax(Tagger().apply({"params": params}, each)) for each in words]
    value = problem.posterior.loglik(params, (jnp.asarray(words[2]), jnp.asarray(labels[2])))
    np.testing.assert_allclose(value, sum(logs[2][np.arange(4), labels[2]]), rtol=1e-6)
    assert not problem.model.network.batched


class Normalised(linen.Module):
    @linen.compact
    def __call__(self, x, train: bool):
        x = linen.BatchNorm(use_running_average=not train)(linen.Dense(4)(x))
        return linen.Dense(2)(linen.relu(x))


class NnxNormalised(nnx.Module):
    def __init__(self):
        self.norm = nnx.BatchNorm(3, rngs=nnx.Rngs(0))
        self.head = nnx.Linear(3, 2, rngs=nnx.Rngs(0))

    def __call__(self, x):
        return self.head(self.norm(x))


def test_statistics_that_are_fixed_are_arrays_of_the_network():
    module = Normalised()
    variables = jax.jit(partial(module.init, train=True))(jax.random.key(0), X)
    variables["batch_stats"]["BatchNorm_0"]["mean"] += 2.0
    problem = vr.from_flax(module, (X, Y), "categorical", params=variables, dropout=False)
    logits = module.apply(variables, X, train=False)
    np.testing.assert_allclose(
        rows(problem.posterior, problem.init, problem.data, jax.random.key(0)),
        jax.nn.log_softmax(logits)[np.arange(6), Y],
        rtol=1e-5,
    )
    draws = jax.tree.map(lambda leaf: leaf[None, None], problem.init)
    np.testing.assert_allclose(problem.outputs(draws, X)[0], logits, rtol=1e-5)


def test_batch_norm_is_refused_with_its_repairs():
    data = (X, Y)
    text = "depends on the other data of its batch"
    with pytest.raises(ValueError, match=text):
        vr.from_flax(Normalised(), data, "categorical")
    variables = jax.jit(partial(Normalised().init, train=True))(jax.random.key(0), X)
    with pytest.raises(ValueError, match="GroupNorm or LayerNorm"):
        vr.from_flax(Normalised(), data, "categorical", params=variables)
    with pytest.raises(ValueError, match=r"module.eval\(\)"):
        vr.from_flax(NnxNormalised(), (X.astype(np.float32), Y), "categorical")
    module = NnxNormalised()
    module.eval()
    assert vr.from_flax(module, data, "categorical").posterior.network

    batch_norm = eqx.nn.BatchNorm(3, "batch", mode="batch")
    linear = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    with pytest.raises(ValueError, match=text):
        vr.from_equinox(eqx.nn.Sequential([batch_norm, linear]), data, "categorical")

    @hk.transform_with_state
    def haiku(x, is_training):
        return hk.Linear(2)(hk.BatchNorm(True, True, 0.9)(x, is_training))

    with pytest.raises(ValueError, match=text):
        vr.from_haiku(haiku, data, "categorical")


def test_a_function_with_an_empty_state_is_taken():
    @hk.transform_with_state
    def haiku(x):
        return hk.Linear(2)(x)

    problem = vr.from_haiku(haiku, (X, Y), "categorical")
    assert problem.paths == ("linear/b", "linear/w")


def test_integer_arrays_of_equinox_are_fixed():
    class Shuffled(eqx.Module):
        order: jax.Array
        linear: eqx.nn.Linear

        def __call__(self, x):
            return self.linear(x[self.order])

    module = Shuffled(jnp.array([2, 0, 1]), eqx.nn.Linear(3, 2, key=jax.random.key(0)))
    problem = vr.from_equinox(module, (X, Y), "categorical")
    assert problem.paths == ("linear/weight", "linear/bias")
    values = rows(problem.posterior, problem.init, problem.data, jax.random.key(0))
    expected = [jax.nn.log_softmax(module(x))[y] for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(values, expected, rtol=1e-9)
    np.testing.assert_array_equal(problem.module(problem.init).order, [2, 0, 1])
