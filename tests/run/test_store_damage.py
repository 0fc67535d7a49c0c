"""Faults, damage and hostile content of a run directory.

`Writer` alone is tried with faults at every call and with damage to every file, because it is fast;
`vr.sample(run_dir=...)` with a few of each, because there the end must be that of an unbroken run.
"""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.crashes import Crash
from support.small_runs import assert_same_run, broken_run, everything_in, run, whole_run

from vrsgmcmc.run import store
from vrsgmcmc.run.store import commits, folder
from vrsgmcmc.run.store.draws import Layout

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
    start = writer.chunks * 6 + writer.buffered
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

    write_all = wrapped(folder.write_all)

    def half_written(handle, content):
        """A file of which only a half is written when the fault comes."""
        if len(calls) == at and kind == "after":
            os.write(handle, content[: len(content) // 2])
        write_all(handle, content)

    for name in ("fsync", "replace", "unlink", "ftruncate"):
        monkeypatch.setattr(os, name, wrapped(getattr(os, name)))
    monkeypatch.setattr(folder, "write_all", half_written)
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
        before = commits.load(store.Folder(tmp_path), "commit.previous.json")
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
    """A zarr of format 2 may carry a filter that unpickles; draws are read without any metadata."""
    result = run(tmp_path)
    folder = tmp_path / "draws.zarr" / "posterior" / "x"
    metadata = json.loads((folder / "zarr.json").read_text())
    metadata["codecs"].append({"name": "numcodecs.pickle"})
    (folder / "zarr.json").write_text(json.dumps(metadata))
    (folder / ".zarray").write_text(json.dumps({"zarr_format": 2, "filters": [{"id": "pickle"}]}))
    opened = store.open(tmp_path)
    np.testing.assert_array_equal(opened.leaves["x"], result.draws)
    assert any(note.startswith("draws.zarr/posterior/x/zarr.json: ") for note in opened.notes)


def test_nothing_is_pickled_or_imported():
    source = Path(store.__file__).parent
    text = "".join(file.read_text() for file in source.glob("*.py"))
    for word in ("import pickle", "pickle.", "allow_pickle", "eval(", "exec(", "import_module"):
        assert word not in text
