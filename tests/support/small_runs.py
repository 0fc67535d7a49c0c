"""Small runs in a directory, whole or broken off behind a commit."""

import hashlib

import jax
import numpy as np
import pytest
from support.crashes import Crash, crash_after

import vrsgmcmc as vr

N, D, CHAINS, STEPS = 24, 2, 2, 96
X = np.random.default_rng(0).normal(size=(N, D))
POSTERIOR = vr.models.gaussian.posterior()

COMPILED = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: COMPILED.append(name) if "backend_compile" in name else None
)


def square(x):
    return x**2


def run(run_dir=None, **options):
    given = {
        "init": np.zeros(D),
        "estimator": vr.practical(8, 5),
        "step_size": 0.01,
        "batch_size": 4,
        "num_steps": STEPS,
        "num_chains": CHAINS,
        "observables": {"square": square},
        "run_dir": run_dir,
        "progress": False,
    }
    given |= options
    return vr.sample(given.pop("key", 7), POSTERIOR, given.pop("data", X), **given)


THINNED = {"estimator": vr.control_variate(), "burn_in": 13, "thin": 4}


def broken_run(path, monkeypatch, count=4, **options):
    with monkeypatch.context() as patch:
        crash_after(patch, count)
        with pytest.raises(Crash):
            run(path, **options)


WHOLE = {}


def whole_run(**options):
    key = repr(options)
    if key not in WHOLE:
        WHOLE[key] = run(**options)
    return WHOLE[key]


def assert_same_run(one, other):
    trees = [(r.draws, r.averages, r.state) for r in (one, other)]
    assert jax.tree.structure(trees[0]) == jax.tree.structure(trees[1])
    for a, b in zip(*map(jax.tree.leaves, trees), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    for name in ("evaluations", "num_steps", "divergences", "data_passes"):
        assert getattr(one, name) == getattr(other, name)
    np.testing.assert_array_equal(one.draw_steps, other.draw_steps)


def everything_in(path):
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }
