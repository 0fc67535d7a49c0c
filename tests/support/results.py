"""Results with draws that a test chooses, without a run."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import vrsgmcmc as vr
from vrsgmcmc.run import Context
from vrsgmcmc.run.result import constant


def result_of(draws, posterior=None, data=None, **changes):
    """A result with draws [chain, draw, ...]; without data it has no model."""
    chains, count = jax.tree.leaves(draws)[0].shape[:2]
    context = None if data is None else Context(posterior, jax.tree.map(jnp.asarray, data), None)
    fields = {
        "load_draws": partial(constant, draws),
        "averages": {},
        "evaluations": 100,
        "data_passes": 1.0,
        "seconds": 1.0,
        "state": None,
        "diverged": np.zeros(chains, bool),
        "divergences": (),
        "num_steps": count,
        "interrupted": False,
        "settings": {"data_size": 10 if data is None else len(jax.tree.leaves(data)[0])},
        "draw_steps": np.arange(1, count + 1),
        "context": context,
    }
    return vr.Result(**fields | changes)


class Conjugate:
    """y_i ~ N(mu, 1), mu ~ N(0, 4), with exact draws of the posterior."""

    def __init__(self, size, chains=4, count=1000, seed=0):
        rng = np.random.default_rng(seed)
        self.y = rng.normal(0.7, 1.0, size)
        mean, variance = self.moments(self.y)
        self.draws = rng.normal(mean, np.sqrt(variance), (chains, count))
        self.posterior = vr.Posterior(lambda mu: -(mu**2) / 8, self.loglik)
        self.result = result_of(self.draws, self.posterior, self.y)

    @staticmethod
    def loglik(mu, y):
        return -0.5 * (y - mu) ** 2 - 0.5 * jnp.log(2 * jnp.pi)

    @staticmethod
    def moments(y):
        variance = 1 / (1 / 4 + len(y))
        return variance * y.sum(), variance

    def leave_one_out(self):
        """log p(y_i | the others), for each row."""
        parts = [self.moments(np.delete(self.y, i)) for i in range(len(self.y))]
        mean, variance = np.array(parts).T
        return -0.5 * (self.y - mean) ** 2 / (1 + variance) - 0.5 * np.log(
            2 * np.pi * (1 + variance)
        )
