"""Forecasts of a run: each part against brute force, the result against the exact laws."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from support.local_models import (
    REGRESSIONS,
    WORDS,
    gaussian_model,
    integrators,
    linear_model,
    step_for,
    well_posed,
)
from support.plain_samplers import describe, regression

import vrsgmcmc as vr
from vrsgmcmc.core import Sampler
from vrsgmcmc.theory import forecast, gaussian_mean, linear_regression, response, stationary
from vrsgmcmc.theory.exact.schemes import scheme
from vrsgmcmc.theory.forecast.forecast import errors
from vrsgmcmc.theory.noise import all_lags, one_step

SWEEPS = ("shuffled", "symmetric")
ORDERS = ("without_replacement", "with_replacement", *SWEEPS)
SIZE = 13  # not a multiple of the batch size, nor of the anchor size
MEANS = np.random.default_rng(0).normal(0.7, 1.0, SIZE)
ESTIMATORS = {
    "full": vr.full(),
    "minibatch": vr.minibatch(),
    "practical": vr.practical(5, 4),
    "svrg": vr.svrg(5),
    "control_variate": vr.control_variate(),
}


@pytest.mark.parametrize("name", ["sgld", "leimkuhler_matthews", "sghmc", *WORDS])
def test_gaussian_model_is_exact(name):
    """Hessians do not vary, so nothing is approximated: every estimator and order that has a law."""
    problem, model = gaussian_mean(MEANS), gaussian_model(MEANS)
    integrator = integrators(SIZE + 1.0, 0.8)[name]
    stable = (0.02, 1.2) if name != "sghmc" else (0.02, 0.3)
    steps = [step_for(integrator, a, SIZE + 1.0) for a in stable]
    for estimator, orders in (
        ("full", [{}]),
        ("minibatch", [{"order": order} for order in ORDERS]),
        ("practical", [{"order": order, "anchor_order": order} for order in ORDERS]),
        ("svrg", [{"order": order} for order in ORDERS]),
        ("control_variate", [{"order": order} for order in ORDERS]),
    ):
        for order in orders:
            settings = dict(batch_size=3, **order)
            there = forecast(model, ESTIMATORS[estimator], integrator, steps, **settings)
            for i, h in enumerate(steps):
                law = stationary(
                    problem, ESTIMATORS[estimator], integrator, step_size=h, **settings
                )
                assert there.variances[i] == pytest.approx(law.covariance[0], rel=1e-6)
                expected = law.covariance[0] / (0.8 * model.variances) - 1
                assert there.inflation[i] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_an_anchor_of_all_data_is_that_of_svrg():
    model = gaussian_model(MEANS)
    for order in ORDERS:
        settings = dict(batch_size=3, order="without_replacement", anchor_order=order)
        one = forecast(model, vr.practical(SIZE, 5), vr.sgld(), [0.01], **settings)
        other = forecast(model, vr.svrg(5), vr.sgld(), [0.01], **settings)
        assert one.variances[0] == pytest.approx(other.variances[0], rel=1e-12)


ONE = well_posed(np.ones(1), size=12, seed=5)


@pytest.mark.parametrize("average", [1, 2, 5, 12])
@pytest.mark.parametrize("period", [1, 4, 10])
def test_an_anchor_that_is_a_mean_of_positions(period, average):
    """Distance and noise from the covariances of all positions at once, written out."""
    model, method = linear_model(ONE), vr.practical(8, period, average)
    h = 0.3 / model.curvature[0]
    filter = response(vr.sgld(), np.array([h]), model.curvature)
    (anchor, _), distance = errors(model, Sampler(method, vr.sgld(), h, 2), filter, filter.noise)
    times = np.arange(1 - average, period)
    covariance = np.abs(times[:, None] - times)
    covariance = (1 - 0.3) ** covariance * 2 * h / (1 - (1 - 0.3) ** 2)
    mean = (times <= 0) / average
    away = np.eye(len(times))[average - 1 :] - mean  # row j: x_{l+j} - x~
    expected = np.mean(np.diagonal(away @ covariance @ away.T))
    assert distance[0, 0] == pytest.approx(expected, rel=1e-9)
    noise = model.covariance + model.spread * (mean @ covariance @ mean)
    assert anchor.covariance[0] == pytest.approx(12 * 4 / 8 * noise, rel=1e-9)


def test_means_of_positions_in_the_exact_law():
    """With a new anchor at each step, where the phase has no part, nothing is approximated."""
    model = linear_model(ONE)
    h = 0.3 / model.curvature[0]
    result, exact = [], []
    for average in (1, 2, 5):
        method = vr.practical(8, 1, average)
        law = stationary(ONE, method, vr.sgld(), step_size=h, batch_size=2)
        exact.append(law.covariance[0, 0] / model.variances[0] - 1)
        result.append(forecast(model, method, vr.sgld(), [h], batch_size=2).inflation[0, 0])
    assert result == pytest.approx(exact, rel=1e-6)
    assert np.all(np.diff(exact) > 0.01)


@pytest.mark.parametrize("order", ORDERS[:2])
@pytest.mark.parametrize("name", ["sgld", "BAOAB", "UBU"])
def test_saga_on_the_gaussian_model(name, order):
    """Nearly exact: the time of a row's last draw depends a little on the position."""
    problem, model = gaussian_mean(MEANS), gaussian_model(MEANS)
    integrator = integrators(SIZE + 1.0)[name]
    for a in (0.02, 0.1, 0.3):
        h = step_for(integrator, a, SIZE + 1.0)
        settings = dict(batch_size=4, order=order)
        there = forecast(model, vr.saga(), integrator, [h], **settings).variances[0, 0]
        quiet, exact = (
            stationary(problem, e, integrator, step_size=h, **settings).covariance[0, 0]
            for e in (vr.full(), vr.saga())
        )
        # where the gradient is taken ahead of the position, that is not followed
        tolerance = 0.15 if name == "UBU" else 0.04
        assert there - quiet == pytest.approx(exact - quiet, rel=tolerance)
        assert exact - quiet > 0


@pytest.mark.parametrize("name", ["sgld", "BAOAB"])
@pytest.mark.parametrize("estimator", ["minibatch", "practical", "svrg", "control_variate"])
@pytest.mark.parametrize("problem", REGRESSIONS)
def test_linear_regression(problem, estimator, name):
    """Independent draws, Hessians that vary. The mean over the parameters, which audits and plans go
    by, is closer than single ones: errors that two directions have in common are left out."""
    problem = REGRESSIONS[problem]
    model, largest = linear_model(problem), linear_model(problem).curvature.max()
    method = {**ESTIMATORS, "practical": vr.practical(60, 10), "svrg": vr.svrg()}[estimator]
    integrator = vr.sgld()
    if name == "BAOAB":
        integrator = vr.splitting("BAOAB", 2 * math.sqrt(model.curvature.min()))
    for a in (0.02, 0.1, 0.3):
        h = step_for(integrator, a, largest)
        law = stationary(problem, method, integrator, step_size=h, batch_size=10)
        exact = np.diagonal(law.covariance) / model.variances - 1
        result = forecast(model, method, integrator, [h], batch_size=10).inflation[0]
        tolerance = 0.03 if name == "sgld" else 0.05
        assert result.mean() == pytest.approx(exact.mean(), rel=tolerance, abs=1e-3)
        np.testing.assert_allclose(result, exact, rtol=0.07, atol=0.003)


def test_a_centre_off_the_mode():
    """Its noise is that of the distance: twice a standard deviation makes it five times as much."""
    problem = REGRESSIONS["three"]
    model = linear_model(problem)
    mean, covariance = problem.posterior()
    h = 0.1 / model.curvature.max()
    result, exact = [], []
    for away in (0.0, 2.0, -4.0):
        centre = mean + away * np.sqrt(np.diagonal(covariance))
        method = vr.control_variate(jnp.asarray(centre))
        law = stationary(problem, method, vr.sgld(), step_size=h, batch_size=10)
        there = forecast(model, method, vr.sgld(), [h], batch_size=10)
        exact.append(np.diagonal(law.covariance) / model.variances - 1)
        result.append(there.inflation[0])
        assert there.drift[0] > 0
    np.testing.assert_allclose(result[0], exact[0], rtol=0.07)
    # what two directions of the offset have in common is left out
    np.testing.assert_allclose(np.mean(result, -1), np.mean(exact, -1), rtol=0.15)
    assert np.mean(exact[1]) > 1.5 * np.mean(exact[0])


def test_saga_on_linear_regression():
    problem = well_posed(np.array([1.0, 0.6]), size=40, seed=2)
    model = linear_model(problem)
    for a in (0.02, 0.1, 0.3):
        h = a / model.curvature.max()
        law = stationary(problem, vr.saga(), vr.sgld(), step_size=h, batch_size=10)
        exact = np.mean(np.diagonal(law.covariance) / model.variances - 1)
        result = forecast(model, vr.saga(), vr.sgld(), [h], batch_size=10).inflation[0].mean()
        assert result == pytest.approx(exact, rel=0.06)


@pytest.mark.parametrize("order", SWEEPS)
@pytest.mark.parametrize("estimator", ["minibatch", "svrg", "practical"])
def test_sweeps_over_data_that_differ(estimator, order):
    """Five data, whose permutations the exact law spells out; an independent draw is far off."""
    rng = np.random.default_rng(3)
    features = 1 + 0.3 * rng.normal(size=(5, 1))
    problem = linear_regression(features, features[:, 0] + rng.normal(size=5))
    model = linear_model(problem)
    method = {"minibatch": vr.minibatch(), "svrg": vr.svrg(), "practical": vr.practical(3, 5)}
    for a in (0.02, 0.1, 0.3):
        h = a / model.curvature[0]
        settings = dict(step_size=h, batch_size=1)
        quiet, exact, apart = (
            stationary(problem, e, vr.sgld(), **settings, order=o).covariance[0, 0]
            / model.variances[0]
            for e, o in (
                (vr.full(), order),
                (method[estimator], order),
                (method[estimator], "without_replacement"),
            )
        )
        there = forecast(model, method[estimator], vr.sgld(), [h], batch_size=1, order=order)
        assert 1 + there.inflation[0, 0] == pytest.approx(exact, rel=0.05, abs=0.006)
        assert quiet < 1 + there.inflation[0, 0] < apart


def test_noise_and_drift():
    problem = REGRESSIONS["three"]
    model = linear_model(problem)
    size, U, h = model.size, model.directions, 0.01 / model.curvature.max()
    for order in ORDERS:
        there = forecast(model, vr.minibatch(), vr.sgld(), [h], batch_size=10, order=order)
        covariance = there.variances[0]
        spread = model.spread @ (U.T**2 @ covariance)  # nearly: its cross terms are small
        plain = one_step(order, size, 10) * U @ (model.covariance + np.diag(spread)) @ U.T
        np.testing.assert_allclose(there.noise[0], plain, rtol=0.01)
        factor = all_lags(order, size, 10) / one_step(order, size, 10)
        np.testing.assert_allclose(there.quiet[0], factor * there.noise[0], atol=1e-9)
        assert there.drift[0] == 0
    full = forecast(model, vr.full(), vr.sgld(), [h], batch_size=10)
    assert not full.noise.any()
    assert not full.quiet.any()
    drifts = [
        float(forecast(model, vr.svrg(m), vr.sgld(), [h], batch_size=10).drift[0])
        for m in (1, 2, 20, 200)
    ]
    assert drifts[0] == pytest.approx(0, abs=1e-12)
    assert drifts == sorted(drifts)
    anchors = forecast(model, vr.practical(50, 8), vr.sgld(), [h], batch_size=10)
    assert np.trace(anchors.quiet[0]) == pytest.approx(8 * np.trace(anchors.noise[0]), rel=0.05)


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "saga"])
@pytest.mark.parametrize("name", ["sgld", "BAOAB"])
def test_unstable_steps_are_infinite(name, estimator):
    problem = regression(40, 2)
    model = linear_model(problem)
    method = {**ESTIMATORS, "saga": vr.saga()}[estimator]
    integrator = vr.sgld()
    if name == "BAOAB":
        integrator = vr.splitting("BAOAB", 2 * math.sqrt(model.curvature.min()))
    scaled = np.array([0.05, 0.2, 2.5, 5.0, 20.0, 1e4])
    if estimator == "full":
        scaled[2:] *= 2
    steps = [step_for(integrator, a, model.curvature.max()) for a in scaled]
    there = forecast(model, method, integrator, steps, batch_size=2, num_steps=100)
    for values in (there.variances, there.inflation, there.score, there.bias):
        assert np.isfinite(values[:2]).all()
        assert np.all(values[2:] == np.inf)
    assert np.all(there.variances[:2] > 0)


def test_noise_that_feeds_itself():
    """Each datum's Hessian counts: stable if and only if E(1 - h a)^2 < 1, long after the mean is."""
    problem = regression(5, 1)
    model = linear_model(problem)
    a = 1 / problem.prior_variance + 5 * problem.features[:, 0] ** 2 / problem.noise_variance
    edge = 2 * a.mean() / (a**2).mean()
    there = forecast(model, vr.minibatch(), vr.sgld(), [0.9 * edge, 1.1 * edge], batch_size=1)
    assert np.isfinite(there.variances).tolist() == [[True], [False]]


def test_unknown_estimators_are_refused():
    with pytest.raises(
        ValueError, match="nothing is known of the noise of 'momentum'; known: full"
    ):
        forecast(gaussian_model(MEANS), describe("momentum"), vr.sgld(), [0.01], batch_size=1)


def from_the_mode(mu, innovation, length):
    """Covariance of x_1, ..., x_L, x_0 = 0, x_l = mu x_{l-1} + N(0, innovation)."""
    l = np.arange(1, length + 1)
    first = np.minimum.outer(l, l)
    apart = np.abs(np.subtract.outer(l, l))
    return innovation * mu**apart * (1 - mu ** (2 * first)) / (1 - mu**2)


def exact_score(model, h, length, chains, extra=0.0):
    """C of all chains' averages, and its part due to bias: quadratic forms of Gaussians."""
    each = [from_the_mode(1 - h * c, 2 * h + h * h * extra, length) for c in model.curvature]
    count = chains * length
    centred = (np.eye(count) - 1 / count) / count  # x^T centred x is the variance of the draws
    scores = []
    for weights, expected in zip(model.directions**2, model.variances, strict=True):
        covariance = np.kron(np.eye(chains), np.tensordot(weights, each, 1))
        product = centred @ covariance
        bias = (np.trace(product) - expected) ** 2 / (4 * expected**2)
        mean = covariance.mean() / (2 * expected)
        scores.append([bias, bias + mean + np.sum(product * product.T) / (2 * expected**2)])
    return np.mean(scores, 0)


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("model", ["gaussian", "linear"])
def test_score_of_the_full_gradient(model, chains):
    local_model = {
        "gaussian": gaussian_model(MEANS),
        "linear": linear_model(REGRESSIONS["scaled"]),
    }[model]
    for a, length in itertools.product((0.02, 0.1, 0.5), (20, 60, 240)):
        h = a / local_model.curvature.max()
        bias, score = exact_score(local_model, h, length, chains)
        settings = dict(batch_size=1, num_steps=length, num_chains=chains)
        there = forecast(local_model, vr.full(), vr.sgld(), [h], **settings)
        assert there.bias[0] == pytest.approx(bias, rel=1e-7)  # holds the error of the mean, too
        settled = h * local_model.curvature.min() * length > 10
        assert there.score[0] == pytest.approx(score, rel=0.02 if settled else 0.1)


def test_score_with_gradient_noise():
    model = gaussian_model(MEANS)
    extra = float(one_step("without_replacement", SIZE, 4) * model.covariance[0, 0])
    for a, length in itertools.product((0.05, 0.3), (30, 200)):
        h = a / model.curvature[0]
        bias, score = exact_score(model, h, length, 1, extra)
        there = forecast(model, vr.minibatch(), vr.sgld(), [h], batch_size=4, num_steps=length)
        assert there.bias[0] == pytest.approx(bias, rel=1e-7)
        assert there.score[0] == pytest.approx(score, rel=0.1)


def momentum_score(integrator, h, curvature, length):
    """The same for dynamics with momenta, p_0 ~ N(0, 1), step by step."""
    parts = scheme(integrator, h)
    pull = parts.after.matrix - curvature * np.outer(parts.kick, [1, 0])
    step = pull @ parts.before.matrix
    noise = pull @ parts.before.covariance @ pull.T + parts.after.covariance
    state, covariance = np.diag([0.0, 1.0]), np.zeros((length, length))
    for l in range(length):
        state = step @ state @ step.T + noise
        later = state
        for k in range(l, length):
            covariance[l, k] = covariance[k, l] = later[0, 0]
            later = step @ later
    product = (np.eye(length) - 1 / length) / length @ covariance
    bias = (curvature * np.trace(product) - 1) ** 2 / 4
    return bias + curvature * covariance.mean() / 2 + curvature**2 * np.sum(product * product.T) / 2


@pytest.mark.parametrize("word", ["BAOAB", "UBU"])
def test_score_of_dynamics_with_momenta(word):
    model = gaussian_model(MEANS)
    curvature = float(model.curvature[0])
    for friction, a in itertools.product((1.0, 4.0), (0.1, 1.0)):
        integrator = vr.splitting(word, friction * math.sqrt(curvature))
        h = a / math.sqrt(curvature)
        there = forecast(model, vr.full(), integrator, [h], batch_size=1, num_steps=120)
        exact = momentum_score(integrator, h, curvature, 120)
        assert there.score[0] == pytest.approx(exact, rel=0.06)


def test_score_falls_with_steps_and_chains():
    model = linear_model(REGRESSIONS["scaled"])
    h = 0.05 / model.curvature.max()

    def scores(steps, chains):
        settings = dict(batch_size=10, num_steps=steps, num_chains=chains)
        return float(forecast(model, vr.svrg(), vr.sgld(), [h], **settings).score[0])

    along = [scores(steps, 1) for steps in (300, 1000, 3000, 10_000, 100_000)]
    assert along == sorted(along, reverse=True)
    across = [scores(1000, chains) for chains in (1, 2, 8, 64)]
    assert across == sorted(across, reverse=True)
    # so long that only the bias is left: that of the stationary law
    there = forecast(model, vr.svrg(), vr.sgld(), [h], batch_size=10, num_steps=10**11)
    bias = np.mean(there.inflation[0] ** 2) / 4
    assert there.score[0] == pytest.approx(bias, rel=1e-3)
    # one that never leaves the mode has variances 0: C = 1/4
    still = forecast(model, vr.full(), vr.sgld(), [1e-9 * h], batch_size=1, num_steps=10)
    assert still.score[0] == pytest.approx(0.25, rel=1e-3)
