"""Run directories of earlier versions: a finished one loads and verifies."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.run.store import commits

RUN = Path(__file__).parent / "fixtures" / "run-0.1.0"  # 400 steps of practical + sgld
SIZE, D = 60, 3


def square(w):
    return w**2


def run(path, **options):
    """The call that made the directory."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SIZE, D)).astype(np.float32)
    y = (rng.random(SIZE) < 0.5).astype(np.int32)
    method = {"estimator": vr.practical(20, 4), "integrator": vr.sgld(), "step_size": 1e-2}
    method |= {"batch_size": 5, "num_chains": 2, "num_steps": 400, "burn_in": 100, "thin": 3}
    start = np.zeros(D, np.float32)
    posterior = vr.models.logistic.posterior()
    return vr.sample(
        7,
        posterior,
        (x, y),
        start,
        observables={"square": square},
        run_dir=path,
        progress=False,
        **method | options,
    )


@pytest.fixture
def copy(tmp_path):
    """A copy of the directory, in float32 as it was made."""
    with jax.enable_x64(False):
        yield Path(shutil.copytree(RUN, tmp_path / "run"))


def test_a_finished_run_of_0_1_0_loads_and_verifies(copy):
    assert vr.store.verify(copy) == []
    result = run(copy)
    assert result.draws.shape == (2, 100, D)
    assert result.evaluations == 12_000
    assert not result.interrupted
    np.testing.assert_array_equal(result.state.memory.anchor.shape, (2, D))
    stored = vr.store.open(copy)
    np.testing.assert_array_equal(stored.leaves["x"], result.draws)
    np.testing.assert_array_equal(stored.averages["square"], result.averages["square"])
    again = run(None)
    np.testing.assert_allclose(result.draws, again.draws, rtol=1e-3, atol=1e-3)


def test_an_unfinished_run_of_another_program_is_refused_with_both_versions(copy):
    for name in (commits.CURRENT, commits.PREVIOUS):
        commit = commits.load(vr.run.store.Folder(copy), name)
        content = commits.to_bytes(commit | {"finished": False})
        (copy / name).write_bytes(content)
    assert json.loads((copy / commits.CURRENT).read_text())["finished"] is False
    ours = r"made with vrsgmcmc 0\.1\.0, and this is 0\.2"
    with pytest.raises(vr.store.RunError, match=rf"model\.stablehlo(.|\n)*{ours}"):
        run(copy)


def test_an_option_that_is_newer_than_a_run_had_its_default_there(copy):
    for name in (commits.CURRENT, commits.PREVIOUS):
        commit = commits.load(vr.run.store.Folder(copy), name)
        del commit["config"]["clip"]
        (copy / name).write_bytes(commits.to_bytes(commit))
    assert run(copy).evaluations == 12_000
    with pytest.raises(vr.store.RunError, match=r"clip: None in the run, 1\.0 here"):
        run(copy, clip=1.0)
