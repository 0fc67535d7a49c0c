"""The search for a mode: it says how far away it ended, whatever the scales of the parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.run import find_mode
from vrsgmcmc.run.mode import lbfgs as mode

SIZE = 300
POSTERIOR = vr.models.logistic.posterior()


def logistic(scales, offset=0.0):
    """Data, the exact mode and the exact precision there, by Newton's method."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SIZE, len(scales)))
    y = (rng.uniform(size=SIZE) < 1 / (1 + np.exp(-x.sum(1)))).astype(int)
    x = x * scales
    x[:, -1] += offset
    signed, exact = np.where(y[:, None] == 1, x, -x), np.zeros(len(scales))
    for _ in range(60):
        p = 1 / (1 + np.exp(np.clip(signed @ exact, -500, 500)))
        precision = np.eye(len(scales)) + (signed * (p * (1 - p))[:, None]).T @ signed
        step = np.linalg.solve(precision, signed.T @ p - exact)
        exact = exact + step / max(1.0, np.sqrt(step @ precision @ step) / 3)
    return (jnp.asarray(x), jnp.asarray(y)), exact, precision


@pytest.mark.parametrize(
    ("scales", "offset"),
    [((1.0, 1.0, 1.0), 0.0), ((1.0, 1e3, 1.0), 0.0), ((1e-2, 1.0, 1e2), 0.0), ((1, 1, 1), 50.0)],
)
def test_the_mode_is_reached_at_any_scale(scales, offset):
    data, exact, precision = logistic(np.array(scales), offset)
    found = find_mode(POSTERIOR, data, jnp.zeros(3))
    away = np.asarray(found.params, np.float64) - exact
    distance = np.sqrt(away @ precision @ away / 3)
    assert found.converged
    assert distance < 0.5
    assert found.distance == pytest.approx(distance, rel=0.2, abs=0.02)


def test_a_search_that_ends_too_early_says_how_far_it_is():
    data, exact, precision = logistic(np.array([1.0, 1e3, 1.0]))
    found = find_mode(POSTERIOR, data, jnp.zeros(3), most=5 * SIZE)
    away = np.asarray(found.params, np.float64) - exact
    assert not found.converged
    assert found.distance == pytest.approx(np.sqrt(away @ precision @ away / 3), rel=0.5)
    assert f"{found.distance:.2g} posterior standard deviations away" in str(found)
    assert found.evaluations < (5 + 4 + 2 * mode.MOST_PRODUCTS) * SIZE


def test_a_saddle_is_no_mode():
    posterior = vr.Posterior(lambda x: 0.0, lambda x, datum: datum * jnp.cos(x))
    found = find_mode(posterior, jnp.ones(10), jnp.asarray(3.0), most=1)
    assert found.distance == np.inf or found.converged
    gradient, distance, _ = mode.newton_step(
        posterior, jnp.ones(10), jnp.asarray(3.0), jax.block_until_ready
    )
    assert distance == np.inf
    assert gradient.shape == (1,)


def test_a_control_variate_away_from_the_mode_is_announced(monkeypatch):
    data, _, _ = logistic(np.array([1.0, 1e3, 1.0]))
    monkeypatch.setattr(mode, "MOST_ITERATIONS", 2)
    with pytest.warns(
        UserWarning, match="search for a posterior mode did not converge: it ended .*"
    ):
        vr.sample(
            0,
            POSTERIOR,
            data,
            jnp.zeros(3),
            estimator=vr.control_variate(),
            step_size=1e-9,
            num_steps=3,
            num_chains=1,
            progress=False,
        )


def test_products_count_twice():
    data, _, _ = logistic(np.ones(3))
    start = jnp.zeros(3)
    _, _, cost = mode.newton_step(POSTERIOR, data, start, jax.block_until_ready)
    rows = min(SIZE, 128)
    assert (cost - SIZE - rows) % (2 * SIZE) == 0
    assert cost <= SIZE + rows + 2 * 3 * SIZE
