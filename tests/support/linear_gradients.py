"""A model with any per-datum gradients that a test wants, at a point and at an anchor.

loglik(x, (c, q)) = c . x + q . x^2 / 2 has the gradient c at x = 0, which is the point, and c + q at
x = 1, which is the anchor.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

import vrsgmcmc as vr
from vrsgmcmc.theory.noise import noise

SEPARATE = ("with_replacement", "without_replacement")
SWEEPS = ("shuffled", "symmetric")
EXACT = {"rel": 1e-10, "abs": 1e-10}
DIMENSION = 3


def logprior(x):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))


def loglik(x, datum):
    slope, curvature = datum
    terms = jax.tree.map(lambda x, c, q: jnp.sum(c * x + q * x * x / 2), x, slope, curvature)
    return sum(jax.tree.leaves(terms))


POSTERIOR = vr.Posterior(logprior, loglik)


def as_tree(rows):
    """Vectors of length 3 as parameters with two leaves."""
    return {"bias": rows[..., 0], "weight": rows[..., 1:]}


POINT, ANCHOR = as_tree(np.zeros(DIMENSION)), as_tree(np.ones(DIMENSION))
BLOCKS = {"bias": slice(0, 1), "weight": slice(1, 3)}


def make_data(alpha, beta):
    return as_tree(alpha), as_tree(beta - alpha)


def gradients(size, seed=0):
    """alpha and beta [N, 3], far from each other, with means that are not 0."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, size, DIMENSION)) * [1.0, 2.0, 0.5] + rng.normal(
        size=(2, 1, DIMENSION)
    )


def figures(alpha, beta, **settings):
    return noise(POSTERIOR, make_data(alpha, beta), POINT, ANCHOR, **settings)


def weights(order, size, count):
    """N/n times how often each datum is drawn, in all equally likely draws: [draws, N]."""
    ways = itertools.product(range(size), repeat=count)
    if order != "with_replacement":
        ways = itertools.combinations(range(size), count)
    index = np.array(list(ways))
    return size / count * (index[:, :, None] == np.arange(size)).sum(1)


def mean_square(errors):
    return np.mean(np.sum(errors**2, -1))
