"""The exact laws against closed forms, limits and reductions; and messages.

`test_exact_enumerated.py` compares them with brute force.
"""

import math

import numpy as np
import pytest
from support.plain_samplers import (
    FULL,
    INDEPENDENT,
    INTEGRATORS,
    MINIBATCH,
    SAGA,
    SVRG,
    describe,
    label,
    practical,
    regression,
    sgld,
    splitting,
)

from vrsgmcmc.theory import gaussian_mean, linear_regression, stationary
from vrsgmcmc.theory.exact.affine import fixed_point
from vrsgmcmc.theory.exact.chains import chain
from vrsgmcmc.theory.exact.draws import resolve

STANDARD = linear_regression(np.zeros((1, 1)), [0.0])  # no data, prior N(0, 1): U = theta^2 / 2


def variance(problem, estimator, integrator, h, **orders):
    return stationary(problem, estimator, integrator, step_size=h, **orders).covariance[0, 0]


@pytest.mark.parametrize("temperature", [1.0, 0.25, 0.0])
@pytest.mark.parametrize("h", [0.01, 0.3, 1.5])
def test_standard_quadratic(h, temperature):
    T = temperature
    exact = {
        "sgld": T / (1 - h / 2),
        "BAOAB": T,
        "ABOBA": T,
        "BAOA": T,
        "OBABO": T / (1 - h**2 / 4),
    }
    for word, value in exact.items():
        integrator = sgld(T) if word == "sgld" else splitting(word, temperature=T)
        assert variance(STANDARD, FULL, integrator, h) == pytest.approx(value, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize(
    ("word", "block", "exact"), [("OBABO", "x", 1), ("UBU", "x", 1), ("ABOBA", "p", 1)]
)
def test_order_two_on_the_quadratic(word, block, exact):
    steps = 2.0 ** -np.arange(2, 7)
    errors = []
    for h in steps:
        cycle = chain(STANDARD, resolve(STANDARD, FULL, splitting(word), h, None, "", ""))
        moment = fixed_point(cycle.maps, cycle.carry)[0, 0]
        select = cycle.select[block]
        errors.append(abs((select @ moment @ select.T)[0, 0] - exact))
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(2, abs=0.05)


def gaussian(size=1000, spread=0.95, seed=0):
    data = np.random.default_rng(seed).normal(size=size)
    return gaussian_mean((data - data.mean()) / data.std(ddof=1) * math.sqrt(spread) + 1.0)


def sweep_variance(*, a, size, spread, count, period):
    """Shuffled blocks of `count`, each used for `period` steps, averaged over the sweep; in units
    of the posterior's variance. period = 1: minibatches; else: anchors."""
    h, q, blocks = a / (size + 1), 1 - a, size // count
    covariance = size * spread * (size / count * np.eye(blocks) - 1)

    def error_effect(j):
        """The effect of an error that stays for j steps."""
        return h * (1 - q**j) / a

    def added(block, j):
        effect = np.zeros(blocks)
        effect[:block] = q**j * error_effect(period) * q ** (period * np.arange(block)[::-1])
        effect[block] = error_effect(j)
        noise = 2 * h * (1 - q ** (2 * (block * period + j))) / (1 - q**2)
        return effect @ covariance @ effect + noise

    whole = blocks * period
    begin = added(blocks - 1, period) / (1 - q ** (2 * whole))
    phases = [
        q ** (2 * (block * period + j)) * begin + added(block, j)
        for block in range(blocks)
        for j in range(1, period + 1)
    ]
    return np.mean(phases) * (size + 1)


def anchor_variance(*, a, size, spread, count, period):
    """Independent anchors of `count` data, each for `period` steps: the closed form of the theory."""
    h, q = a / (size + 1), 1 - a
    V = size * (size - count) * spread / count
    j = np.arange(1, period + 1)
    A = h**2 * V * ((1 - q**j) / a) ** 2 + 2 * h * (1 - q ** (2 * j)) / (1 - q**2)
    v = A[-1] / (1 - q ** (2 * period))
    return np.mean(q ** (2 * j) * v + A) * (size + 1)


MEASURED = {  # excess over the posterior's variance, N = 1000, S2 = 0.95, as first measured
    0.002: (0.0, 0.08, 0.03, 0.08, 0.0, 0.0),
    0.01: (0.01, 0.50, 0.15, 0.46, 0.11, 0.13),
    0.05: (0.03, 2.4, 0.8, 1.9, 1.7, 1.4),
    0.2: (0.11, 10.5, 3.5, 5.3, 9.9, 4.9),
    0.5: (0.34, 31.7, 10.6, 7.8, 31.0, 7.6),
}


@pytest.mark.parametrize("a", MEASURED)
def test_excess_variance_of_the_gaussian_model(a):
    problem, h, facts = gaussian(), a / 1001, dict(a=a, size=1000, spread=0.95)
    algorithm = practical(100, 10)
    excess = [
        variance(problem, estimator, sgld(), h, **orders) * 1001 - 1
        for estimator, orders in (
            (FULL, {}),
            (MINIBATCH, dict(batch_size=10)),
            (MINIBATCH, dict(batch_size=30)),
            (algorithm, dict(batch_size=10)),
            (MINIBATCH, dict(batch_size=10, order="shuffled")),
            (algorithm, dict(batch_size=10, anchor_order="shuffled")),
        )
    ]
    closed = [
        1 / (1 - a / 2),
        anchor_variance(**facts, count=10, period=1),
        anchor_variance(**facts, count=30, period=1),
        anchor_variance(**facts, count=100, period=10),
        sweep_variance(**facts, count=10, period=1),
        sweep_variance(**facts, count=100, period=10),
    ]
    np.testing.assert_allclose(excess, np.array(closed) - 1, rtol=1e-8, atol=1e-9)
    # The table was measured by sampling: its small entries carry an error of about 0.02.
    np.testing.assert_allclose(excess, MEASURED[a], rtol=0.1, atol=0.025)


def test_minibatch_noise_with_and_without_replacement():
    problem, a, n = gaussian(), 0.1, 20
    h, q = a / 1001, 1 - a
    for order, V in zip(INDEPENDENT, (1000 * 999 / n, 1000 * 980 / n), strict=True):
        value = variance(problem, MINIBATCH, sgld(0.5), h, batch_size=n, order=order)
        assert value == pytest.approx((h + h**2 * V * 0.95) / (1 - q**2), rel=1e-9)


@pytest.mark.parametrize("integrator", ["sgld", "sghmc", "BAOAB", "UBU"])
def test_temperature_adds_to_the_gradient_noise(integrator):
    problem = regression(6, 2)

    def law(estimator, T):
        if integrator == "sgld":
            return stationary(problem, estimator, sgld(T), step_size=0.02, batch_size=2)
        dynamics = splitting(integrator, temperature=T)
        if integrator == "sghmc":
            dynamics = describe("sghmc", friction=1.3, temperature=T)
        return stationary(problem, estimator, dynamics, step_size=0.04, batch_size=2)

    hot, warm, cold = (law(MINIBATCH, T) for T in (1.0, 0.25, 0.0))
    expected = cold.covariance + (hot.covariance - cold.covariance) / 4
    np.testing.assert_allclose(warm.covariance, expected, rtol=1e-9)
    assert np.linalg.eigvalsh(cold.covariance)[0] > 0
    np.testing.assert_allclose(hot.mean, problem.posterior()[0], rtol=1e-9)
    hot, warm, cold = (law(FULL, T).covariance for T in (1.0, 0.25, 0.0))
    np.testing.assert_allclose(4 * warm, hot, rtol=1e-9)
    np.testing.assert_allclose(cold, 0, atol=1e-12)


@pytest.mark.parametrize("integrator", INTEGRATORS, ids=label)
def test_reductions(integrator):
    problem = regression(7, 2)
    h = 0.01 if integrator.name == "sgld" else 0.05

    def law(estimator, batch_size, **orders):
        return stationary(
            problem, estimator, integrator, step_size=h, batch_size=batch_size, **orders
        )

    def agree(one, other):
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-9)
        np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-9)

    exact = law(FULL, None)
    for estimator in (MINIBATCH, SAGA, SVRG, describe("control_variate", center=None)):
        agree(law(estimator, 7, order="shuffled"), exact)
    for order in ("symmetric", "with_replacement"):  # all data are visited once, whatever is asked
        agree(law(practical(7, 3), 2, anchor_order=order), law(SVRG, 2))
    agree(law(describe("svrg", period=None), 3), law(SVRG, 3))
    if not hasattr(integrator, "word"):  # the gradient is at the anchor itself
        agree(law(describe("svrg", period=1), 2), exact)


def test_stability_is_decided_exactly():
    variance(STANDARD, FULL, sgld(), 1.999)
    with pytest.raises(ValueError, match="smaller step_size"):
        variance(STANDARD, FULL, sgld(), 2.001)
    with pytest.raises(ValueError, match="positive friction"):
        variance(STANDARD, FULL, splitting("BAOAB", friction=0.0), 0.1)
    # One datum at a time: stable if and only if E[(1 - h a)^2] < 1, long after the mean is.
    problem = regression(5, 1)
    a = 1 / problem.prior_variance + 5 * problem.features[:, 0] ** 2 / problem.noise_variance
    edge = 2 * a.mean() / (a**2).mean()
    assert edge < 2 / a.mean()
    variance(problem, MINIBATCH, sgld(), 0.999 * edge, batch_size=1)
    with pytest.raises(ValueError, match="no stationary law"):
        variance(problem, MINIBATCH, sgld(), 1.001 * edge, batch_size=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(integrator=describe("psgld", temperature=1.0)), "'psgld' has no closed law"),
        (dict(integrator=describe("ito")), "'ito' has no closed law.*pass that one"),
        (dict(integrator=splitting("ABABA")), "'ABABA' is not one gradient per step.*BAOAB"),
        (dict(integrator=splitting("AOA")), "'AOA' is not one gradient per step"),
        (dict(integrator=splitting("BXA")), "'BXA' is not one gradient per step"),
        (dict(estimator=describe("momentum")), "'momentum' has no closed law; known: full"),
        (dict(order="shuffled"), "minibatch with order='shuffled' has no closed law"),
        (dict(estimator=SAGA, order="symmetric"), "saga with order='symmetric' has no closed law"),
        (
            dict(estimator=practical(4, 2), anchor_order="shuffled"),
            "practical with anchor_order='shuffled' has no closed law.*at most 5 data .got 8.",
        ),
        (dict(order="random"), "unknown order 'random'; choose one of with_replacement"),
        (dict(batch_size=None), "batch_size must be between 1 and the number of data, 8, got None"),
        (dict(batch_size=9), "batch_size must be between 1 and the number of data, 8, got 9"),
        (dict(estimator=practical(0, 2)), "anchor_size must be between 1"),
        (dict(step_size=0.0), "step_size must be positive, got 0.0"),
        (dict(estimator=practical(4, 2, 70)), "second moments of 141 coordinates, more than 64"),
    ],
)
def test_messages(change, message):
    call = dict(estimator=MINIBATCH, integrator=sgld(), step_size=0.01, batch_size=2) | change
    with pytest.raises(ValueError, match=message):
        stationary(regression(8, 2), call.pop("estimator"), call.pop("integrator"), **call)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="reshape a single feature to"):
        linear_regression(np.zeros(3), np.zeros(3))
