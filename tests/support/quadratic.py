"""A quadratic log posterior, in JAX and in NumPy, and single steps of an integrator on it."""

import re
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import vrsgmcmc as vr
from vrsgmcmc.core.rng import normal_like

T, F = 0.6, 1.7  # temperature and friction of the tests
STEP_SIZES = (0.1, 0.03, 0.2)

SIZE, DIMENSION = 4, 8
_rng = np.random.default_rng(3)
FEATURES, TARGETS = _rng.normal(size=(SIZE, DIMENSION)), _rng.normal(size=SIZE)
START = _rng.normal(size=DIMENSION)
TREE = {"bias": jnp.asarray(START[:2]), "weight": jnp.asarray(START[2:]).reshape(2, 3)}
FULL_MATRIX = np.tril(_rng.normal(size=(DIMENSION, DIMENSION)))
BATCH = vr.Batch(jnp.arange(SIZE), {"x": jnp.asarray(FEATURES), "y": jnp.asarray(TARGETS)})


def flat(tree):
    return ravel_pytree(tree)[0]


POSTERIOR = vr.Posterior(
    logprior=lambda params: -0.4 * jnp.sum(jnp.square(flat(params) - 0.3)),
    loglik=lambda params, row: -0.5 * jnp.square(row["y"] - row["x"] @ flat(params)),
)


def gradient(x):
    """Of the same log posterior, in NumPy."""
    return -0.8 * (x - 0.3) + FEATURES.T @ (TARGETS - FEATURES @ x)


# Not compiled: compilation takes longer than a few steps.


def start(integrator, key, params):
    return vr.kernel(POSTERIOR, vr.full(), integrator, size=SIZE).init(key, params)


def step(integrator, key, state, step_size):
    kernel = vr.kernel(POSTERIOR, vr.full(), integrator, size=SIZE)
    return kernel.step(key, state, BATCH, step_size)[0]


@contextmanager
def refused(message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        yield
    assert str(error.value) == message


@jax.jit
def normals(key, like):
    return flat(normal_like(key, like))
