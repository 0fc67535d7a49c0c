"""A program whose first chunk takes hours: `python long_chunk.py [RUN_DIR]` prints "begun" inside it.

The first rows, on which the start is tried, cost nothing; a step on the others repeats a loop.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import vrsgmcmc as vr
from vrsgmcmc.core import compiled
from vrsgmcmc.run import interrupts

interrupts.SECONDS_TO_FINISH = 0.2
REPEATS = np.where(np.arange(1000) < 64, 0, 2**31 - 1).astype(np.int32)


def loglik(w, repeats):
    w_after = jax.lax.fori_loop(0, repeats, lambda _, w: jnp.sin(w), jax.lax.stop_gradient(w))
    return -0.5 * (w - 1e-30 * w_after) ** 2


def announce(*arguments, **options):
    values = advance(*arguments, **options)
    print("begun", flush=True)
    return values


if __name__ == "__main__":
    advance, compiled.advance = compiled.advance, announce
    posterior = vr.Posterior(lambda w: -0.5 * w**2, loglik)
    options = {"estimator": vr.minibatch(), "num_steps": 1000, "num_chains": 1, "progress": False}
    run_dir = sys.argv[1] if sys.argv[1:] else None
    vr.sample(0, posterior, REPEATS, jnp.zeros(()), run_dir=run_dir, **options)
