"""A run directory: what is in it, how it is resumed, and what divergence and signals do to it."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import psutil
import pytest
import xarray
import zarr
from support.crashes import Crash, crash_after
from support.small_runs import (
    CHAINS,
    COMPILED,
    STEPS,
    THINNED,
    D,
    X,
    assert_same_run,
    broken_run,
    everything_in,
    run,
    whole_run,
)

import vrsgmcmc as vr
from vrsgmcmc.run import loop, store
from vrsgmcmc.run.mode import lbfgs
from vrsgmcmc.run.store import draws, writer

# --- what is in it -------------------------------------------------------------------------------


def test_a_run_on_disk_is_the_run_in_memory(tmp_path, small):
    result = run(tmp_path / "run")
    assert_same_run(result, whole_run())
    assert result.run_dir == tmp_path / "run"
    assert not result.interrupted
    assert store.verify(tmp_path / "run") == []
    table = result.summary()
    np.testing.assert_array_equal(table["mean"], whole_run().summary()["mean"])


def test_the_layout(tmp_path, small):
    run(tmp_path)
    names = set(everything_in(tmp_path))
    numbers = sorted(int(name[6:-12]) for name in names if name.startswith("state-"))
    assert names - {f"state-{number}.safetensors" for number in numbers} == {
        *("config.json", "environment.json", "commit.json", "commit.previous.json"),
        *("draws.sha256", "metrics.jsonl", "run.lock"),
        *(f"draws.zarr/{part}zarr.json" for part in ("", "posterior/", "posterior/x/")),
        *(f"draws.zarr/posterior/x/c/0/{chunk}/0" for chunk in range(5)),
    }
    assert len(numbers) == 2
    assert numbers[1] == numbers[0] + 1
    checked = ["sha256sum", "--check", "--quiet", "draws.sha256"]
    subprocess.run(checked, cwd=tmp_path, check=True)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["num_steps"] == STEPS
    assert config["estimator"] == {"name": "practical", "anchor_size": 8, "period": 5, "average": 1}
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["steps"] for line in lines] == sorted(line["steps"] for line in lines)
    assert lines[-1]["steps"] == STEPS
    assert lines[-1]["draws"] == STEPS


def test_nothing_personal_is_recorded(tmp_path, monkeypatch, small):
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={Path.home()}/secret-place")
    monkeypatch.setenv("MY_PASSWORD", "xyzzy")
    run(tmp_path / "run")
    for file in (tmp_path / "run").rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            for secret in (b"xyzzy", bytes(Path.home()) + b"/", bytes(tmp_path)):
                assert secret not in content, file
    recorded = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert recorded["xla_flags"] == "--xla_dump_to=~/secret-place"
    assert recorded["versions"]["jax"] == jax.__version__
    assert recorded["data"]["sha256"]


def test_xarray_reads_the_draws_lazily(tmp_path, small):
    result = run(tmp_path)
    for tree in (
        xarray.open_datatree(tmp_path / "draws.zarr", engine="zarr"),
        store.open(tmp_path).draws,
    ):
        variable = tree["posterior"]["x"]
        assert variable.dims == ("chain", "draw", "x_dim_0")
        assert not variable.variable._in_memory
        np.testing.assert_array_equal(variable[1, 37:60:5], result.draws[1, 37:60:5])
        np.testing.assert_array_equal(variable, result.draws)
    array = zarr.open_array(tmp_path / "draws.zarr" / "posterior" / "x", mode="r")
    assert [type(codec).__name__ for codec in array.metadata.codecs] == [
        "BytesCodec",
        "Crc32cCodec",
    ]


def test_open_reads_a_run_without_its_model(tmp_path, monkeypatch, small):
    result = run(tmp_path / "whole", **THINNED)
    opened = store.open(tmp_path / "whole")
    assert opened.status == "finished"
    assert opened.notes == ()
    np.testing.assert_array_equal(opened.averages["square"], result.averages["square"])
    np.testing.assert_array_equal(opened.draws["posterior"]["step"], result.draw_steps)
    assert opened.metrics[-1]["evaluations"] == result.evaluations

    broken_run(tmp_path / "broken", monkeypatch)
    opened = store.open(tmp_path / "broken")
    steps = opened.progress["steps"]
    assert opened.status == f"interrupted at step {steps} of {STEPS}"
    assert 20 < steps < STEPS
    stored, draws_ = opened.draws["posterior"]["x"], whole_run().draws[:, :steps]
    assert stored.shape == draws_.shape  # whole chunks and a tail
    assert opened.commit["chunks"] == steps // 20
    for key in [
        (slice(None), slice(None)),
        (0, slice(5, steps, 7)),
        (slice(None), steps - 1),
        (1, 3),
        (slice(None), slice(steps - 2, None)),
        (slice(None), slice(0, 0)),
        (slice(None, None, -1), slice(None, None, -1)),
        (slice(None), [steps - 1, 0, 25]),
    ]:
        np.testing.assert_array_equal(stored[key], draws_[key])
    with pytest.raises(store.RunError, match="is not a run directory"):
        store.open(tmp_path)
    assert "is not a run directory" in store.verify(tmp_path)[0]


@pytest.mark.filterwarnings("ignore:parameters in 16 bits")
def test_leaves_of_every_kind(tmp_path, small):
    """Names that are no file names, dtypes that zarr does not know, an empty leaf, a scalar."""
    start = {
        "../up": jnp.zeros((), jnp.float64),
        "chain": jnp.zeros(2, jnp.bfloat16),
        "W": (jnp.zeros((2, 1), jnp.float32), jnp.zeros(1)),
        "w": [jnp.zeros(3, jnp.float16)],
        "none": jnp.zeros((0, 2)),
    }

    def logprior(params):
        leaves = jax.tree.leaves(params)
        return -0.5 * sum(jnp.sum(jnp.square(leaf.astype(jnp.float32))) for leaf in leaves)

    posterior = vr.Posterior(logprior, lambda params, x: -0.5 * (x - params["../up"]) ** 2)
    arguments = (3, posterior, X[:, 0], start)
    options = {"estimator": vr.minibatch(), "step_size": 0.01, "num_steps": 50, "progress": False}
    options |= {"integrator": vr.sgnht(2.0), "num_chains": CHAINS}
    result = vr.sample(*arguments, **options, run_dir=tmp_path / "run")
    memory = vr.sample(*arguments, **options)
    assert_same_run(result, memory)
    assert_same_run(vr.sample(*arguments, **options, run_dir=tmp_path / "run"), memory)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run"]
    opened = store.open(tmp_path / "run")
    assert set(opened.leaves) == {"../up", "chain", "W.0", "W.1", "w.0", "none"}
    assert store.verify(tmp_path / "run") == []
    assert len(opened.draws["posterior"].data_vars) == 6


def test_averages_alone_keep_no_draws(tmp_path, small, monkeypatch):
    broken_run(tmp_path, monkeypatch, keep="averages")
    result = run(tmp_path, keep="averages")
    assert result.draws is None
    assert not (tmp_path / "draws.zarr").exists()
    np.testing.assert_array_equal(result.averages["square"], whole_run().averages["square"])
    assert store.verify(tmp_path) == []
    assert list(store.open(tmp_path).draws["posterior"].data_vars) == []


def test_file_names_cannot_leave_their_folder():
    hostile = [
        "/etc/passwd",
        "..",
        ".",
        "",
        "a/b",
        "a\\b",
        "A_B",
        "x" * 300,
        "zarr.json",
        "c",
        "\0",
    ]
    names = draws.file_names([*hostile, *hostile])
    assert len({name.casefold() for name in names}) == len(names)
    for name in names:
        assert Path(name).name == name
        assert not name.startswith(".")
        assert len(name.encode()) < 250
    assert draws.file_names(names) == names


# --- resume --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_a_resumed_run_is_the_unbroken_one(tmp_path, monkeypatch, small, count):
    broken_run(tmp_path, monkeypatch, count)
    before = store.open(tmp_path)
    kept = {name: np.asarray(leaf) for name, leaf in before.leaves.items()}
    chunks = {f: s for f, s in everything_in(tmp_path).items() if "/c/" in f}
    result = run(tmp_path)
    assert_same_run(result, whole_run())
    np.testing.assert_array_equal(kept["x"], result.draws[:, : kept["x"].shape[1]])
    after = everything_in(tmp_path)
    assert {name: after[name] for name in chunks} == chunks  # never written again
    assert store.verify(tmp_path) == []
    assert result.seconds > before.progress["seconds"]


@pytest.mark.parametrize(
    "options",
    [
        {"chain_method": "sequential", "integrator": vr.sghmc(2.0)},
        {"estimator": vr.saga(), "integrator": vr.sgnht(2.0), "order": "shuffled"},
        THINNED,
        {
            "estimator": vr.practical(9, 7, average=3),
            "init": lambda key: jax.random.normal(key, (D,)),
            "step_size": lambda l: 0.01 / (1 + 0.01 * l),
            "integrator": vr.psgld(),
        },
        {
            "estimator": vr.block_saga(2),
            "integrator": vr.leimkuhler_matthews(),
            "metric": (np.array([0.1, -0.2]), np.array([[0.3, 0.0], [0.2, 0.5]])),
        },
    ],
    ids=[
        *("sequential sghmc", "saga sgnht", "control_variate", "averaged anchor, schedule, psgld"),
        "block_saga leimkuhler_matthews in a metric",
    ],
)
def test_every_memory_is_resumed(tmp_path, monkeypatch, small, options):
    broken_run(tmp_path, monkeypatch, 3, **options)
    assert_same_run(run(tmp_path, **options), run(**options))


def test_a_continued_state_is_kept_too(tmp_path, monkeypatch, small):
    options = {"init": whole_run().state, "num_steps": 50}
    broken_run(tmp_path, monkeypatch, 2, **options)
    assert_same_run(run(tmp_path, **options), run(**options))
    assert store.open(tmp_path).draws["posterior"]["step"][0] == STEPS + 1


def test_a_finished_run_is_loaded_and_not_run_again(tmp_path, monkeypatch, small):
    first = run(tmp_path)
    before = everything_in(tmp_path)
    run(tmp_path)
    COMPILED.clear()
    monkeypatch.setattr(loop, "Loop", None)
    again = run(tmp_path)
    assert_same_run(first, again)
    assert again.seconds <= first.seconds
    assert not COMPILED
    assert everything_in(tmp_path) == before
    continued = {"init": again.state, "num_steps": 5}
    monkeypatch.undo()
    assert_same_run(run(**continued), run(**(continued | {"init": whole_run().state})))


def test_draws_stay_on_disk_until_they_are_asked_for(tmp_path, monkeypatch, small):
    result = run(tmp_path)
    assert "draws" not in result.__dict__
    repr(result)
    assert "draws" not in result.__dict__
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100))
    with pytest.raises(MemoryError, match=r"3,072 bytes and 100 are free.*store.open\("):
        _ = result.draws
    monkeypatch.undo()
    assert result.draws is result.draws


def test_a_moved_run_is_resumed(tmp_path, monkeypatch, small):
    broken_run(tmp_path / "here", monkeypatch)
    shutil.copytree(tmp_path / "here", tmp_path / "copy")
    (tmp_path / "here").rename(tmp_path / "there")
    for name in ("there", "copy"):
        assert_same_run(run(tmp_path / name), whole_run())


def test_a_start_that_was_stopped_before_its_first_commit_starts_again(
    tmp_path, monkeypatch, small
):
    for name in ("config.json", "commit.json"):
        path = tmp_path / name
        with monkeypatch.context() as patch:
            replace = os.replace

            def stop(source, target, name=name, replace=replace, **folders):
                if Path(target).name == name:
                    raise Crash
                replace(source, target, **folders)

            patch.setattr(os, "replace", stop)
            with pytest.raises(Crash):
                run(path, thin=2)
        assert_same_run(run(path), whole_run())


# --- chains that leave the numbers ---------------------------------------------------------------


def test_a_diverged_chain_is_committed_frozen(tmp_path, monkeypatch, small, caplog):
    options = {"step_size": [0.01, 300.0], "num_steps": 400, "estimator": vr.minibatch()}
    whole = run(**options)
    (found,) = whole.divergences
    with monkeypatch.context() as patch:
        crash_after(patch, found.step // 16 + 4)
        with pytest.raises(Crash):
            run(tmp_path, **options)
    opened = store.open(tmp_path)
    assert opened.progress["divergences"][0][:2] == [1, found.step]
    for name, array in opened.arrays.items():
        if name.startswith("carry/state"):
            assert np.all(np.isfinite(array)), name
    frozen = opened.arrays["carry/state.position"][1]
    np.testing.assert_array_equal(frozen, whole.state.position[1])
    on_disk = np.asarray(opened.leaves["x"])
    assert np.all(np.isfinite(on_disk[0]))
    assert np.all(np.isnan(on_disk[1, found.step :]))
    assert np.all(np.isfinite(on_disk[1, : found.step]))
    caplog.clear()
    resumed = run(tmp_path, **options)
    assert_same_run(resumed, whole)
    assert_same_run(run(tmp_path, **options), whole)
    np.testing.assert_array_equal(resumed.diverged, [False, True])


def test_a_run_whose_chains_all_diverged_is_finished(tmp_path, small):
    options = {"step_size": 300.0, "num_steps": 5000, "estimator": vr.minibatch()}
    result = run(tmp_path, **options)
    assert result.diverged.all()
    assert result.num_steps < 5000
    assert store.open(tmp_path).status == "finished"
    assert_same_run(run(tmp_path, **options), result)


@pytest.mark.slow  # where it is in memory is in test_divergence.py; what is on disk then is above
def test_a_nan_at_a_given_step(tmp_path, monkeypatch, small):
    """x grows by 0.1 a step; above 1.05 its gradient is NaN: x_11 = 1.1 is the last finite one."""
    cliff = vr.Posterior(
        lambda x: 0.0 * x, lambda x, datum: jnp.where(x > 1.05, jnp.nan, 1.0) * x + 0.0 * datum
    )
    options = {"init": 0.0, "data": np.ones(5), "estimator": vr.full(), "batch_size": 1}
    options |= {"integrator": vr.sgld(0.0), "step_size": 0.02, "observables": {}}
    monkeypatch.setattr("support.small_runs.POSTERIOR", cliff)
    result = run(tmp_path, **options)
    assert [found.step for found in result.divergences] == [11, 11]
    opened = store.open(tmp_path)
    np.testing.assert_allclose(opened.arrays["carry/state.position"], 1.1, rtol=1e-12)
    np.testing.assert_array_equal(np.isfinite(opened.leaves["x"])[0], np.arange(16) < 11)


# --- signals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_returns_what_is_committed(tmp_path, monkeypatch, small, number):
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    commit, seen = writer.Writer.commit, []

    def interrupted(self, *arguments, **options):
        commit(self, *arguments, **options)
        seen.append(1)
        if len(seen) == 3:
            os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(writer.Writer, "commit", interrupted)
        result = run(tmp_path)
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before
    assert result.interrupted
    assert result.signal == number
    assert 0 < result.num_steps < STEPS
    np.testing.assert_array_equal(result.draws, whole_run().draws[:, : result.num_steps])
    assert store.open(tmp_path).status == f"interrupted at step {result.num_steps} of {STEPS}"
    assert_same_run(run(tmp_path), whole_run())


def test_commits_take_a_hundredth_of_a_run_and_come_at_least_every_five_minutes():
    pauses = [writer.pause_after(seconds) for seconds in (0, 0.01, 2, 600)]
    assert pauses == [10, 10, 200, 300]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("estimator", [vr.saga(), vr.control_variate()], ids=["pass", "search"])
def test_a_signal_before_the_first_step(tmp_path, monkeypatch, estimator, number):
    """In the one pass over the data that saga begins with, or in the search for a centre."""
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    calls, climb, iterations = [], lbfgs._climb, []

    def init(key):
        calls.append(1)
        if len(calls) == 2:  # the first call is that of the look at its shapes
            signal.raise_signal(number)
        return 0.1 * jax.random.normal(key, (D,))

    def counted(*arguments):
        iterations.append(1)
        return climb(*arguments)

    monkeypatch.setattr(lbfgs, "_climb", counted)
    options = {"init": init, "estimator": estimator}
    with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit) as caught:
        run(tmp_path, **options)
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before
    assert str(caught.value) == (
        "143" if number == signal.SIGTERM else "interrupted before the first step"
    )
    assert len(iterations) == (estimator.name == "control_variate")
    assert_same_run(run(tmp_path, **options), run(**options))
