"""Autocovariances of a chain: against closed forms, all minibatches, and the error of averages."""

import numpy as np
import pytest
from support.plain_samplers import (
    FULL,
    INDEPENDENT,
    MINIBATCH,
    SAGA,
    SGHMC,
    SHORT_SVRG,
    THOUSAND,
    TWELVE,
    Enumeration,
    label,
    name_of,
    practical,
    regression,
    sgld,
    splitting,
    subsets,
)
from support.trajectories import trajectories

from vrsgmcmc.theory import autocovariance, gaussian_mean, mse, stationary


@pytest.mark.parametrize("a", [0.05, 0.8])
def test_autocovariance_of_an_autoregression(a):
    problem, h, q, k = gaussian_mean(THOUSAND), a / 1001, 1 - a, np.arange(41)
    result = autocovariance(problem, FULL, sgld(0.7), lags=40, step_size=h)
    np.testing.assert_allclose(result[:, 0, 0], q**k * 1.4 * h / (1 - q**2), rtol=1e-9)


@pytest.mark.parametrize("order", ["without_replacement", "shuffled"])
def test_autocovariance_of_held_errors(order):
    """Anchors on the Gaussian: the closed form of the variance j steps into a cycle, and between."""
    a, n1, m = 0.1, 200, 10
    problem, h, q = gaussian_mean(THOUSAND), a / 1001, 1 - a
    S2, sampler = THOUSAND.var(ddof=1), (practical(n1, m), sgld())
    settings = dict(step_size=h, batch_size=10, anchor_order=order)
    law = stationary(problem, *sampler, **settings)
    result = autocovariance(problem, *sampler, lags=2 * m, **settings)[:, 0, 0]
    np.testing.assert_allclose(result[0], law.covariance[0, 0], rtol=1e-12)

    # x after l steps is a sum over the errors of sweeps before and over the noise; far enough back
    # nothing matters, so a long matrix of weights is all there is to it
    cycles = 100
    steps = cycles * m
    l = np.arange(steps)
    weights = np.where(l[:, None] >= l, h * np.power(q, np.maximum(l[:, None] - l, 0)), 0.0)
    errors = 1000 * (1000 / n1 * np.eye(cycles) - np.ones((cycles, cycles)))
    if order == "shuffled":  # blocks of one permutation
        errors *= np.kron(np.eye(n1 // m), np.ones((1000 // n1, 1000 // n1)))
    else:
        errors *= np.eye(cycles)
    effects = weights.reshape(steps, cycles, m).sum(2)
    covariance = effects @ (S2 * errors) @ effects.T + weights @ weights.T * 2 / h
    length = len(law.phase_means)
    late = covariance[-4 * length :, -4 * length :]
    lags = [np.diag(late, k)[: 2 * length].mean() for k in range(2 * m + 1)]
    np.testing.assert_allclose(result, lags, rtol=1e-8)
    if order == "without_replacement":
        j, V1 = np.arange(1, m + 1), 1000 * 800 / n1 * S2
        A = h**2 * V1 * ((1 - q**j) / a) ** 2 + 2 * h * (1 - q ** (2 * j)) / (1 - q**2)
        v = A[-1] / (1 - q ** (2 * m))
        np.testing.assert_allclose(law.phase_covariances[:, 0, 0], q ** (2 * j) * v + A, rtol=1e-9)


@pytest.mark.parametrize("integrator", [sgld(0.7), SGHMC], ids=name_of)
@pytest.mark.parametrize(
    "estimator", [SAGA, SHORT_SVRG, practical(3, 3), practical(3, 1, 2)], ids=label
)
def test_autocovariance_against_all_minibatches(estimator, integrator):
    """Mean maps read off the plain samplers, by enumeration."""
    problem, h, lags = regression(4, 2), 0.04, 5
    settings = dict(step_size=h, batch_size=2)
    result = autocovariance(problem, estimator, integrator, lags=lags, **settings)
    plain = Enumeration(problem, estimator, integrator, h)
    width, anchor_size = plain.width, getattr(estimator, "anchor_size", 4)
    steps = np.mean([plain.step(b) for b in subsets(4, 2, INDEPENDENT[1])], axis=0)
    refreshes = np.eye(width**2)
    if estimator is not SAGA:
        draws = subsets(4, anchor_size, INDEPENDENT[1])
        refreshes = np.mean([plain.refresh(b) for b in draws], axis=0)
    period = getattr(estimator, "period", 1)
    cycle = [steps @ refreshes] + [steps] * (period - 1)

    whole = np.eye(width**2) - np.linalg.multi_dot([*cycle[::-1], np.eye(width**2)])
    moment = np.append(np.linalg.solve(whole[:-1, :-1], -whole[:-1, -1]), 1.0)
    expected, mean = np.zeros((lags + 1, 2, 2)), problem.posterior()[0]
    for l, now in enumerate(cycle):
        moment = now @ moment
        columns = moment.reshape(width, width)[:, :2]
        for k in range(lags + 1):
            expected[k] += (columns[:2] - np.outer(mean, mean)) / period
            means = cycle[(l + k + 1) % period].reshape(width, width, width, width)[:, -1, :, -1]
            columns = means @ columns
    np.testing.assert_allclose(result, expected, rtol=1e-8, atol=1e-11)


def test_autocovariance_of_spelled_out_sweeps():
    """Two sweeps, x_j = a_j x_0 + b_j + noise given their permutations, from the stationary x_0."""
    arguments = regression(3, 1), MINIBATCH, sgld(0.7)
    result = autocovariance(*arguments, lags=3, step_size=0.1, batch_size=1, order="shuffled")
    sweeps = dict(steps=6, order="shuffled")
    b, noise = trajectories(*arguments, 0.1, start=[0.0], **sweeps)
    a = (trajectories(*arguments, 0.1, start=[1.0], **sweeps)[0] - b)[:, :, 0]
    b = b[:, :, 0]
    aa, ab, bb = a.T @ a / len(a), a.T @ b / len(a), b.T @ b / len(a) + noise.mean((0, 1))
    first = b[:, 2].mean() / (1 - a[:, 2].mean())
    second = (2 * ab[2, 2] * first + bb[2, 2]) / (1 - aa[2, 2])
    moments = aa * second + (ab + ab.T) * first + bb
    mean = (a[:, :3] * first + b[:, :3]).mean()
    expected = [np.diag(moments, k)[:3].mean() - mean**2 for k in range(4)]
    np.testing.assert_allclose(result[:, 0, 0], expected, rtol=1e-9)


ROWS = [
    (FULL, {}),
    (MINIBATCH, {}),
    (MINIBATCH, dict(order="shuffled")),
    (SAGA, dict(order="with_replacement")),
    (practical(6, 3), {}),
    (practical(6, 3, 2), dict(anchor_order="symmetric")),
]


@pytest.mark.parametrize(("estimator", "orders"), ROWS)
@pytest.mark.parametrize("integrator", [sgld(), splitting("BAOAB", 3.0)], ids=name_of)
def test_average_and_autocovariance_agree(estimator, orders, integrator):
    """In the stationary law Var(sum) grows by sum_k Cov(x_{l+k}, x_l) for each step."""
    h = 0.05 if integrator.name == "sgld" else 0.25
    arguments = (TWELVE, estimator, integrator)
    settings = dict(step_size=h, batch_size=4, **orders)
    result = autocovariance(*arguments, lags=400, **settings)[:, 0, 0]
    steps = np.array([600, 660])
    error = mse(*arguments, num_steps=steps, **settings)
    np.testing.assert_allclose(error.bias, 0, atol=1e-12)
    growth = np.diff(error.variance[:, 0] * steps**2) / 60
    np.testing.assert_allclose(growth, result[0] + 2 * result[1:].sum(), rtol=1e-9)


def test_message_of_lags():
    with pytest.raises(ValueError, match="lags must be 0 or more, got -1"):
        autocovariance(TWELVE, FULL, sgld(), lags=-1, step_size=0.05)
