"""A program whose first chunk takes hours: `python long_chunk.py [RUN_DIR]` prints "begun" inside it.

At the start a datum costs nothing; the second step, elsewhere, repeats a loop.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import vrsgmcmc as vr
from vrsgmcmc.core import compiled
from vrsgmcmc.run import interrupts

interrupts.SECONDS_TO_FINISH = 0.2


def loglik(w, repeats):
    here = jax.lax.stop_gradient(w)
    repeats = jnp.where(here == 0, 0, repeats)
    after = jax.lax.fori_loop(0, repeats, lambda _, w: jnp.sin(w), here)
    return -0.5 * (w - 1e-30 * after) ** 2


def announce(*arguments, **options):
    values = advance(*arguments, **options)
    print("begun", flush=True)
    return values


if __name__ == "__main__":
    advance, compiled.advance = compiled.advance, announce
    posterior = vr.Posterior(lambda w: -0.5 * w**2, loglik)
    options = {"estimator": vr.minibatch(), "step_size": 1e-4, "num_steps": 1000}
    options |= {"num_chains": 1, "progress": False}
    run_dir = sys.argv[1] if sys.argv[1:] else None
    repeats = np.full(100, 2**31 - 1, np.int32)
    vr.sample(0, posterior, repeats, jnp.zeros(()), run_dir=run_dir, **options)
