"""A run directory: what is in it, how it is resumed and refused, and what damage does to it.

`Writer` alone is tried with faults at every call and with damage to every file, because it is fast;
`vr.sample(run_dir=...)` with a few of each, because there the end must be that of an unbroken run.
"""

import errno
import hashlib
import json
import logging
import os
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import psutil
import pytest
import xarray
import zarr
from support.crashes import Crash, commit_chunks, crash_after

import vrsgmcmc as vr
from vrsgmcmc.run import loop, mode, store
from vrsgmcmc.run.store import commits, draws, environment, files, writer
from vrsgmcmc.run.store.draws import Layout

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


@pytest.fixture
def small(monkeypatch):
    """Chunks of 16 units; 20 draws in a chunk of zarr."""
    commit_chunks(monkeypatch, 16)
    monkeypatch.setattr(draws, "CHUNK_BYTES", 20 * CHAINS * D * 8)


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
    ],
    ids=["sequential sghmc", "saga sgnht", "control_variate", "averaged anchor, schedule, psgld"],
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
    monkeypatch.setattr(loop, "Run", None)
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
    assert type(result.__dict__["draws"]).__name__ == "Later"
    repr(result)
    assert type(result.__dict__["draws"]).__name__ == "Later"
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

            def stop(source, target, name=name, replace=replace):
                if Path(target).name == name:
                    raise Crash
                replace(source, target)

            patch.setattr(os, "replace", stop)
            with pytest.raises(Crash):
                run(path, thin=2)
        assert_same_run(run(path), whole_run())


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_steps": 200}, r"num_steps: 96 in the run, 200 here.*init=result.state"),
        ({"step_size": 0.02}, r"step_size: \[0.01, 0.01\] in the run, \[0.02, 0.02\] here"),
        ({"batch_size": 5}, r"batch_size: 4 in the run, 5 here"),
        ({"estimator": vr.practical(8, 6)}, r"estimator.period: 5 in the run, 6 here"),
        ({"integrator": vr.sgld(0.5)}, r"integrator.temperature: 1.0 in the run, 0.5 here"),
        ({"data": X + 1e-9}, r"data.sha256: \w+ .*in the run, \w+ .*here"),
        ({"key": 8}, r"seed.words: \[0, 7\] in the run, \[0, 8\] here"),
        ({"init": np.ones(D)}, r"init: \w+ .*in the run"),
        ({"observables": {"square": lambda x: x**2 + 1}}, r"model.stablehlo_sha256: \w+"),
        ({"observables": {"other": square}}, r"observables.other"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_another_run_is_refused_with_what_differs(tmp_path, monkeypatch, small, options, message):
    path = shared("broken", monkeypatch)
    before = everything_in(path)
    with pytest.raises(store.RunError, match=rf"(?s)holds another run:.*{message}") as caught:
        run(path, **options)
    assert "Make these equal to resume it, or name another directory" in str(caught.value)
    assert everything_in(path) == before


SHARED = {}


def shared(name, monkeypatch):
    """A broken run that a test does not change, made once."""
    if name not in SHARED:
        SHARED[name] = Path(tempfile.mkdtemp()) / name
        broken_run(SHARED[name], monkeypatch)
    return SHARED[name]


@pytest.fixture(scope="module", autouse=True)
def remove_shared():
    yield
    for path in SHARED.values():
        shutil.rmtree(path.parent)
    SHARED.clear()  # a worker may come back to this module


def test_another_prior_is_another_run(tmp_path, monkeypatch, small):
    path = shared("broken", monkeypatch)
    monkeypatch.setattr(f"{__name__}.POSTERIOR", vr.models.gaussian.posterior(prior_variance=2.0))
    with pytest.raises(store.RunError, match=r"model\.stablehlo_sha256"):
        run(path)


@pytest.mark.parametrize(
    ("part", "name", "refused"),
    [
        ("versions", "jax", True),
        ("versions", "jaxlib", True),
        ("devices", "count", True),
        ("options", "jax_enable_x64", True),
        ("versions", "numpy", False),
        ("cpu", None, False),
        ("xla_flags", None, False),
    ],
)
def test_another_environment(tmp_path, monkeypatch, small, caplog, part, name, refused):
    path = tmp_path / "run"
    shutil.copytree(shared("broken", monkeypatch), path)
    describe = environment.describe

    def other(*arguments):
        found = describe(*arguments)
        if name is None:
            return found | {part: "another"}
        return found | {part: found[part] | {name: "another"}}

    monkeypatch.setattr(environment, "describe", other)
    where = f"{part}.{name}" if name else part
    if refused:
        with pytest.raises(store.RunError, match=rf"{where}: .* in the run, another here"):
            run(path)
        return
    with caplog.at_level(logging.WARNING, logger="vrsgmcmc"):
        assert_same_run(run(path), whole_run())
    assert f"{where}:" in caplog.text
    assert "bits may differ" in caplog.text


def test_a_finished_run_is_loaded_on_any_machine(tmp_path, monkeypatch, small):
    run(tmp_path)
    describe = environment.describe
    monkeypatch.setattr(
        environment,
        "describe",
        lambda *a: describe(*a) | {"versions": {"jax": "99"}, "devices": {}},
    )
    assert_same_run(run(tmp_path), whole_run())
    with pytest.raises(store.RunError, match=r"num_steps: 96 in the run, 97 here"):
        run(tmp_path, num_steps=97)


def test_a_directory_that_is_not_a_run_is_refused_and_left_alone(tmp_path):
    for names in (
        ["notes.txt"],
        ["config.json"],
        ["run.lock", "thesis.tex"],
        ["state-0.safetensors"],
    ):
        path = tmp_path / names[-1]
        path.mkdir()
        for name in names:
            (path / name).write_text("mine")
        with pytest.raises(store.RunError, match=rf"not empty and not a run.*{names[-1]}"):
            run(path)
        assert {file.name: file.read_text() for file in path.iterdir()} == dict.fromkeys(
            names, "mine"
        )
    (tmp_path / "empty").mkdir()
    run(tmp_path / "empty")


def test_a_second_writer_is_refused_at_once(tmp_path, monkeypatch, small):
    refused = []

    def second(self, *_, **__):
        with pytest.raises(store.RunError, match="another process is writing to this run"):
            run(tmp_path)
        refused.append(1)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(writer.Writer, "commit", second)
        with pytest.raises(Crash):
            run(tmp_path)
    assert refused
    assert_same_run(run(tmp_path), whole_run())  # the lock went with its holder


@pytest.fixture
def as_nobody():
    """Rights do not bind root; a process that has them drops them for a while."""
    root = os.geteuid() == 0
    packages = Path(np.__file__).parents
    if root and not all(folder.stat().st_mode & stat.S_IXOTH for folder in packages):
        pytest.skip("nobody but root can read the installed packages")
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)

    def drop():
        if root:
            os.seteuid(65534)

    try:
        yield base, drop
    finally:
        if root:
            os.seteuid(0)
        for path in (base, *base.rglob("*")):
            path.chmod(path.stat().st_mode | stat.S_IRWXU)
        shutil.rmtree(base)


def test_a_read_only_directory(as_nobody, monkeypatch, small):
    base, drop = as_nobody
    run(base / "finished")
    broken_run(base / "broken", monkeypatch)
    for path in (base, *base.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    drop()
    assert_same_run(run(base / "finished"), whole_run())
    for name in ("broken", "new"):
        with pytest.raises(
            PermissionError, match=r"run_dir=.*cannot be written.*Choose a directory"
        ):
            run(base / name)
    assert store.open(base / "broken").status.startswith("interrupted")


def test_a_disk_that_is_too_small_is_refused_before_the_start(tmp_path, monkeypatch, small):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=5_000))
    with pytest.raises(OSError, match=r"this run needs [\d,]+ bytes and 5,000 are free") as caught:
        run(tmp_path / "run", num_steps=100_000)
    assert caught.value.errno == errno.ENOSPC


def test_a_full_disk_damages_nothing(tmp_path, monkeypatch, small):
    """A limit on the size of files stands for the disk: the tail outgrows it."""
    monkeypatch.setattr(draws, "CHUNK_BYTES", 2**23)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"[\d,]+ bytes are needed and [\d,]+ are free") as caught:
            run(tmp_path / "run", num_steps=400)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "nothing is damaged: make room and run the same again" in str(caught.value)
    assert store.verify(tmp_path / "run") == []
    steps = store.open(tmp_path / "run").progress["steps"]
    assert 0 < steps < 400
    assert_same_run(run(tmp_path / "run", num_steps=400), whole_run(num_steps=400))


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


@pytest.mark.slow  # where it is in memory is in test_sample.py; what is on disk then is above
def test_a_nan_at_a_given_step(tmp_path, monkeypatch, small):
    """x grows by 0.1 a step; above 1.05 its gradient is NaN: x_11 = 1.1 is the last finite one."""
    cliff = vr.Posterior(
        lambda x: 0.0 * x, lambda x, datum: jnp.where(x > 1.05, jnp.nan, 1.0) * x + 0.0 * datum
    )
    options = {"init": 0.0, "data": np.ones(5), "estimator": vr.full(), "batch_size": 1}
    options |= {"integrator": vr.sgld(0.0), "step_size": 0.02, "observables": {}}
    monkeypatch.setattr(f"{__name__}.POSTERIOR", cliff)
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
    calls, climb, iterations = [], mode._climb, []

    def init(key):
        calls.append(1)
        if len(calls) == 2:  # the first call is that of the look at its shapes
            signal.raise_signal(number)
        return 0.1 * jax.random.normal(key, (D,))

    def counted(*arguments):
        iterations.append(1)
        return climb(*arguments)

    monkeypatch.setattr(mode, "_climb", counted)
    options = {"init": init, "estimator": estimator}
    with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit) as caught:
        run(tmp_path, **options)
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before
    assert str(caught.value) == (
        "143" if number == signal.SIGTERM else "interrupted before the first step"
    )
    assert len(iterations) == (estimator.name == "control_variate")
    assert_same_run(run(tmp_path, **options), run(**options))


# --- the writer alone: faults and damage ---------------------------------------------------------

LAYOUT = Layout.of([("a", np.zeros(3)), ("b", np.zeros((), np.float32))], chains=2, draws=40)
LAYOUT = Layout(LAYOUT.leaves, 2, 40, 6)
CONFIG = {"num_steps": 40, "num_chains": 2, "burn_in": 0, "thin": 1, "first_step": 0}
CONFIG |= {"observables": {}, "draws": LAYOUT.to_json()}
SURROUNDINGS = {"data": "0", "versions": {"jax": "1"}}


def values(start, stop):
    step = np.arange(start, stop, dtype=float)
    a = step[None, :, None] + np.array([0.1, 0.2])[:, None, None] + np.array([0.0, 100.0, 200.0])
    return [a, a[..., 0].astype(np.float32)]


def advance(writer, stop):
    """Draws up to `stop`, and a commit."""
    start = writer.chunks * 6 + writer.held
    writer.append(values(start, stop))
    carry = {"carry/position": np.full((2, 3), float(stop))}
    writer.commit(carry, {"steps": stop, "divergences": []}, finished=stop == 40)


def toy(path):
    return store.write(path, CONFIG, SURROUNDINGS, LAYOUT, state_bytes=100)


def assert_is_whole(path, allowed):
    """The directory holds one of the allowed commits, with everything that belongs to it."""
    opened = store.open(path)
    steps = opened.progress["steps"]
    assert steps in allowed
    np.testing.assert_array_equal(opened.arrays["carry/position"], np.full((2, 3), float(steps)))
    for stored, expected in zip(opened.leaves.values(), values(0, steps), strict=True):
        np.testing.assert_array_equal(np.asarray(stored), expected)
    assert [line["steps"] for line in opened.metrics][-1] == steps
    return steps


def faults(monkeypatch, at, kind):
    """The `at`-th call that changes the disk fails, or ends the process before or after it."""
    calls = []

    def wrapped(function, counts=lambda *_: True):
        def call(*arguments, **options):
            if not counts(*arguments):
                return function(*arguments, **options)
            calls.append(1)
            if len(calls) - 1 != at:
                return function(*arguments, **options)
            if kind == "error":
                raise OSError(errno.EIO, "broken disk")
            if kind == "after":
                function(*arguments, **options)
            raise Crash

        return call

    def half_written(path, mode="r", *rest):
        file = open(path, mode, *rest)  # noqa: SIM115 (whoever asked for it closes it)
        return file if "r" in mode else Half(file, wrapped(file.write))

    class Half:
        """A file of which only a half is written when the fault comes."""

        def __init__(self, file, write):
            self.file, self.whole = file, write

        def write(self, content):
            before = len(calls)
            if before == at and kind == "after":
                self.file.write(content[: len(content) // 2])
            return self.whole(content)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

    for name in ("fsync", "replace", "unlink", "truncate"):
        monkeypatch.setattr(os, name, wrapped(getattr(os, name)))
    monkeypatch.setattr(files, "open", half_written, raising=False)
    return calls


@pytest.mark.parametrize("kind", ["error", "after", pytest.param("before", marks=pytest.mark.slow)])
def test_a_fault_at_any_call_leaves_the_old_commit_or_the_new(tmp_path, monkeypatch, kind):
    """Resume at 15 of 40, and commit at 27: everything that touches the disk fails once."""
    template = tmp_path / "template"
    with toy(template) as writer:
        for stop in (0, 8, 15):
            advance(writer, stop)
    at, seen = 0, set()
    while True:
        path = tmp_path / str(at)
        shutil.copytree(template, path)
        with monkeypatch.context() as patch:
            calls = faults(patch, at, kind)
            try:
                with toy(path) as writer:
                    advance(writer, 27)
            except (Crash, OSError):
                pass
            reached = len(calls) > at
        assert store.verify(path) == []
        seen.add(assert_is_whole(path, (15, 27)))
        with toy(path) as writer:
            assert writer.resumed.notes == ()
            if writer.resumed.progress["steps"] < 27:
                advance(writer, 27)
            advance(writer, 40)
        assert store.verify(path) == []
        assert_is_whole(path, (40,))
        at += 1
        if not reached:
            break
    assert at > 15
    assert seen == {15, 27}


def damaged(path, generator, kind, names):
    """One bit flipped, a file cut off, or a file deleted. The name of the file."""
    name = names[generator.integers(len(names))]
    file = path / name
    content = bytearray(file.read_bytes())
    if kind == "delete":
        file.unlink()
    elif kind == "cut":
        file.write_bytes(content[: generator.integers(len(content))])
    else:
        bit = int(generator.integers(8 * len(content)))
        content[bit // 8] ^= 1 << bit % 8
        file.write_bytes(content)
    return name


def try_damage(tmp_path, monkeypatch, caplog, counts, seed):
    """Damage everywhere: `verify` sees it, and the run goes on from a whole commit or is refused."""
    template = tmp_path / "template"
    with toy(template) as writer:
        for stop in (0, 8, 15, 27):
            advance(writer, stop)
    names = [name for name in everything_in(template) if name != "run.lock"]
    generator = np.random.default_rng(seed)
    ends = []
    for kind, count in counts.items():
        for _ in range(count):
            path = tmp_path / "run"
            shutil.copytree(template, path)
            name = damaged(path, generator, kind, names)
            problems = store.verify(path)
            assert any(text.startswith(f"{name}: ") for text in problems), (name, problems)
            caplog.clear()
            shared_chunk = "/c/0/0" in name or "/c/0/1" in name
            try:
                with toy(path) as writer:
                    start = writer.resumed.progress["steps"]
                    said = caplog.text
                    for stop in (27, 40):
                        if stop > start:
                            advance(writer, stop)
            except store.RunError as error:
                told, end = str(error), "refused"
            else:
                assert not shared_chunk
                assert_is_whole(path, (40,))
                assert store.verify(path) == []
                only_current = name in ("commit.json", "state-3.safetensors") or "/c/0/" in name
                end = "previous" if only_current else "made again"
                assert start == (15 if only_current else 27)
                if only_current:
                    assert "going back to the commit before, at step 15" in said
                if name not in ("commit.previous.json", "state-2.safetensors"):
                    assert f"{name}: " in said
            if end == "refused":  # both commits point at it: nothing else can be lost
                assert shared_chunk
                assert name in told
                assert "no whole commit is left" in told
            ends.append(end)
            shutil.rmtree(path)
    return ends


def test_damage_is_detected_and_the_commit_before_used(tmp_path, monkeypatch, caplog):
    counts = {"flip": 30, "cut": 10, "delete": 5}
    ends = try_damage(tmp_path, monkeypatch, caplog, counts, seed=1)
    assert {*ends} == {"previous", "made again", "refused"}


@pytest.mark.slow
def test_much_damage(tmp_path, monkeypatch, caplog):
    counts = {"flip": 1000, "cut": 200, "delete": 100}
    ends = try_damage(tmp_path, monkeypatch, caplog, counts, seed=2)
    assert len(ends) == 1300


@pytest.mark.parametrize("name", ["commit.json", "state", "config.json", "last chunk"])
def test_a_damaged_run_ends_as_an_unbroken_one(tmp_path, monkeypatch, small, caplog, name):
    broken_run(tmp_path, monkeypatch, 5)
    opened = store.open(tmp_path)
    number, chunks = opened.commit["number"], opened.commit["chunks"]
    files_ = {
        "state": f"state-{number}.safetensors",
        "last chunk": f"draws.zarr/posterior/x/c/0/{chunks - 1}/0",
    }
    generator = np.random.default_rng(3)
    damaged(tmp_path, generator, "flip", [files_.get(name, name)])
    if name == "last chunk":  # the commit before must not point at it for this to end well
        before = commits.load(tmp_path, "commit.previous.json")
        assert before["chunks"] == chunks - 1
    assert_same_run(run(tmp_path), whole_run())
    assert files_.get(name, name) in caplog.text
    assert ("going back to the commit before" in caplog.text) == (name != "config.json")
    assert store.verify(tmp_path) == []


def test_damaged_draws_of_a_finished_run_are_not_read(tmp_path, small):
    run(tmp_path)
    damaged(tmp_path, np.random.default_rng(0), "flip", ["draws.zarr/posterior/x/c/0/1/0"])
    result = run(tmp_path)
    with pytest.raises(store.RunError, match=r"draws of x are damaged.*`verify` lists"):
        _ = result.draws
    assert store.verify(tmp_path) == ["draws.zarr/posterior/x/c/0/1/0: damaged"]


# --- a hostile directory -------------------------------------------------------------------------


def test_a_commit_cannot_point_outside_its_directory(tmp_path, small):
    run(tmp_path)
    body = json.loads((tmp_path / "commit.json").read_text())
    for name in ("sha256", "format"):
        body.pop(name)
    for name in (
        "../outside",
        "/etc/passwd",
        "draws.zarr/../../x/zarr.json",
        "draws.zarr/posterior/../zarr.json",
    ):
        content = commits.to_bytes(body | {"files": {name: [1, "0"]}})
        with pytest.raises(store.RunError, match="is no file of a run"):
            commits.parse(content)
    layout = LAYOUT.to_json()
    layout["leaves"][0]["variable"] = "../../x"
    with pytest.raises(ValueError, match="not the name of a file"):
        Layout.from_json(layout)


def test_only_the_codecs_of_this_library_are_run(tmp_path, small):
    """A zarr of format 2 may carry a filter that unpickles; such metadata is never followed."""
    run(tmp_path)
    folder = tmp_path / "draws.zarr" / "posterior" / "x"
    metadata = json.loads((folder / "zarr.json").read_text())
    metadata["codecs"].append({"name": "numcodecs.pickle"})
    (folder / "zarr.json").write_text(json.dumps(metadata))
    (folder / ".zarray").write_text(json.dumps({"zarr_format": 2, "filters": [{"id": "pickle"}]}))
    with pytest.raises(store.RunError, match=r"zarr.json is damaged or not of this run"):
        np.asarray(store.open(tmp_path).leaves["x"])


def test_nothing_is_pickled_or_imported():
    source = Path(store.__file__).parent
    text = "".join(file.read_text() for file in source.glob("*.py"))
    for word in ("import pickle", "pickle.", "allow_pickle", "eval(", "exec(", "import_module"):
        assert word not in text
