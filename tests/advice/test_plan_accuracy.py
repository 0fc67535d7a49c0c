"""Whole plans: real runs have the predicted error and stay within the budget."""

import time
from datetime import timedelta

import jax.numpy as jnp
import numpy as np
import pytest
from support.linear_plan import DATA, MEAN, POSTERIOR, SIZE, START, VARIANCES, moments, scores

import vrsgmcmc as vr


def check(posterior, data, plan, mean, variances, groups=64, factor=1.5):
    """Run the plan once, and then many times to measure its error."""
    result = vr.sample(1, posterior, data, plan.init, **plan, keep="averages", progress=False)
    assert not result.diverged.any()
    assert result.evaluations + plan.pilot <= plan.budget
    result = vr.sample(
        2,
        posterior,
        data,
        plan.init,
        **{**plan, "num_chains": groups * plan.num_chains},
        keep="averages",
        observables=moments(mean),
        progress=False,
    )
    each = scores(result, plan.num_chains, mean, variances)
    assert 1 / factor < each.mean() / plan.score < factor


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "num_chains"), [("40 passes", 1), ("400 passes", 4)])
@pytest.mark.parametrize("name", ["gaussian", "linear", "logistic"])
def test_plans(name, budget, num_chains):
    if name == "gaussian":
        posterior, data = vr.models.gaussian.posterior(), np.random.default_rng(1).normal(size=700)
        mean, variance = vr.models.gaussian.exact(data)
        mean, variances, start = np.atleast_1d(mean), np.atleast_1d(variance), jnp.zeros(1)
        data = data[:, None]
    elif name == "linear":
        posterior, data, mean, variances, start = POSTERIOR, DATA, MEAN, VARIANCES, START
    else:
        posterior, data, start = vr.models.logistic.posterior(), logistic_data(), jnp.zeros(3)
        mean, variances = by_quadrature(*data)
    plan = vr.plan(posterior, data, start, budget=budget, num_chains=num_chains)
    check(posterior, data, plan, mean, variances)


def logistic_data():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(500, 3)) * [1.0, 0.7, 0.5]
    return x, (rng.uniform(size=500) < 1 / (1 + np.exp(-x @ [1.0, -0.5, 0.3]))).astype(int)


def by_quadrature(x, y):
    """Posterior means and variances on a grid of 41^3 points around the mode."""
    signed, mode = np.where(y[:, None] == 1, x, -x), np.zeros(3)
    for _ in range(20):
        p = 1 / (1 + np.exp(signed @ mode))
        precision = np.eye(3) + (signed * (p * (1 - p))[:, None]).T @ signed
        mode = mode + np.linalg.solve(precision, signed.T @ p - mode)
    nodes = np.stack(np.meshgrid(*[np.linspace(-6, 6, 41)] * 3, indexing="ij"), -1).reshape(-1, 3)
    points = mode + nodes @ np.linalg.inv(np.linalg.cholesky(precision))
    height = -np.logaddexp(0, -points @ signed.T).sum(1) - np.sum(points**2, 1) / 2
    weight = np.exp(height - height.max())
    weight /= weight.sum()
    mean = weight @ points
    return mean, weight @ (points - mean) ** 2


@pytest.mark.slow
def test_targets():
    cheapest = vr.plan(POSTERIOR, DATA, START, target=0.01)
    assert 0.5 * 0.01 < cheapest.score <= 0.01
    check(POSTERIOR, DATA, cheapest, MEAN, VARIANCES)
    within = vr.plan(POSTERIOR, DATA, START, budget="5000 passes", target=0.01)
    assert within.score <= 0.01
    assert within.budget < 2 * cheapest.budget
    short = vr.plan(POSTERIOR, DATA, START, budget="60 passes", target=1e-4)
    assert short.budget == 60 * SIZE
    assert short.note == "The target C = 0.0001 is out of reach for this budget."


@pytest.mark.slow
def test_seconds():
    with pytest.raises(ValueError, match=r"planning alone took .* s\. Give more time"):
        vr.plan(POSTERIOR, DATA, START, budget="0.01 s")
    began = time.monotonic()
    plan = vr.plan(POSTERIOR, DATA, START, budget=timedelta(seconds=120))
    took = time.monotonic() - began
    assert took < 120
    result = vr.sample(1, POSTERIOR, DATA, plan.init, **plan, keep="averages", progress=False)
    assert result.evaluations + plan.pilot == pytest.approx(plan.budget, rel=0.01)
    # the plan times minibatches; a datum of the full gradient costs less
    assert 0.05 * (120 - took) < result.seconds < 2 * (120 - took)


@pytest.mark.slow
def test_a_misleading_mode():
    """A flat top with steep sides: the curvature at the mode is far less than that around it."""

    def logprior(x):
        return -0.5e-2 * jnp.sum(x**2)

    def loglik(x, datum):
        return -datum * jnp.sum(x**2 / 2 + (x / 0.2) ** 4)

    posterior, data = vr.Posterior(logprior, loglik), np.linspace(0.5, 1.5, 300)
    plan = vr.plan(posterior, data, jnp.full(2, 0.1), budget="100 passes")
    assert "a trial went further out than the model predicts" in plan.note
    assert str(plan).endswith(plan.note)
    result = vr.sample(1, posterior, data, plan.init, **plan, keep="averages", progress=False)
    assert not result.diverged.any()
    assert result.evaluations + plan.pilot <= plan.budget
