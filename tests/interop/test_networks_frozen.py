"""Some layers are sampled, the others keep their weights."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from support.modules import LIBRARIES, named, output, problem, weights

import vrsgmcmc as vr
from vrsgmcmc.core import GLM, all_rows, log_posterior, row_likelihoods

RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 3))
LAYERS = weights(2)
Y = RNG.integers(0, 2, 40)


def second(path):
    return path.startswith("second/")


@partial(jax.jit, static_argnums=0)
def rows(posterior, params, data):
    return row_likelihoods(posterior, params, all_rows(data), jax.random.key(0))


@partial(jax.jit, static_argnums=0)
def slope(posterior, params, data):
    return jax.grad(log_posterior, 1)(posterior, params, all_rows(data))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_last_layer_is_a_glm_of_features(library):
    """Its features are those of the frozen part, and its density that of the whole network."""
    door = problem(library, LAYERS, (X, Y), "categorical", sample_only=second)
    assert isinstance(door.posterior, GLM)
    assert door.posterior.concave
    assert not door.posterior.network
    assert set(door.init) == {"second"}
    hidden = np.tanh(X @ LAYERS[0] + LAYERS[1][None])
    np.testing.assert_allclose(door.data[0], np.column_stack([hidden, np.ones(40)]), rtol=1e-9)

    whole = named(library, [*LAYERS[:2], LAYERS[2] + 0.3, LAYERS[3] - 0.2])
    some = {"second": whole["second"]}
    eta = door.data[0] @ door.posterior.coefficients(some)
    expected = jnp.stack([output([*LAYERS[:2], LAYERS[2] + 0.3, LAYERS[3] - 0.2], x) for x in X])
    np.testing.assert_allclose(eta, expected, rtol=1e-9)
    np.testing.assert_allclose(
        rows(door.posterior, some, door.data), jax.nn.log_softmax(expected)[np.arange(40), Y]
    )
    again = problem(library, LAYERS, (X, Y), "categorical", sample_only=second)
    assert again.posterior == door.posterior
    assert jax.tree.structure(door.params_of(some)) == jax.tree.structure(whole)


@pytest.mark.parametrize(
    ("likelihood", "y", "kind"),
    [
        ("bernoulli", Y, GLM),
        ("poisson", Y, GLM),
        ("normal", Y * 1.0, vr.Posterior),  # its noise is a parameter
        (lambda output, y: -((output[0] - y) ** 2), Y, GLM),
    ],
)
def test_every_likelihood_has_a_last_layer(likelihood, y, kind):
    layers = weights(1)
    whole = problem("equinox", layers, (X, y), likelihood)
    last = problem("equinox", layers, (X, y), likelihood, sample_only=second)
    assert type(last.posterior) is kind
    assert last.data[0].shape == (40, 5)
    np.testing.assert_allclose(
        rows(last.posterior, last.init, last.data),
        rows(whole.posterior, whole.init, whole.data),
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    ("library", "choice"),
    [
        ("equinox", lambda path: path.startswith("first")),
        ("haiku", lambda path: path.startswith("second") or path == "first/b"),
    ],
)
def test_other_choices_are_cut_behind_what_is_frozen(library, choice):
    whole = problem(library, LAYERS, (X, Y), "categorical")
    some = problem(library, LAYERS, (X, Y), "categorical", sample_only=choice)
    assert not isinstance(some.posterior, GLM)
    assert some.posterior.network
    np.testing.assert_allclose(
        rows(some.posterior, some.init, some.data),
        rows(whole.posterior, whole.init, whole.data),
        rtol=1e-9,
    )
    gradients = [slope(each.posterior, each.init, each.data) for each in (some, whole)]
    for name, part in gradients[0].items():
        for each, leaf in part.items():
            np.testing.assert_allclose(leaf, gradients[1][name][each], rtol=1e-8, atol=1e-10)


def test_frozen_weights_before_the_sampled_ones_are_no_constants():
    """The program has the sampled weights as arguments, and of the frozen ones what comes after."""

    class Deep(linen.Module):
        @linen.compact
        def __call__(self, x):
            for width in (300, 300, 4):
                x = jnp.tanh(linen.Dense(width)(x))
            return linen.Dense(2)(x)

    params = jax.jit(Deep().init)(jax.random.key(0), X)["params"]
    choice = lambda path: path.split("/")[0] in ("Dense_2", "Dense_3")  # noqa: E731
    door = vr.from_flax(Deep(), (X, Y), "categorical", params=params, sample_only=choice)
    assert [leaf.shape for leaf in door.data[0]] == [(40, 1, 300)]
    text = rows.lower(door.posterior, door.init, door.data).as_text()
    assert len(text) < 50_000  # 90,000 numbers are 720,000 letters


def test_a_last_layer_behind_a_link_is_no_glm():
    class Squashed(eqx.Module):
        first: eqx.nn.Linear
        second: eqx.nn.Linear

        def __call__(self, x):
            return 5 * jnp.tanh(self.second(jnp.tanh(self.first(x))))

    one, other = jax.random.split(jax.random.key(0))
    module = Squashed(eqx.nn.Linear(3, 4, key=one), eqx.nn.Linear(4, 2, key=other))
    door = vr.from_equinox(module, (X, Y), "categorical", sample_only=second)
    assert not isinstance(door.posterior, GLM)
    np.testing.assert_allclose(
        rows(door.posterior, door.init, door.data),
        [jax.nn.log_softmax(module(x))[y] for x, y in zip(X, Y, strict=True)],
        rtol=1e-9,
    )


@pytest.mark.slow
@pytest.mark.parametrize("library", ["nnx", "haiku"])
def test_the_posterior_of_a_last_layer_is_its_exact_gaussian(library):
    """y ~ N(features w, s^2), w ~ N(0, v): mean and sds from four arguments."""
    layers = weights(1)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2000, 3))
    hidden = np.tanh(x @ layers[0] + layers[1])
    y = hidden @ layers[2][:, 0] + layers[3] + 0.5 * rng.normal(size=2000)
    door = problem(library, layers, (x, y), "normal", scale=0.5, prior=3.0, sample_only=second)
    result = vr.sample(0, *door)
    assert str(result.accuracy()).startswith("Good"), result
    features = np.column_stack([hidden, np.ones(2000)])
    covariance = np.linalg.inv(features.T @ features / 0.25 + np.eye(5) / 3)
    mean, sd = covariance @ features.T @ y / 0.25, np.sqrt(np.diag(covariance))
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), result.draws)
    draws = np.asarray(jax.vmap(door.posterior.coefficients)(flat))
    np.testing.assert_array_less(np.abs(draws.mean(0) - mean) / sd, 0.1)
    np.testing.assert_allclose(draws.std(0), sd, rtol=0.08)
    predictions = door.predict(result, x[:20])
    np.testing.assert_allclose(predictions, features[:20] @ mean, atol=0.1 * sd.max() * 5)
