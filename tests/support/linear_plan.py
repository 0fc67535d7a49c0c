"""A linear regression with its exact posterior, and the measured error C of runs on it."""

import jax.numpy as jnp
import numpy as np

import vrsgmcmc as vr
from vrsgmcmc.theory import linear_regression

SIZE = 400
rng = np.random.default_rng(0)
X = rng.normal(size=(SIZE, 3)) * [1.0, 0.5, 0.3]
Y = X @ rng.normal(size=3) + rng.normal(size=SIZE)
PROBLEM = linear_regression(X, Y)
MEAN, COVARIANCE = PROBLEM.posterior()
VARIANCES = np.diagonal(COVARIANCE)
POSTERIOR, DATA, START = vr.models.linear.posterior(), (X, Y), jnp.zeros(3)


def first(x):
    return x


def square(x, center):
    return jnp.square(x - center)


def moments(mean):
    """Observables for the mean and the variance of each parameter."""
    return {"first": first, "square": vr.observable(square, data=jnp.asarray(mean))}


def scores(result, num_chains, mean, variances):
    """C of each group of `num_chains` chains, from their averages together."""
    shape = -1, num_chains, len(mean)
    away = (np.asarray(result.averages["first"]) - mean).reshape(shape).mean(1)
    spread = np.asarray(result.averages["square"]).reshape(shape).mean(1) - away**2
    errors = away**2 / variances + (spread - variances) ** 2 / (2 * variances**2)
    return errors.mean(-1) / 2
