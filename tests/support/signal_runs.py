"""Runs that wait for signals: `python signal_runs.py KIND RUN_DIR`, started by `test_signals.py`.

It prints "begun", and at the end the signal that interrupted it (or None) and the sha256 of results.

    chunks    chunks of about a second
    commits   a commit behind every chunk of some milliseconds
    endless   a chunk that takes hours, as `long_chunk.py` has it
    compile   a model that takes the compiler some seconds
    mode      a search for a mode (control_variate) whose iterations take a while
    saga      a first pass over the data that takes a while
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from long_chunk import loglik as endless
from stored_runs import digest, set_pace

import vrsgmcmc as vr
from vrsgmcmc.run import interrupts
from vrsgmcmc.run.store import writer

interrupts.SECONDS_TO_FINISH = 1.0
STEPS = {"chunks": 32, "commits": 4000, "endless": 1000, "compile": 200, "mode": 40, "saga": 40}
REPEATS = {
    "chunks": 3 * 10**5,
    "endless": 2**31 - 1,
    "mode": 5 * 10**4,
    "saga": 5 * 10**4,
}  # of a loop, per datum


def slow(w, repeats):
    """The log-density of a normal, after a loop that changes no bit of it."""
    here = jax.lax.stop_gradient(w)
    after = jax.lax.fori_loop(0, repeats, lambda _, w: jnp.sin(w), here)
    return -0.5 * (w - 1e-30 * after) ** 2


def tangled(w, repeats):
    """A chain of operations that takes the compiler a while."""
    for number in range(60):
        w = jnp.tanh(jnp.sin(w + 0.01 * number))
    return -0.5 * w**2 + repeats


def run(kind, path):
    likelihood = {"endless": endless, "compile": tangled}.get(kind, slow)
    estimator = {"mode": vr.control_variate, "saga": vr.saga}.get(kind, vr.minibatch)()
    if kind == "commits":
        writer.SECONDS_BETWEEN_COMMITS = writer.LEAST_RATIO = 0
        set_pace(40)
    elif kind in ("chunks", "mode", "saga"):
        set_pace(8)
    posterior = vr.Posterior(lambda w: -0.5 * w**2, likelihood)
    data = np.full(60, REPEATS.get(kind, 0), np.int32)
    start = jnp.zeros(()) if kind == "endless" else jnp.ones(())
    options = {"num_steps": STEPS[kind], "num_chains": 1, "progress": False, "batch_size": 4}
    print("begun", flush=True)
    return vr.sample(
        0, posterior, data, start, estimator=estimator, step_size=1e-3, run_dir=path, **options
    )


if __name__ == "__main__":
    result = run(*sys.argv[1:])
    print(result.signal, digest(result), flush=True)
