"""Runs in a directory, in processes of their own that can be killed: started by `test_crash.py`.

    python stored_runs.py run MODEL PATH          one run to its end, or to a signal
    python stored_runs.py kill MODEL PATH N SEED  kill -9 at N random moments, resume, compare
    python stored_runs.py memory PATH DRAWS       draws of 270,000 numbers, and the memory they took

The processes of `kill` are forks of one that has imported everything and started nothing.
"""

import hashlib
import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import jax
import numpy as np

import vrsgmcmc as vr
from vrsgmcmc import models
from vrsgmcmc.run import store
from vrsgmcmc.run.store import draws, writer
from vrsgmcmc.run.timeline import Pace

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def sample(model, path, **options):
    """2000 draws in 200 commits. The clock does not size the chunks: they would depend on the load."""
    writer.SECONDS_BETWEEN_COMMITS = writer.LEAST_RATIO = 0
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3)).astype(np.float32)
    given = {"estimator": vr.practical(20, 10), "batch_size": 5, "num_chains": 2, "progress": False}
    if model == "gaussian":
        draws.CHUNK_BYTES = 2**13
        set_pace(110)  # units: 100 steps and their refreshes
        given |= {"init": np.zeros(3, np.float32), "step_size": 1e-3, "num_steps": 20_000}
        given |= {"thin": 10, "observables": {"square": square}}
        return vr.sample(1, models.gaussian.posterior(), x, **given, run_dir=path, **options)
    draws.CHUNK_BYTES = 2**16
    set_pace(22)
    given |= {"init": models.mlp.initial(3, 2, hidden=8), "integrator": vr.sghmc(5.0)}
    given |= {"step_size": 1e-3, "num_steps": 4_000, "thin": 2}
    y = (x[:, 0] > 0).astype(np.int32)
    return vr.sample(1, models.mlp.classifier(2), (x, y), **given, run_dir=path, **options)


def set_pace(units):
    """Chunks of one length, however long they take."""
    Pace.took = lambda self, *_: setattr(self, "length", units)


def square(x):
    return x**2


def digest(result):
    """The sha256 of everything a run gives."""
    total = hashlib.sha256()
    for leaf in jax.tree.leaves((result.draws, result.averages, result.state)):
        total.update(np.ascontiguousarray(leaf).tobytes())
    return total.hexdigest()


def in_child(model, path):
    """Start the run in a fork, which leaves the digest of a whole one beside the directory."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        path.with_suffix(".digest").write_text(digest(sample(model, path)))
        status = 0
    finally:
        os._exit(status)


def committed(path):
    """Draws that are committed; None before the first commit. A commit is never half there."""
    try:
        return json.loads((path / "commit.json").read_text())["draws"]
    except FileNotFoundError:
        return None


def kill(model, path, count, seed):
    """Kill a run some time after it started, or after its next commit, again and again."""
    generator, at = random.Random(seed), []
    for number in range(count):
        before, child, clock = committed(path), in_child(model, path), time.monotonic()
        # every fourth one while it starts or is taken up again
        limit = generator.uniform(0.1, 2.0) if number % 4 == 3 else 120.0
        while committed(path) == before and time.monotonic() - clock < limit:
            if os.waitpid(child, os.WNOHANG)[0]:
                raise SystemExit("the run ended before it was killed")
            time.sleep(0.001)
        time.sleep(generator.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        at.append(committed(path))
    unbroken = path.with_name("unbroken")
    ends = [os.waitpid(in_child(model, where), 0)[1] for where in (path, unbroken)]
    sums = [where.with_suffix(".digest").read_text() for where in (path, unbroken)]
    print(json.dumps({"at": at, "ends": ends, "digests": sums}))


def run(model, path):
    print("ready", flush=True)
    result = sample(model, path)
    told = {"interrupted": result.interrupted, "signal": result.signal, "steps": result.num_steps}
    print(json.dumps(told | {"digest": digest(result), "status": store.open(path).status}))


def memory(path, count):
    """Peak memory after a tenth of the draws, and after all of them."""
    size, peaks = 270_000, []
    commit = writer.Writer.commit

    def watched(self, *arguments, **options):
        commit(self, *arguments, **options)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        peaks.append((self.draws, peak))

    writer.Writer.commit = watched
    writer.SECONDS_BETWEEN_COMMITS = 0.2
    posterior = vr.Posterior(lambda w: -0.5 * (w["a"] @ w["a"]), lambda w, x: 0.0 * w["b"][0] * x)
    init = {"a": np.zeros(size - 10, np.float32), "b": np.zeros(10, np.float32)}
    data = np.ones(10, np.float32)
    given = {"estimator": vr.minibatch(), "batch_size": 2, "num_chains": 1, "progress": False}
    vr.sample(*(0, posterior, data, init), **given, step_size=1e-3, num_steps=count, run_dir=path)
    early = next(peak for drawn, peak in peaks if drawn >= count // 10)
    print(json.dumps({"early": early, "late": peaks[-1][1], "drawn": peaks[-1][0]}))


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "memory":
        memory(Path(rest[0]), int(rest[1]))
    elif what == "run":
        run(rest[0], Path(rest[1]))
    else:
        kill(rest[0], Path(rest[1]), int(rest[2]), int(rest[3]))
