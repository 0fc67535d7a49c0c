"""Attacks on the directory of a run or a job: each changes one thing, chosen by a seeded generator.

An attack takes the directory, another directory of the same kind, a generator, and the names of the
files to choose from. `CHANGES` are damage and mischief that the sums of a run know nothing of.
Forgeries are by somebody who writes right sums as well: only types, sizes and counts give them away.
"""

import hashlib
import json
import os
import shutil
import socket
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from vrsgmcmc.run.store import as_json


def files_of(path):
    """Names of all files of a directory that have a content."""
    files = [file for file in path.rglob("*") if file.is_file() and file.stat().st_size]
    return sorted(str(file.relative_to(path)) for file in files)


def one(generator, values):
    return values[int(generator.integers(len(values)))]


def block_of(generator, length):
    """A random stretch of so many bytes; at least one."""
    start = int(generator.integers(length))
    return start, start + 1 + int(generator.integers(min(length - start, 400)))


# --- damage of bytes -----------------------------------------------------------------------------


def truncate(path, other, generator, names):
    file = path / one(generator, names)
    file.write_bytes(file.read_bytes()[: int(generator.integers(file.stat().st_size))])


def zero_a_block(path, other, generator, names):
    file = path / one(generator, names)
    content = bytearray(file.read_bytes())
    start, stop = block_of(generator, len(content))
    content[start:stop] = bytes(stop - start)
    file.write_bytes(content)


def block_of_another_file(path, other, generator, names, source=None):
    file, given = path / one(generator, names), (source or path) / one(generator, names)
    content, foreign = bytearray(file.read_bytes()), given.read_bytes()
    start, stop = block_of(generator, min(len(content), len(foreign)))
    content[start:stop] = foreign[start:stop]
    file.write_bytes(content)


def block_of_another_run(path, other, generator, names):
    shared = [name for name in names if (other / name).is_file()]
    name = [one(generator, shared)]
    block_of_another_file(path, other, generator, name, other)


def append_bytes(path, other, generator, names):
    with (path / one(generator, names)).open("ab") as file:
        file.write(generator.bytes(1 + int(generator.integers(300))))


def repeat_a_block(path, other, generator, names):
    file = path / one(generator, names)
    content = file.read_bytes()
    start, stop = block_of(generator, len(content))
    file.write_bytes(content[:stop] + content[start:])


# --- files in the wrong place, or none -----------------------------------------------------------


def swap(path, other, generator, names):
    first, second = (path / one(generator, names) for _ in range(2))
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])


def duplicate(path, other, generator, names):
    first, second = generator.choice(names, 2, replace=False)
    shutil.copyfile(path / first, path / second)


def file_of_another_run(path, other, generator, names):
    shared = [name for name in names if (other / name).is_file()]
    name = one(generator, shared)
    shutil.copyfile(other / name, path / name)


def folder_of_another_run(path, other, generator, names):
    folders = sorted({str(Path(name).parent) for name in names} - {"."})
    shared = [name for name in folders if (other / name).is_dir()] or ["."]
    name = one(generator, shared)
    shutil.copytree(other / name, path / name, dirs_exist_ok=True)


def remove(path, other, generator, names):
    for _ in range(int(generator.integers(1, 4))):
        (path / one(generator, names)).unlink(missing_ok=True)


def remove_a_folder(path, other, generator, names):
    folders = sorted({str(Path(name).parent) for name in names} - {"."})
    if folders:
        shutil.rmtree(path / one(generator, folders))


def add_a_file(path, other, generator, names):
    name = one(generator, names)
    odd = [f"{name}.part", f"{name}~", "state-999999.safetensors", "state-x.safetensors", ".hidden"]
    odd += [f"{Path(name).parent}/c", "commit.json.part", "figures/\udcff", "a\nb", "..."]
    target = path / os.fsdecode(one(generator, odd).encode("utf-8", "surrogateescape"))
    with suppress(FileExistsError, IsADirectoryError):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(generator.bytes(50))


# --- something else than a file ------------------------------------------------------------------


def replace_by(make):
    def attack(path, other, generator, names):
        file = path / one(generator, names)
        content = file.read_bytes()
        file.unlink()
        make(file, content, path.parent / "outside")

    return attack


def link_to_copy(file, content, outside):
    """Whatever follows the link finds the right content."""
    (outside / "copy").write_bytes(content)
    file.symlink_to(outside / "copy")


def second_name(file, content, outside):
    (outside / "copy").write_bytes(content)
    os.link(outside / "copy", file)


def make_socket(file, content, outside):
    with socket.socket(socket.AF_UNIX) as server, working_directory(file.parent):
        server.bind(file.name)


@contextmanager
def working_directory(path):
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def link_a_folder(path, other, generator, names):
    folders = sorted({str(Path(name).parent) for name in names} - {"."})
    if folders:
        name = one(generator, folders)
        (path / name).rename(path.parent / "outside" / "copy")
        (path / name).symlink_to(path.parent / "outside" / "copy")


@contextmanager
def unreadable(name):
    """The system refuses to open files of this name, as root's own files are never refused to root."""
    true_open = os.open

    def refuse(path, *arguments, **options):
        if os.path.basename(os.fspath(path)) == name:
            raise PermissionError(13, "Permission denied", name)
        return true_open(path, *arguments, **options)

    with mock.patch("os.open", refuse):
        yield


CHANGES = {
    "cut at a random place": truncate,
    "a block of zeros": zero_a_block,
    "a block of another file": block_of_another_file,
    "a block of another run": block_of_another_run,
    "bytes appended": append_bytes,
    "a block twice": repeat_a_block,
    "two files swapped": swap,
    "a file copied over another": duplicate,
    "a file of another run": file_of_another_run,
    "a folder of another run": folder_of_another_run,
    "one to three files removed": remove,
    "a folder removed": remove_a_folder,
    "a strange file added": add_a_file,
    "empty file": replace_by(lambda file, *_: file.touch()),
    "directory for a file": replace_by(lambda file, *_: file.mkdir()),
    "link to nothing": replace_by(lambda file, *_: file.symlink_to(file.name + "-not")),
    "link to itself": replace_by(lambda file, *_: file.symlink_to(file.name)),
    "link out": replace_by(link_to_copy),
    "hard link out": replace_by(second_name),
    "link for a folder": link_a_folder,
    "named pipe": replace_by(lambda file, *_: os.mkfifo(file)),
    "socket": replace_by(make_socket),
    "link to a device": replace_by(lambda file, *_: file.symlink_to("/dev/zero")),
    "not to be opened": None,  # `unreadable`, while the directory is used
}


# --- forgeries: right sums -----------------------------------------------------------------------

ODD = [None, True, False, 0, 1, -1, 3, 2**31, 2**62, 2**70, 0.5, -0.5, 1e-300, 1e300, "", "x"]
ODD += ["../../outside/file", "/etc/passwd", "\ud800", "\x1b[2J", "9" * 400]
ODD += [[], {}, [[]], [-1], [1, 2, 3], {"name": 3}]
GONE = object()


def places(value, at=()):
    """Every place in a nested value."""
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))


def with_odd_value(generator, value):
    """The value with something odd in one place."""
    *before, last = one(generator, [place for place in places(value) if place])
    part = value
    for key in before:
        part = part[key]
    odd = one(generator, [*ODD, GONE])
    if odd is GONE:
        del part[last]
    else:
        part[last] = odd
    return value


def signed(body):
    """The bytes of a record or a commit with its own sum."""
    body.pop("sha256", None)
    try:
        return as_json({**body, "sha256": hashlib.sha256(as_json(body)).hexdigest()})
    except UnicodeEncodeError:
        return b"{}\n"


def sum_of(content):
    return [len(content), hashlib.sha256(content).hexdigest()]


def forge_value(file):
    """An odd value in a signed file of JSON."""

    def attack(path, other, generator, names):
        body = json.loads((path / file).read_text())
        (path / file).write_bytes(signed(with_odd_value(generator, body)))

    return attack


def forge_table(path, other, generator, names):
    """An odd value in what the record of a job says about its table and how to treat new rows."""
    body = json.loads((path / "job.json").read_text())
    part = one(generator, ["recipe", "recipe", "table"])
    body[part] = with_odd_value(generator, body[part])
    (path / "job.json").write_bytes(signed(body))


def forge_both_commits(path, other, generator, names):
    """The same odd value in the current commit and in the one before."""
    seed = int(generator.integers(2**32))
    for name in ("commit.json", "commit.previous.json"):
        with suppress(KeyError, IndexError, TypeError):
            forge_value(name)(path, other, np.random.default_rng(seed), names)


def write_committed(path, name, content):
    """Write a file and put its sum into the commits that have one, or into the record of a job."""
    (path / name).write_bytes(content)
    for signer in ("commit.json", "commit.previous.json", "job.json"):
        if (path / signer).is_file():
            body = json.loads((path / signer).read_text())
            if name in body["files"]:
                body["files"][name] = sum_of(content)
                (path / signer).write_bytes(signed(body))


def forge_arrays(path, other, generator, names):
    """A state, the rows or the start with one array that has other values, shape, dtype or name."""
    name = one(generator, [name for name in names if name.endswith(".safetensors")])
    arrays = load((path / name).read_bytes())
    key = one(generator, sorted(arrays))
    array = arrays.pop(key)
    flat = array.reshape(-1)
    arrays |= one(
        generator,
        [
            {},
            {key: array[None]},
            {key: flat[: flat.size // 2]},
            {key: np.zeros(array.shape, "i4" if array.dtype.kind == "f" else "f4")},
            {key: np.zeros((0, *array.shape))},
            {f"{key}x": array},
            {key: array, "tail/../../x": array, "averages": array},
            {key: np.full_like(array, np.nan if array.dtype.kind == "f" else 1)},
        ],
    )  # fmt: skip
    write_committed(path, name, save(arrays))


def forge_header(path, other, generator, names):
    """A file of arrays whose header claims something odd."""
    name = one(generator, [name for name in names if name.endswith(".safetensors")])
    content = (path / name).read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = with_odd_value(generator, json.loads(content[8 : 8 + size]))
    text = json.dumps(header).encode()
    length = one(generator, [len(text), len(text), len(text), 0, 2**63, len(text) - 1])
    write_committed(path, name, length.to_bytes(8, "little") + text + content[8 + size :])


def forge_lines(path, other, generator, names):
    """Metrics or the list of sums with a line that is odd, missing, doubled or moved."""
    name = one(generator, ["metrics.jsonl", "draws.sha256"])
    lines = (path / name).read_bytes().splitlines(keepends=True)
    place = int(generator.integers(len(lines)))
    line = lines.pop(place)
    odd = [[], [line, line], [b"\xff\n"], [b"[" * 10**5 + b"\n"], [b"null\n"], [b"\n"], [b"{}\n"]]
    odd += [[b"0" * 64 + b"  ../../outside/file\n"], [line[:-10]], [b'{"steps": 1e999}\n']]
    lines[place:place] = one(generator, odd)
    write_committed(path, name, b"".join(lines))


def forge_metadata(path, other, generator, names):
    """Metadata of zarr, or a copy of config or environment, with an odd value."""
    chosen = ("zarr.json", "config.json", "environment.json")
    name = one(generator, [name for name in names if name.endswith(chosen)])
    body = with_odd_value(generator, json.loads((path / name).read_text()))
    write_committed(path, name, json.dumps(body).encode())


def forge_findings(path, other, generator, names):
    """Scores that somebody invented, with their sum."""
    scores = with_odd_value(generator, json.loads((path / "findings.json").read_text()))
    content = one(generator, [json.dumps(scores), "[" * 10**5, '{"x": NaN}', "[]", '{"a": 1e999}'])
    (path / "findings.json").write_text(content)
    lines = (path / "findings.sha256").read_text().splitlines()
    lines = [line for line in lines if not line.endswith("findings.json")]
    lines.append(f"{sum_of(content.encode())[1]}  findings.json")
    (path / "findings.sha256").write_text("\n".join(lines) + "\n")


def forge_sums(path, other, generator, names):
    """A list of sums that names other files."""
    names = [
        "../outside/file",
        "/etc/passwd",
        "figures/..",
        "figures/x/y",
        "job.json",
        "",
        "figures/.",
    ]
    names += ["report.html", "figures", "chains/commit.json", "predictions.csv\0"]
    with (path / "findings.sha256").open("a") as file:
        file.write(f"{'0' * 64}  {one(generator, names)}\n")


FORGERIES_OF_A_RUN = {
    "the commit, signed": forge_value("commit.json"),
    "both commits, signed": forge_both_commits,
    "arrays of the state, signed": forge_arrays,
    "header of the state, signed": forge_header,
    "lines of a journal, signed": forge_lines,
    "metadata, signed": forge_metadata,
}
FORGERIES_OF_A_JOB = {
    "the record, signed": forge_value("job.json"),
    "the recipe of the table, signed": forge_table,
    "arrays of a job, signed": forge_arrays,
    "header of a job's arrays, signed": forge_header,
    "scores, signed": forge_findings,
    "names in the sums": forge_sums,
}


@contextmanager
def attacked(kind, attack, path, other, generator, names):
    """The directory after an attack, as long as the block runs."""
    if attack is None:
        with unreadable(Path(one(generator, names)).name):
            yield
        return
    with suppress(SafetensorError):
        attack(path, other, generator, names)
    yield


def snapshot(path):
    """What a folder holds: names, kinds and contents."""
    found = {}
    for file in sorted(path.rglob("*")):
        mode = file.lstat().st_mode
        content = file.read_bytes() if stat.S_ISREG(mode) else None
        found[str(file.relative_to(path))] = stat.S_IFMT(mode), content
    return found
