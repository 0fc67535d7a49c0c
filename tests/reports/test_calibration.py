"""Simulation-based calibration (Talts et al. 2018) on a conjugate linear regression.

Draw the weights from the prior and the data from the weights; then the rank of the true weight among
draws of the posterior is uniform, whatever the model. Many small problems of one shape: nothing is
compiled twice.
"""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import vrsgmcmc as vr

PROBLEMS, SIZE, DIMENSION, DRAWS = 600, 20, 2, 19


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "integrator", "step_size", "thin"),
    [
        (vr.full(), vr.splitting("BAOAB", friction=5.0), 0.1, 60),
        (vr.svrg(period=5), vr.sgld(), 5e-4, 400),
    ],
    ids=["full BAOAB", "svrg sgld"],
)
def test_ranks_are_uniform(estimator, integrator, step_size, thin):
    rng = np.random.default_rng(1)
    ranks = np.empty((PROBLEMS, DIMENSION), int)
    for number in range(PROBLEMS):
        weights = rng.normal(size=DIMENSION)
        x = rng.normal(size=(SIZE, DIMENSION))
        y = x @ weights + rng.normal(size=SIZE)
        result = vr.sample(
            number,
            vr.models.linear.posterior(),
            (x, y),
            jnp.zeros(DIMENSION),
            estimator=estimator,
            integrator=integrator,
            step_size=step_size,
            batch_size=4,
            num_steps=(DRAWS + 5) * thin,
            burn_in=5 * thin,
            thin=thin,
            num_chains=1,
            progress=False,
        )
        ranks[number] = np.sum(result.draws[0] < weights, axis=0)
    for column in ranks.T:
        counts = np.bincount(column, minlength=DRAWS + 1)
        assert scipy.stats.chisquare(counts).pvalue > 1e-3, counts
