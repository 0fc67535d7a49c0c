"""Integrators as linear filters: against the exact laws on quadratics."""

import math

import numpy as np
import pytest
from support.local_models import WORDS, integrators, step_for

import vrsgmcmc as vr
from vrsgmcmc.theory import autocovariance, linear_regression, response, stationary
from vrsgmcmc.theory.exact.schemes import scheme

CURVATURE = np.array([0.7, 4.0])


def quadratic(curvature):
    """A regression without data worth the name whose posterior has these curvatures."""
    features = np.diag(np.sqrt(curvature - 1e-3))
    return linear_regression(features, np.zeros(len(curvature)), prior_variance=1e3)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize("name", ["sgld", "sghmc", *WORDS])
def test_response_on_quadratics(name, temperature):
    integrator = integrators(1.0, temperature)[name]
    steps = np.array([step_for(integrator, a, 4.0) for a in (0.01, 0.3, 0.9)])
    filter = response(integrator, steps, CURVATURE)
    assert filter.stable.all()
    assert filter.ahead == (name in ("ABOBA", "UBU"))
    for i, h in enumerate(steps):
        exact = autocovariance(
            quadratic(CURVATURE), vr.full(), integrator, lags=6, step_size=float(h)
        )
        for lag in range(7):
            result = np.sum(filter.noise[i] * filter.decay[i] ** lag, -1)
            np.testing.assert_allclose(result, np.diagonal(exact[lag]), rtol=1e-6, atol=1e-9)
        # the answer to an error, step by step
        parts = scheme(integrator, float(h))
        for k, curvature in enumerate(CURVATURE):
            pull = curvature * np.outer(parts.kick, np.eye(len(parts.kick))[0])
            step, state = (parts.after.matrix - pull) @ parts.before.matrix, parts.kick
            for s in range(6):
                result = np.sum(filter.kick[i, k] * filter.decay[i, k] ** s)
                assert complex(result) == pytest.approx(state[0], rel=1e-6, abs=1e-9)
                state = step @ state


def test_response_at_critical_damping():
    a, h = 0.2, 0.3
    integrator = vr.sghmc((2 * math.sqrt(a) - a) / h)  # two equal decay factors
    curvature = np.array([a / h**2])
    filter = response(integrator, np.array([h]), curvature)
    assert abs(filter.decay[0, 0, 0] - filter.decay[0, 0, 1]) < 1e-3
    exact = stationary(quadratic(curvature), vr.full(), integrator, step_size=h).covariance
    assert float(filter.noise.sum().real) == pytest.approx(exact[0, 0], rel=1e-6)


def test_stability():
    steps = np.array([0.1, 1.99, 2.01, 10.0]) / 4.0
    assert response(vr.sgld(), steps, CURVATURE).stable.tolist() == [True, True, False, False]
    steps = np.array([0.1, 1.99, 2.01]) / 2.0
    kinetic = vr.splitting("BAOAB", 2.0)
    assert response(kinetic, steps, CURVATURE).stable.tolist() == [True, True, False]
