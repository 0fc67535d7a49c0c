"""The metric where the mode misleads: as in hierarchical models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc import run
from vrsgmcmc.advice.auto import adapt
from vrsgmcmc.advice.auto.site import Site

RNG = np.random.default_rng(7)
X = RNG.normal(size=(300, 3))
LABELS = (RNG.random(300) < 0.5).astype(float)
DATA = jnp.asarray(X), jnp.asarray(LABELS)
GLM = vr.glm("bernoulli")
GROUPS, ROWS = 40, 4000


def hierarchy():
    group = RNG.integers(GROUPS, size=ROWS)
    effect = 0.7 * RNG.normal(size=GROUPS)
    y = RNG.random(ROWS) < 1 / (1 + np.exp(-effect[group]))
    posterior = vr.Posterior(
        loglik=lambda p, row: (
            -jax.nn.softplus((1 - 2 * row[1]) * (p["mu"] + jnp.exp(p["log_tau"]) * p["z"][row[0]]))
        ),
        logprior=lambda p: -(jnp.sum(p["z"] ** 2) + p["mu"] ** 2 + p["log_tau"] ** 2) / 2,
    )
    start = {"mu": jnp.zeros(()), "log_tau": jnp.zeros(()), "z": jnp.zeros(GROUPS)}
    return posterior, (group, y.astype(float)), start


def test_a_gaussian_fits_itself():
    posterior, data = vr.glm("gaussian"), (jnp.asarray(X), jnp.asarray(X.sum(1)))
    mode = run.locate_mode(posterior, data, jnp.zeros(3))
    site = Site(posterior, data, mode.params, mode.metric)
    assert adapt.misfit(site, jax.random.key(0)) < 0.1
    wide = site._replace(metric=vr.core.Dense(mode.metric.center, 3 * mode.metric.factor))
    assert adapt.misfit(wide, jax.random.key(0)) > adapt.MISFIT


@pytest.mark.parametrize("declared", [True, False])
def test_a_metric_of_the_mean_curvature(declared):
    posterior = GLM if declared else vr.Posterior(GLM.logprior, GLM.loglik)
    points = RNG.normal(size=(4, 3))
    metric, evaluations = run.mean_metric(posterior, DATA, jnp.asarray(points))
    expected = np.zeros((3, 3))
    for x in points:
        p = 1 / (1 + np.exp(-X @ x))
        weights = p * (1 - p) if declared else (LABELS - p) ** 2
        expected += (X.T * weights) @ X / 4 - np.asarray(jax.hessian(GLM.logprior)(x)) / 4
    covariance = np.asarray(metric.factor @ metric.factor.T)
    np.testing.assert_allclose(covariance, np.linalg.inv(expected), rtol=1e-6)
    np.testing.assert_allclose(metric.center, points.mean(0))
    assert evaluations == 4 * 300


def test_a_metric_needs_a_positive_curvature():
    saddle = vr.Posterior(lambda x: x[0] ** 2 - x[1] ** 2, lambda x, t: 0.0 * t * x[0])
    assert run.mean_metric(saddle, jnp.ones(50), jnp.zeros((2, 2)))[0] is None


@pytest.mark.slow
def test_a_hierarchy_is_right():
    posterior, data, start = hierarchy()
    result = vr.sample(0, posterior, data, start, ess=1000, progress=False)
    assert result.settings["integrator"].name == "nuts"
    assert adapt.NOTE in result.decision.notes
    assert result.accuracy().good
    options = {"integrator": vr.nuts(warm_up=500), "metric": None, "progress": False}
    plain = vr.sample(1, posterior, data, start, ess=1000, **options)
    for ours, theirs in zip(*map(jax.tree.leaves, (result.draws, plain.draws)), strict=True):
        ours, theirs = (
            np.asarray(each, float).reshape(-1, *each.shape[2:]) for each in (ours, theirs)
        )
        assert np.all(np.abs(ours.mean(0) - theirs.mean(0)) < 0.2 * theirs.std(0))
        assert np.all(np.abs(ours.std(0) / theirs.std(0) - 1) < 0.15)


@pytest.mark.slow
def test_a_budget_is_kept():
    posterior, data, start = hierarchy()
    result = vr.sample(0, posterior, data, start, budget="30000 passes", progress=False)
    assert result.total_passes <= 1.1 * 30_000
    assert result.decision.evaluations <= 0.16 * 30_000 * ROWS
