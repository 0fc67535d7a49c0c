"""A gradient that is not the derivative of the density is found, and kinks are not taken for one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.run import check_gradient, locate_mode


def logprior(w):
    return -0.5 * jnp.sum(w**2)


def table(size, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 3))
    return jnp.asarray(x), jnp.asarray(x @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=size))


def rounded(w, row):
    return -0.5 * (row[1] - jnp.round(row[0] @ w)) ** 2


def stopped(w, row):
    return -0.5 * (row[1] - jax.lax.stop_gradient(w[0]) * row[0][0] - row[0][1:] @ w[1:]) ** 2


def cast(w, row):
    return -0.5 * (row[1] - (row[0] @ w).astype(int)) ** 2


def chosen(w, row):
    return jnp.where(jnp.argmax(jnp.stack([row[0] @ w, 0.0])) == (row[1] > 0), -0.1, -2.0)


@pytest.mark.parametrize("loglik", [rounded, stopped, cast, chosen])
def test_a_gradient_that_is_no_derivative_is_refused(loglik):
    posterior, data = vr.Posterior(logprior, loglik), table(1000)
    located = locate_mode(posterior, data, jnp.zeros(3))
    with pytest.raises(
        ValueError, match=r"is not its derivative: .*loglik changes by .*stop_gradient"
    ):
        check_gradient(posterior, data, located, 0)


def absolute(eta, y):
    return -jnp.abs(y - eta)


def hinge(eta, y):
    return -jnp.maximum(0.0, 1 - jnp.sign(y) * eta)


def poisson(eta, y):
    return jnp.round(jnp.abs(y)) * eta - jnp.exp(eta)


def logistic(eta, y):
    return jax.nn.log_sigmoid(jnp.sign(y) * eta)


def student_t(eta, y):
    return -2.5 * jnp.log1p((y - eta) ** 2 / 4)


@pytest.mark.parametrize("likelihood", [absolute, hinge, poisson, logistic, student_t])
@pytest.mark.parametrize("size", [30, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_derivative_is_not_refused(likelihood, size):
    posterior = vr.Posterior(logprior, lambda w, row: likelihood(row[0] @ w, row[1]))
    for seed in range(2):
        data = table(size, seed)
        located = locate_mode(posterior, data, jnp.zeros(3))
        for key in range(5):
            evaluations = check_gradient(posterior, data, located, key)
        assert evaluations == 17 * min(size, 500)
    assert check_gradient(posterior, data, located, 0, most=1700) == 17 * min(size, 100)


def test_float32_of_large_terms_is_not_refused():
    """A constant of 1e5 in each row leaves few digits for the differences."""
    with jax.enable_x64(False):
        x, y = (jnp.asarray(each, jnp.float32) for each in table(3000))
        posterior = vr.Posterior(logprior, lambda w, row: 1e5 - 0.5 * (row[1] - row[0] @ w) ** 2)
        located = locate_mode(posterior, (x, y), jnp.zeros(3, jnp.float32))
        for key in range(5):
            check_gradient(posterior, (x, y), located, key)
