"""Directories that `vr.sample(run_dir=...)` refuses: another run, no run, no rights, no room."""

import errno
import logging
import os
import resource
import shutil
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest
from support.crashes import Crash
from support.small_runs import (
    D,
    X,
    assert_same_run,
    broken_run,
    everything_in,
    run,
    square,
    whole_run,
)

import vrsgmcmc as vr
from vrsgmcmc.run import store
from vrsgmcmc.run.store import draws, environment, writer


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
    monkeypatch.setattr(
        "support.small_runs.POSTERIOR", vr.models.gaussian.posterior(prior_variance=2.0)
    )
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
