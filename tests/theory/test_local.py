"""The local Gaussian model of a posterior: against closed forms."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.local_models import REGRESSIONS, linear_model

import vrsgmcmc as vr
from vrsgmcmc.theory import local
from vrsgmcmc.theory.forecast.local import LARGEST

TASK = REGRESSIONS["three"]
DATA = (jnp.asarray(TASK.features), jnp.asarray(TASK.targets))
POSTERIOR = vr.models.linear.posterior()


def assert_equal_models(one, other, rtol=1e-9):
    np.testing.assert_allclose(one.center, other.center, rtol=rtol)
    np.testing.assert_allclose(one.curvature, other.curvature, rtol=rtol)
    flip = np.sign(np.sum(one.directions * other.directions, 0))
    np.testing.assert_allclose(one.directions * flip, other.directions, atol=1e-7)
    turned = flip[:, None] * one.covariance * flip
    np.testing.assert_allclose(turned, other.covariance, rtol=1e-6, atol=1e-9)
    for name in ("likelihood_curvature", "spread", "variances"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6)


def test_local_against_closed_forms():
    mean, covariance = TASK.posterior()
    result = local(POSTERIOR, DATA, jnp.asarray(mean))
    assert_equal_models(result, linear_model(TASK))
    np.testing.assert_allclose(result.variances, np.diagonal(covariance), rtol=1e-9)
    assert result.size == 150
    assert result.evaluations == 150 * (1 + 2 * 3)


def test_local_in_parts(monkeypatch):
    whole = local(POSTERIOR, DATA, jnp.zeros(3))
    module = importlib.import_module("vrsgmcmc.theory.forecast.local")
    monkeypatch.setattr(module, "HESSIAN_NUMBERS", 9 * 64)  # parts of 64, 64 and 22 rows
    assert_equal_models(local(POSTERIOR, DATA, jnp.zeros(3)), whole)


def test_local_on_a_sample():
    whole = local(POSTERIOR, DATA, jnp.zeros(3))
    assert_equal_models(local(POSTERIOR, DATA, jnp.zeros(3), rows=150), whole)
    assert_equal_models(local(POSTERIOR, DATA, jnp.zeros(3), rows=10_000), whole)
    index = np.sort(np.random.default_rng(7).choice(150, 60, replace=False))
    some = local(POSTERIOR, DATA, jnp.zeros(3), rows=60, seed=7)
    alone = local(POSTERIOR, jax.tree.map(lambda leaf: leaf[index], DATA), jnp.zeros(3))
    assert some.size == 150
    assert some.evaluations == 60 * 7
    inside, outside = (m.directions @ m.covariance @ m.directions.T for m in (some, alone))
    np.testing.assert_allclose(inside, outside, rtol=1e-9)
    # the likelihood's part of the precision stands for all 150 data
    precisions = [m.directions * m.curvature @ m.directions.T - np.eye(3) for m in (some, alone)]
    np.testing.assert_allclose(precisions[0], 150 / 60 * precisions[1], rtol=1e-9)
    assert not np.array_equal(
        some.covariance, local(POSTERIOR, DATA, jnp.zeros(3), rows=60).covariance
    )


def test_local_of_a_tree_and_of_few_data():
    def loglik(params, datum):
        x, y = datum
        return -0.5 * (y - x @ params["weight"] - params["bias"]) ** 2

    def logprior(params):
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    params = {"weight": jnp.zeros(2), "bias": jnp.zeros(())}
    data = (DATA[0][:, :2], DATA[1])
    result = local(vr.Posterior(logprior, loglik), data, params)
    ones = jnp.ones((150, 1))
    flat = local(POSTERIOR, (jnp.concatenate([ones, data[0]], 1), data[1]), jnp.zeros(3))
    assert_equal_models(result, flat)  # leaves in the order of their names: bias, weight


def test_local_of_data_that_are_seen_at_random():
    """Gradient and Hessian of a datum are of the same look at it: both by the one key that it has."""

    def loglik(params, datum):
        (x, y), key = datum
        return jnp.where(jax.random.bernoulli(key), POSTERIOR.loglik(params, (x, y)), 0.0)

    hidden = vr.Posterior(POSTERIOR.logprior, loglik, lambda key, item: (item, key))
    result = local(hidden, DATA, jnp.zeros(3))
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(150))
    mask = np.asarray(jax.vmap(jax.random.bernoulli)(keys))
    assert 50 < mask.sum() < 100
    data = jax.tree.map(lambda leaf: mask.reshape(-1, *[1] * (leaf.ndim - 1)) * leaf, DATA)
    assert_equal_models(result, local(POSTERIOR, data, jnp.zeros(3)))  # of zeros nothing is learnt


def test_local_at_states_has_the_noise_that_a_chain_meets():
    """S + C E(x - c)^2 is the mean covariance of the rows' gradients; at the centre nothing changes."""
    rng = np.random.default_rng(3)
    x = jnp.asarray(rng.normal(size=(120, 2)))
    data = x, jnp.asarray(rng.poisson(np.exp(np.asarray(x) @ [0.5, -0.3])))
    posterior, center = vr.glm("poisson"), jnp.array([0.5, -0.3])
    states = jnp.asarray(np.array([0.5, -0.3]) + 0.2 * rng.normal(size=(4, 2)))
    model = local(posterior, data, center, states=states)
    gradients = jax.vmap(jax.vmap(jax.grad(posterior.loglik), (None, 0)), (0, None))(states, data)
    turned = np.asarray(gradients, float) @ model.directions
    expected = np.mean([np.cov(each.T) for each in turned], 0)
    squares = np.mean(((np.asarray(states) - np.asarray(center)) @ model.directions) ** 2, 0)
    np.testing.assert_allclose(
        np.diagonal(model.covariance) + model.spread @ squares, np.diagonal(expected), rtol=1e-6
    )
    there = jnp.broadcast_to(center, (4, 2))
    at_center = local(posterior, data, center)
    assert_equal_models(local(posterior, data, center, states=there), at_center)
    assert model.evaluations == 5 * at_center.evaluations


def test_local_knows_its_limit():
    wide = LARGEST + 1
    data = (jnp.ones((4, wide)), jnp.ones(4))
    with pytest.raises(ValueError, match="Hessian of 513 parameters, more than 512"):
        local(POSTERIOR, data, jnp.zeros(wide))


def test_curvature_stays_positive():
    """At a saddle of the likelihood, the prior's curvature is the least."""

    def loglik(x, datum):
        return 0.5 * datum * x[0] ** 2 - 0.5 * x[1] ** 2

    def logprior(x):
        return -0.5 * jnp.sum(x**2)

    result = local(vr.Posterior(logprior, loglik), jnp.ones(9), jnp.zeros(2))
    np.testing.assert_allclose(np.sort(result.curvature), [1.0, 10.0])
    assert result.unresolved == 1


def test_scales_of_parameters_do_not_matter():
    """A floor of 1e-6 times the largest curvature made the first sd 100 times too small."""
    scales = np.array([1e-4, 1.0, 1e4])
    features, targets = np.asarray(DATA[0]) * scales, DATA[1]
    precision = features.T @ features + np.eye(3)
    result = local(POSTERIOR, (jnp.asarray(features), targets), jnp.zeros(3))
    assert result.unresolved == 0
    np.testing.assert_allclose(result.variances, np.diagonal(np.linalg.inv(precision)), rtol=1e-6)


def test_directions_without_curvature_are_counted():
    """Two equal features and no prior: the difference of their weights is not known."""
    flat = vr.Posterior(lambda x: 0.0, POSTERIOR.loglik)
    features = jnp.concatenate([DATA[0], DATA[0][:, :1]], 1)
    result = local(flat, (features, DATA[1]), jnp.zeros(4))
    assert result.unresolved == 1
    assert np.all(result.curvature > 0)
