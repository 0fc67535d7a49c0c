"""The exact laws against all minibatches, all permutations, and plain simulation."""

import math

import numpy as np
import pytest
from support.plain_samplers import (
    FULL,
    INDEPENDENT,
    INTEGRATORS,
    MINIBATCH,
    SAGA,
    SGHMC,
    SVRG,
    Enumeration,
    describe,
    label,
    practical,
    regression,
    sgld,
    simulate,
    splitting,
    subsets,
)

from vrsgmcmc.theory import gaussian_mean, stationary
from vrsgmcmc.theory.exact.affine import AffineMap, average_map, weights

ESTIMATORS = [
    FULL,
    MINIBATCH,
    SAGA,
    SVRG,
    practical(3, 2),
    describe("control_variate", center=[0.3, -0.2]),
]


def assert_enumerated(problem, estimator, integrator, h, **orders):
    law = stationary(problem, estimator, integrator, step_size=h, **orders)
    means, covariances = Enumeration(problem, estimator, integrator, h).law(**orders)
    repeats = len(law.phase_means) // len(means)
    assert len(law.phase_means) == repeats * len(means)
    np.testing.assert_allclose(law.phase_means, np.tile(means, (repeats, 1)), rtol=1e-9)
    np.testing.assert_allclose(
        law.phase_covariances, np.tile(covariances, (repeats, 1, 1)), rtol=1e-8, atol=1e-11
    )
    np.testing.assert_allclose(law.mean, means.mean(0), rtol=1e-9)
    centred = means - means.mean(0)
    total = covariances.mean(0) + centred.T @ centred / len(means)
    np.testing.assert_allclose(law.covariance, total, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("order", INDEPENDENT)
@pytest.mark.parametrize("integrator", INTEGRATORS, ids=label)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=label)
def test_independent_draws_against_all_minibatches(estimator, integrator, order):
    overdamped = integrator.name in ("sgld", "leimkuhler_matthews")
    h = 0.02 if overdamped else 0.12
    assert_enumerated(
        regression(4, 2), estimator, integrator, h, batch_size=2, order=order, anchor_order=order
    )


@pytest.mark.parametrize("integrator", [sgld(), splitting("ABOBA")], ids=label)
@pytest.mark.parametrize(("period", "average"), [(1, 2), (2, 3), (3, 2)])
def test_averaged_anchors_against_all_minibatches(period, average, integrator):
    estimator = practical(2, period, average)
    orders = dict(order="with_replacement", anchor_order="without_replacement")
    assert_enumerated(regression(3, 1), estimator, integrator, 0.04, batch_size=1, **orders)


@pytest.mark.parametrize("order", ["shuffled", "symmetric"])
@pytest.mark.parametrize("integrator", INTEGRATORS, ids=label)
def test_sweeps_of_the_gaussian_model_against_all_permutations(integrator, order):
    problem = gaussian_mean([0.3, -1.2, 2.0, 0.9, -0.4], noise_variance=0.8, prior_variance=3.0)
    orders = dict(order=order, anchor_order=order)
    assert_enumerated(problem, MINIBATCH, integrator, 0.1, batch_size=2, order=order)
    independent = dict(order="without_replacement", anchor_order=order)
    assert_enumerated(problem, practical(2, 2), integrator, 0.1, batch_size=1, **independent)
    law, same = (
        stationary(problem, practical(2, 2), integrator, step_size=0.1, batch_size=1, **choice)
        for choice in (independent, orders)
    )
    np.testing.assert_allclose(law.covariance, same.covariance, rtol=1e-12)


@pytest.mark.parametrize("order", ["shuffled", "symmetric"])
@pytest.mark.parametrize(
    ("estimator", "integrator", "batch_size", "anchor_order"),
    [
        (MINIBATCH, splitting("BAOAB"), 1, "without_replacement"),
        (MINIBATCH, splitting("ABOBA"), 2, "without_replacement"),
        (SAGA, sgld(), 1, "without_replacement"),
        (SAGA, splitting("UBU"), 2, "without_replacement"),
        (SAGA, SGHMC, 3, "without_replacement"),
        (describe("control_variate", center=0.4), SGHMC, 1, "without_replacement"),
        (describe("svrg", period=4), sgld(), 1, "without_replacement"),
        (practical(2, 2), sgld(), 1, "with_replacement"),
        (practical(2, 2), sgld(), 1, "as the minibatch"),
    ],
    ids=label,
)
def test_sweeps_of_a_regression_against_all_permutations(
    estimator, integrator, batch_size, anchor_order, order
):
    anchor_order = order if anchor_order == "as the minibatch" else anchor_order
    orders = dict(batch_size=batch_size, order=order, anchor_order=anchor_order)
    h = 0.03 if integrator.name == "sgld" else 0.1
    assert_enumerated(regression(4, 1), estimator, integrator, h, **orders)


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("draws", [1, 2, 3, 4])
def test_averaged_map_against_all_draws(draws, replace):
    size, width = 4, 5
    rng = np.random.default_rng(draws)
    fixed, noise, moment = rng.normal(size=(3, width, width))
    left, right = rng.normal(size=(2, width, size)), rng.normal(size=(size, width))
    moment = moment @ moment.T
    expected = []
    for batch in subsets(size, draws, INDEPENDENT[not replace]):
        count = np.bincount(batch, minlength=size)
        columns = size / draws * count * left[0] + (count > 0) * left[1]
        matrix = fixed + columns @ right
        expected.append(matrix @ moment @ matrix.T)
    affine = AffineMap(fixed, left, right, noise)
    average = average_map(affine, weights(size, draws, replace=replace))
    np.testing.assert_allclose(average(moment), np.mean(expected, axis=0) + noise, rtol=1e-12)


@pytest.mark.parametrize(
    ("estimator", "integrator", "h", "order", "phase"),
    [
        (practical(5, 4), splitting("BAOAB", 3.0), 0.1, "without_replacement", 3),
        (practical(6, 3, 2), sgld(0.5), 0.04, "with_replacement", 1),
        (SAGA, describe("sghmc", friction=3.0, temperature=1.0), 0.06, "with_replacement", 0),
        (describe("svrg", period=4), splitting("UBU", 3.0), 0.1, "without_replacement", 2),
        (MINIBATCH, splitting("OBABO", 3.0), 0.08, "without_replacement", 0),
    ],
    ids=label,
)
def test_regression_against_simulation(estimator, integrator, h, order, phase):
    problem = regression(8, 2)
    law = stationary(problem, estimator, integrator, step_size=h, batch_size=2, order=order)
    steps = 80 // len(law.phase_means) * len(law.phase_means) + phase + 1
    assert_simulated(
        law.phase_means[phase],
        law.phase_covariances[phase],
        simulate(problem, estimator, integrator, h, batch_size=2, steps=steps, order=order, seed=1),
    )


@pytest.mark.parametrize(("order", "phase"), [("shuffled", 1), ("symmetric", 4)])
def test_gaussian_sweeps_against_simulation(order, phase):
    problem = gaussian_mean(np.random.default_rng(3).normal(size=11) * 2)
    integrator = splitting("BAOAB", 4.0)
    arguments = problem, MINIBATCH, integrator
    law = stationary(*arguments, step_size=0.25, batch_size=3, order=order)
    cycles = 48 // len(law.phase_means)
    x = simulate(
        *arguments,
        0.25,
        batch_size=3,
        steps=cycles * len(law.phase_means) + phase + 1,
        order=order,
        seed=2,
    )
    assert_simulated(law.phase_means[phase], law.phase_covariances[phase], x)


def assert_simulated(mean, covariance, x):
    """Means and second moments within four standard errors, each component."""
    centred = x - mean
    squares = centred[:, :, None] * centred[:, None, :]
    for sample, expected in ((x, mean), (squares, covariance)):
        error = sample.std(0) / math.sqrt(len(sample))
        assert np.all(np.abs(sample.mean(0) - expected) < 4 * error)
