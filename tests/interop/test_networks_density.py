"""The posterior of each door is the one written by hand, of the same network."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm, poisson
from support.modules import LIBRARIES, Linen, named, output, problem, weights

import vrsgmcmc as vr
from vrsgmcmc.core import all_rows, log_posterior

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3))
CASES = {  # likelihood -> outputs, y, log p(y | output)
    "categorical": (3, RNG.integers(0, 3, 7), lambda f, y: jax.nn.log_softmax(f)[y]),
    "bernoulli": (1, RNG.integers(0, 2, 7), lambda f, y: bernoulli(f[0], y)),
    "poisson": (1, RNG.poisson(3, 7), lambda f, y: poisson.logpmf(y, jnp.exp(f[0]))),
    "normal": (2, RNG.normal(size=(7, 2)), lambda f, y: norm.logpdf(y, f, 0.7).sum()),
}


def bernoulli(logit, y):
    p = jax.nn.sigmoid(logit)
    return jnp.where(y == 1, jnp.log(p), jnp.log(1 - p))


def by_hand(layers, y, loglik, variance):
    prior = sum(norm.logpdf(w, 0, np.sqrt(variance)).sum() for w in layers)
    rows = jax.vmap(lambda x, y: loglik(output(layers, x), y))(X, jnp.asarray(y))
    return prior + rows.sum()


def outputs_of(layers):
    return np.stack([output(layers, x) for x in X])


@pytest.mark.parametrize(
    ("library", "likelihood"),
    [(library, "categorical") for library in ("linen", "nnx", "equinox")]
    + [("haiku", likelihood) for likelihood in CASES],
)
def test_density_and_gradient_are_those_written_by_hand(library, likelihood):
    outputs, y, loglik = CASES[likelihood]
    layers = weights(outputs)
    scale = {"scale": 0.7} if likelihood == "normal" else {}
    door = problem(library, layers, (X, y), likelihood, prior=2.0, **scale)
    assert jax.tree.structure(door.init) == jax.tree.structure(named(library, layers))

    moved = [w + 0.1 for w in layers]
    value, slope = jax.jit(
        lambda params: jax.value_and_grad(log_posterior, 1)(
            door.posterior, params, all_rows(door.data)
        )
    )(named(library, moved))
    expected, slopes = jax.jit(jax.value_and_grad(lambda w: by_hand(w, y, loglik, 2.0)))(moved)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for here, there in zip(
        jax.tree.leaves(slope), jax.tree.leaves(named(library, slopes)), strict=True
    ):
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-12)


def test_the_noise_is_a_parameter_beside_the_layers():
    layers, y = weights(1), RNG.normal(size=7)
    door = problem("equinox", layers, (X, y), "normal")
    start = np.sqrt(np.mean((outputs_of(layers)[:, 0] - y) ** 2))
    np.testing.assert_allclose(door.init["log_scale"], np.log(start))
    params = {**door.init, "log_scale": jnp.asarray(-0.3)}
    value = log_posterior(door.posterior, params, all_rows(door.data))
    expected = by_hand(layers, y, lambda f, y: norm.logpdf(y, f[0], np.exp(-0.3)), 1.0)
    np.testing.assert_allclose(value, expected + norm.logpdf(-0.3, 0, 3), rtol=1e-12)


def test_a_prior_and_a_likelihood_of_ones_own():
    layers = weights(2)

    def prior(params):
        assert set(params) == {"first", "second"}
        return -jnp.sum(jnp.abs(params["second"]["w"]))

    def likelihood(output, y):
        return -jnp.sum(jnp.abs(output - y))

    y = RNG.normal(size=7)
    door = problem("haiku", layers, (X, y), likelihood, prior=prior)
    value = log_posterior(door.posterior, door.init, all_rows(door.data))
    expected = -np.abs(layers[2]).sum() - np.abs(outputs_of(layers) - y[:, None]).sum()
    np.testing.assert_allclose(value, expected, rtol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_equal_networks_are_equal_posteriors(library):
    """So that sampling again with equal shapes does not compile again."""
    y = RNG.integers(0, 2, 7)
    one, other = (problem(library, weights(2), (X, y), "categorical") for _ in range(2))
    assert one.posterior == other.posterior
    assert hash(one.posterior) == hash(other.posterior)
    assert one.posterior != problem(library, weights(3), (X, y), "categorical").posterior


def test_fresh_parameters_differ_between_chains():
    door = vr.from_flax(Linen(2), (X, RNG.integers(0, 2, 7)), "categorical")
    one, other = (door.init(jax.random.key(seed)) for seed in (0, 1))
    assert jax.tree.structure(one) == jax.tree.structure(named("linen", weights(2)))
    assert not np.array_equal(one["first"]["kernel"], other["first"]["kernel"])
    again = vr.from_flax(Linen(2), door.data, "categorical")
    assert (again.init, again.posterior) == (door.init, door.posterior)


def test_a_module_that_holds_its_weights_can_be_made_afresh():
    data = (X, RNG.integers(0, 2, 7))
    door = vr.from_equinox(mlp(jax.random.key(0)), data, "categorical", fresh=mlp)
    start = door.init(jax.random.key(3))
    np.testing.assert_array_equal(
        door.module(start).layers[1].weight, mlp(jax.random.key(3)).layers[1].weight
    )


def mlp(key):
    return eqx.nn.MLP(3, 2, 4, 1, key=key)
