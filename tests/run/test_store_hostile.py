"""Hostile and unlucky run directories: links, pipes, chunks in the wrong place, crafted commits."""

import ast
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support.attacks import unreadable
from support.small_runs import assert_same_run, broken_run, everything_in, run, whole_run

import vrsgmcmc
from vrsgmcmc.run import read_result, store
from vrsgmcmc.run.store import commits, draws, writer

SOURCE = Path(vrsgmcmc.__file__).parent


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    """A finished run and one that was broken off, which nobody changes."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        from support.crashes import commit_chunks

        commit_chunks(patch, 16)
        patch.setattr(draws, "CHUNK_BYTES", 20 * 2 * 2 * 8)
        run(folder / "finished")
        broken_run(folder / "broken", patch, 5)
        run(folder / "other", key=8)
    return folder


@pytest.fixture
def copy(templates, tmp_path, small):
    """A copy of one of them."""

    def make(name, to="run"):
        return Path(shutil.copytree(templates / name, tmp_path / to))

    return make


def read_everything(path):
    """All that reads a run, with or without its model; a resumed run is read too."""
    opened = store.open(path)
    values = [opened.status, opened.averages, opened.metrics, opened.environment]
    values += [opened.draws["posterior"].load(), read_result(opened).draws]
    return values


# --- links, pipes and names ----------------------------------------------------------------------

NAMES = ["commit.json", "commit.previous.json", "config.json", "environment.json", "metrics.jsonl"]
NAMES += ["draws.sha256", "run.lock", "draws.zarr", "draws.zarr/posterior/x/c/0"]
NAMES += ["draws.zarr/posterior/x/zarr.json", "draws.zarr/zarr.json.part", "state-99.safetensors"]
NAMES += ["commit.json.part", "draws.zarr/posterior/x/c/0/3", "state"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_written_or_read_through_a_link(copy, tmp_path, name):
    """The link leads to the true content, so whatever follows it would work."""
    path, outside = copy("broken"), tmp_path / "outside"
    if name == "state":
        name = sorted(file.name for file in path.glob("state-*"))[-1]
    if (path / name).exists():
        (path / name).rename(outside)
    else:
        outside.write_text("precious")
    (path / name).symlink_to(outside)
    before = everything_in(tmp_path) if outside.is_dir() else outside.read_bytes()
    with suppress(store.RunError):
        run(path)
    store.verify(path)
    after = everything_in(tmp_path) if outside.is_dir() else outside.read_bytes()
    if outside.is_dir():
        before, after = ({k: v for k, v in each.items() if k.startswith("outside")}
                         for each in (before, after))  # fmt: skip
    assert after == before


def test_the_directory_itself_may_be_a_link(copy, tmp_path):
    path, link = copy("broken"), tmp_path / "link"
    link.symlink_to(path)
    assert_same_run(run(link), whole_run())
    assert store.verify(link) == []
    link.unlink()
    assert store.verify(path) == []


def test_a_file_with_a_second_name_is_not_changed(copy, tmp_path):
    path = copy("broken")
    os.link(path / "metrics.jsonl", tmp_path / "outside")
    before = (tmp_path / "outside").read_bytes()
    with pytest.raises(store.RunError, match=r"metrics\.jsonl is a file with a second name"):
        run(path)
    assert (tmp_path / "outside").read_bytes() == before


PIPES = """
import os, sys
from pathlib import Path
from vrsgmcmc.run import store
path = Path(sys.argv[1])
names = sorted(str(f.relative_to(path)) for f in path.rglob("*") if f.is_file())
for name in names:
    content = (path / name).read_bytes()
    (path / name).unlink()
    os.mkfifo(path / name)
    problems = store.verify(path)
    assert name == "run.lock" or any(name in text for text in problems), (name, problems)
    try:
        opened = store.open(path)
        opened.metrics, opened.averages, opened.draws["posterior"].load()
    except store.RunError:
        pass
    try:
        with store.write(path, {}, {"versions": {}}, None, 0):
            pass
    except store.RunError:
        pass
    (path / name).unlink()
    (path / name).write_bytes(content)
assert store.verify(path) == []
"""


def test_a_pipe_does_not_block(copy):
    path = copy("finished")
    subprocess.run([sys.executable, "-c", PIPES, str(path)], check=True, timeout=300)


# --- draws that are not there, or not there ------------------------------------------------------


def test_a_chunk_that_goes_missing_is_an_error_and_no_nan(copy):
    path = copy("finished")
    opened = store.open(path)
    (path / "draws.zarr/posterior/x/c/0/1/0").unlink()
    with pytest.raises(store.RunError, match=r"draws of x are damaged \(.*c/0/1/0: missing\)"):
        np.asarray(opened.leaves["x"])
    assert np.isfinite(opened.draws["posterior"]["x"][:, :20]).all()  # the others can be read


def test_a_directory_that_was_renamed_or_replaced_is_an_error(copy, tmp_path):
    path = copy("finished")
    opened = store.open(path)
    path.rename(tmp_path / "renamed")
    with pytest.raises(store.RunError, match="was renamed, deleted or replaced while"):
        np.asarray(opened.leaves["x"])
    copy("finished")
    with pytest.raises(store.RunError, match="was renamed, deleted or replaced while"):
        np.asarray(opened.leaves["x"])
    assert np.isfinite(store.open(path).leaves["x"]).all()


def test_a_relative_path_stays_where_it_was(copy, tmp_path, monkeypatch):
    path = copy("broken")
    monkeypatch.chdir(tmp_path)
    opened, finished = store.open("run"), run("run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert opened.path == finished.run_dir == path
    count = opened.commit["draws"]
    np.testing.assert_array_equal(finished.draws, whole_run().draws)
    chunks = opened.commit["chunks"] * 20
    np.testing.assert_array_equal(opened.leaves["x"].read((slice(None), slice(0, chunks), slice(None))),
                                  finished.draws[:, :chunks])  # fmt: skip
    assert count >= chunks


@pytest.mark.parametrize("other", ["swapped", "another run"])
def test_a_chunk_in_the_wrong_place_is_noticed(copy, templates, other):
    path = copy("finished")
    first, second = (path / f"draws.zarr/posterior/x/c/0/{number}/0" for number in (0, 1))
    source = second if other == "swapped" else templates / "other" / first.relative_to(path)
    shutil.copyfile(source, first)
    for draws_of in (lambda: run(path).draws, lambda: np.asarray(store.open(path).leaves["x"])):
        with pytest.raises(store.RunError, match=r"c/0/0/0: it is not as it was committed"):
            draws_of()
    # without the list of sums crc32c is left, which the chunk passes: said, and not more
    (path / "draws.sha256").unlink()
    opened = store.open(path)
    assert any("cannot see a chunk in the wrong place" in note for note in opened.notes)
    assert np.asarray(opened.leaves["x"]).shape == (2, 96, 2)
    assert "draws.sha256: missing" in store.verify(path)
    with pytest.raises(store.RunError, match="chunks of draws are not those that it listed"):
        run(path)


def test_a_lost_list_of_sums_is_made_again(copy):
    path = copy("finished")
    before = everything_in(path)
    (path / "draws.sha256").unlink()
    assert_same_run(run(path), whole_run())
    assert everything_in(path) == before


def test_metadata_of_zarr_cannot_change_a_draw(copy):
    path = copy("finished")
    file = path / "draws.zarr/posterior/x/zarr.json"
    file.write_text(file.read_text().replace('"/"', '"."'))
    opened = store.open(path)
    np.testing.assert_array_equal(opened.leaves["x"], whole_run().draws)
    assert any("x/zarr.json: damaged" in note for note in opened.notes)


def test_a_chunk_is_summed_once(copy, monkeypatch):
    opened, sums = store.open(copy("finished")), []
    is_whole = type(opened.leaves["x"]).is_whole
    monkeypatch.setattr(
        type(opened.leaves["x"]), "is_whole", lambda *a: sums.append(a[1]) or is_whole(*a)
    )
    for _ in range(2):
        np.asarray(opened.leaves["x"])
    assert len(sums) == 5


@pytest.mark.parametrize("key", [
    (slice(None), slice(None), slice(None)), (1, slice(3, 70, 7), 0), (slice(0, 1), 45, slice(None)),
    (0, 95, 1), (slice(None), slice(19, 21), 1), (slice(None), slice(5, 5), slice(None)),
    (0, slice(90, 96), slice(None)), (slice(None), slice(0, 96, 50), slice(0, 1)),
])  # fmt: skip
def test_every_way_to_index(templates, key, small):
    for name in ("finished", "broken"):
        stored = store.open(templates / name).leaves["x"]
        whole = whole_run().draws[:, : stored.shape[1]]
        if not isinstance(key[1], slice) and key[1] >= stored.shape[1]:
            continue
        np.testing.assert_array_equal(stored.read(key), whole[key])


# --- commits -------------------------------------------------------------------------------------


def crafted(path, change):
    """Commits that were changed and have right sums: as an attacker would write them."""
    for name in (commits.CURRENT, commits.PREVIOUS):
        body = json.loads((path / name).read_text())
        for key in ("sha256", "format"):
            body.pop(key)
        change(body)
        (path / name).write_bytes(commits.to_bytes(body))


def places(value, at=()):
    """Every place in a nested value."""
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))


ODD = [
    None,
    True,
    -1,
    2**40,
    2**70,
    1.5,
    "x",
    "",
    [],
    {},
    [[]],
    [-1],
    [2**62],
    {"name": 3},
    "\ud800",
]
MISSING = object()


def put(body, place, value):
    for key in place[:-1]:
        body = body[key]
    if value is MISSING:
        del body[place[-1]]
    else:
        body[place[-1]] = value


def try_crafted(path, count, seed):
    """Only run errors come out of a commit with one odd value, and nothing takes long."""
    body = json.loads((path / "commit.json").read_text())
    every = [place for place in places(body) if place and place[0] not in ("sha256", "format")]
    generator, refused = np.random.default_rng(seed), 0
    fresh = path.rename(path.with_name("fresh"))
    for number in range(count):
        place = every[number % len(every) if count > len(every) else generator.integers(len(every))]
        value = [*ODD, MISSING][generator.integers(len(ODD) + 1)]
        shutil.copytree(fresh, path)
        with suppress(KeyError, IndexError, TypeError):  # the commit before has no such place
            crafted(path, lambda body, place=place, value=value: put(body, place, value))
        store.verify(path)
        for attempt in (read_everything, run):
            try:
                attempt(path)
            except store.RunError:
                refused += 1
        shutil.rmtree(path)
    return refused


def test_a_crafted_commit_is_a_run_error(copy):
    assert try_crafted(copy("finished"), 60, seed=1) > 30


@pytest.mark.slow
@pytest.mark.parametrize("name", ["finished", "broken"])
def test_many_crafted_commits(copy, name):
    assert try_crafted(copy(name), 300, seed=2) > 150


HUGE = [
    ("chunks", lambda body: body.update(chunks=2**40, draws=2**40 * 20)),
    ("draws", lambda body: (body.update(draws=2**40, chunks=0),
                            body["config"]["draws"].update(chunk=2**45, draws=2**45))),
    ("chains", lambda body: (body["config"].update(num_chains=2**40),
                             body["config"]["draws"].update(chains=2**40))),
    ("no draws", lambda body: (body.update(draws=0, chunks=0),
                               body["config"].update(num_chains=2**40, draws=None))),
    ("leaf", lambda body: body["config"]["draws"]["leaves"][0].update(shape=[2**40])),
    ("axes", lambda body: body["config"]["draws"]["leaves"][0].update(shape=[1] * 10**5)),
    ("empty", lambda body: (body.update(draws=2**50, chunks=2**50),
                            body["config"]["draws"].update(chunk=1, draws=2**50),
                            body["config"]["draws"]["leaves"][0].update(shape=[0]))),
    ("leaves", lambda body: body["config"]["draws"].update(
        leaves=[{"name": "x", "variable": "x", "shape": [2], "dtype": "float64"}] * 10**5)),
    ("number", lambda body: body.update(number=10**40)),
    ("metrics", lambda body: body["files"]["metrics.jsonl"].__setitem__(0, 2**52)),
]  # fmt: skip
QUICK = ("chunks", "leaf", "leaves")
LIMITED = """
import resource, sys
from vrsgmcmc.run import store, read_result
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
said = store.verify(sys.argv[1])
assert said
try:
    opened = store.open(sys.argv[1])
    opened.draws, opened.averages, opened.metrics, read_result(opened)
except store.RunError as error:
    print(str(error)[:200])
"""


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param(*row, id=row[0], marks=() if row[0] in QUICK else pytest.mark.slow)
        for row in HUGE
    ],
)
def test_huge_numbers_in_a_commit_are_refused_at_once(copy, name, change):
    path = copy("finished")
    crafted(path, change)
    limit = 8 * 2**30 if sys.maxsize > 2**32 else 2**30  # addresses; XLA alone reserves several GB
    command = [sys.executable, "-c", LIMITED, str(path), str(limit)]
    subprocess.run(command, check=True, timeout=120)


def test_huge_numbers_are_refused_without_a_state_too(copy):
    """Counts are compared with the chunks that exist, also where the state cannot be checked."""
    path = copy("finished")
    crafted(path, lambda body: body.update(chunks=2**40, draws=2**40 * 20))
    for state in path.glob("state-*"):
        state.unlink()
    assert any("1,099,511,627,776 chunks are counted" in text for text in store.verify(path))
    with pytest.raises(store.RunError, match="no whole commit is left"):
        store.open(path)


def test_swapped_commits_are_noticed(copy):
    path = copy("finished")
    names = ("commit.json", "commit.previous.json")
    first, second = ((path / name).read_bytes() for name in names)
    (path / names[0]).write_bytes(second)
    (path / names[1]).write_bytes(first)
    assert store.verify(path) == ["commit.json: older than commit.previous.json"]
    assert store.open(path).status == "finished"
    assert "commit.json: older than commit.previous.json" in store.open(path).notes
    assert_same_run(run(path), whole_run())


@pytest.mark.parametrize("name", ["commit.json", "0", "posterior", "draws.sha256", "run.lock"])
def test_what_may_not_be_opened_is_a_run_error(copy, name):
    path = copy("broken")
    with unreadable(name):
        store.verify(path)
        for use in (read_everything, run):
            with suppress(store.RunError):
                use(path)
    assert_same_run(run(path), whole_run())


def flip(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def try_flips(path, count, seed):
    """Flipped bits of small files: what is read is right, or a run error comes."""
    names = [n for n in everything_in(path) if "/c/" not in n and n != "run.lock"]
    generator, expected = np.random.default_rng(seed), whole_run().draws
    for number in range(count):
        name = names[number % len(names)]
        content = (path / name).read_bytes()
        (path / name).write_bytes(flip(content, int(generator.integers(8 * len(content)))))
        assert store.verify(path), name
        try:
            opened = store.open(path)
            read_everything(path)
            leaf = np.asarray(opened.leaves["x"])
            np.testing.assert_array_equal(leaf, expected[:, : leaf.shape[1]])
        except store.RunError:
            pass
        (path / name).write_bytes(content)


def test_flipped_bits_give_right_draws_or_a_run_error(copy):
    try_flips(copy("finished"), 60, seed=1)
    try_flips(copy("broken", "second"), 60, seed=2)


@pytest.mark.slow
def test_many_flipped_bits(copy):
    try_flips(copy("finished"), 800, seed=3)


# --- the writer ----------------------------------------------------------------------------------


def disturb(monkeypatch, count, action):
    """Something happens to the directory behind commit number `count`."""
    commit, seen = writer.Writer.commit, []

    def disturbed(self, *arguments, **options):
        commit(self, *arguments, **options)
        seen.append(1)
        if len(seen) == count:
            action(self.path)

    monkeypatch.setattr(writer.Writer, "commit", disturbed)


def test_a_renamed_directory_stops_its_writer(tmp_path, monkeypatch, small):
    path, new = tmp_path / "run", tmp_path / "new"
    with monkeypatch.context() as patch:
        disturb(patch, 3, lambda path: path.rename(new))
        with pytest.raises(
            store.RunError, match=rf"renamed.*it is '{new}' now.*last commit is whole"
        ):
            run(path)
    assert not path.exists()
    assert store.verify(new) == []
    assert_same_run(run(new), whole_run())


def test_a_deleted_directory_stops_its_writer(tmp_path, monkeypatch, small):
    disturb(monkeypatch, 3, shutil.rmtree)
    with pytest.raises(store.RunError, match="it is deleted, and its last commit with it"):
        run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("again", [False, True])
def test_a_deleted_lock_stops_its_writer(tmp_path, monkeypatch, small, again):
    def action(path):
        (path / "run.lock").unlink()
        if again:
            (path / "run.lock").touch()

    with monkeypatch.context() as patch:
        disturb(patch, 3, action)
        with pytest.raises(store.RunError, match=r"run\.lock was deleted or replaced"):
            run(tmp_path)
    assert store.verify(tmp_path) == []
    assert_same_run(run(tmp_path), whole_run())


def test_a_commit_of_another_writer_stops_this_one(tmp_path, monkeypatch, small):
    def action(path):
        shutil.copyfile(path / "commit.previous.json", path / "commit.json")

    with monkeypatch.context() as patch:
        disturb(patch, 3, action)
        with pytest.raises(store.RunError, match=r"commit\.json was changed by another process"):
            run(tmp_path)
    assert_same_run(run(tmp_path), whole_run())


# --- one door ------------------------------------------------------------------------------------

TOUCH = {
    "read_bytes",
    "read_text",
    "write_bytes",
    "write_text",
    "unlink",
    "rename",
    "replace",
    "touch",
}
TOUCH |= {"iterdir", "glob", "rglob", "symlink_to", "mkdir", "rmdir", "savefig", "open", "truncate"}
TOUCH |= {"fromfile", "tofile", "memmap", "load_file", "save_file", "safe_open", "open_array"}
OFFERED = {
    ("store", "open"),
    ("folder", "replace"),
    ("folder", "truncate"),
    ("source", "read_text"),
}  # of the package
MODULES = {"os", "io", "shutil", "tempfile", "filelock"}
HARMLESS = {"os.path", "shutil.disk_usage", "os.environ"}
OTHERS = {
    "folder.py",
    "environment.py",
    "user_model.py",
}  # the door; /proc/cpuinfo; a user's program
FILES = [*SOURCE.glob("run/store/*.py"), *SOURCE.glob("cli/jobs/*.py"), SOURCE / "run/storage.py"]
FILES += [SOURCE / "reports/writer.py", SOURCE / "cli/inspect.py"]


def touches(tree):
    """Calls that open, make, move or delete files."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and function.id == "open":
                yield node.lineno, "open"
            if isinstance(function, ast.Attribute):
                base = ast.unparse(function.value)
                last, name = base.split(".")[-1], function.attr
                known = (last, name) in OFFERED or (name == "replace" and len(node.args) == 2)
                text = f"{base}.{name}"
                if (base in MODULES and text not in HARMLESS) or (name in TOUCH and not known):
                    yield node.lineno, text


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_only_one_file_opens_files_of_a_run(file):
    tree = ast.parse(file.read_text())
    if file.name not in OTHERS:
        assert list(touches(tree)) == []
    assert "LocalStore" not in file.read_text()


def test_the_test_above_sees_the_door():
    assert len(list(touches(ast.parse((SOURCE / "run/store/folder.py").read_text())))) > 10
