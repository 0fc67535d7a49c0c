"""Bytes on disk: written whole, synced before a commit points at them, checked by sha256."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import filelock

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_AT_ONCE = 2**22
LARGEST_JSON = 2**26  # a commit is a few kilobytes


class RunError(ValueError):
    """A run directory that cannot be used as it was asked for."""


class Record(NamedTuple):
    """Length and sha256 of a file, as a commit has them."""

    length: int
    sha256: str


def record(content: bytes) -> Record:
    return Record(len(content), hashlib.sha256(content).hexdigest())


def as_json(value: Any) -> bytes:
    """One text for one value, so that equal values have equal sums."""
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> bytes:
    """The bytes of a small file."""
    with open(path, "rb") as file:
        return file.read(LARGEST_JSON)


def problem(path: Path, expected: Record, prefix: bool = False) -> str | None:
    """What is wrong with a file, or with its first `expected.length` bytes; None: nothing."""
    try:
        length = path.stat().st_size
        if length < expected.length or (length > expected.length and not prefix):
            return f"{expected.length:,} bytes were committed, {length:,} are there"
        return (
            None if prefix_sum(path, expected.length).hexdigest() == expected.sha256 else "damaged"
        )
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def prefix_sum(path: Path, length: int) -> Any:
    """The running sha256 of the first bytes of a file."""
    total, left = hashlib.sha256(), length
    with open(path, "rb") as file:
        while left and (part := file.read(min(left, READ_AT_ONCE))):
            total.update(part)
            left -= len(part)
    return total


@contextmanager
def exclusive(lock_file: Path, message: str) -> Iterator[None]:
    """Hold a lock while the block runs; `RunError(message)` when another process holds it."""
    lock = filelock.FileLock(lock_file, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise RunError(message) from None
    try:
        yield
    finally:
        lock.release()


class Folder:
    """A directory that one process writes; `sync` makes what was written survive a power cut."""

    def __init__(self, path: Path):
        self.path = path
        self.unsynced: dict[Path, None] = {}

    def write(self, name: str, content: bytes, mode: str = "wb") -> None:
        """Write a file, or append to it with mode "ab": only bytes that no commit points at."""
        path = self.path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, mode) as file:
                file.write(content)
        except OSError as error:
            raise self.explained(error, name, len(content)) from error
        self.unsynced[path] = None
        for parent in path.parents:
            self.unsynced[parent] = None
            if parent == self.path:
                break

    def sync(self) -> None:
        """Files first, then the directories that name them, inner ones first."""
        for path in sorted(self.unsynced, key=lambda path: (path.is_dir(), -len(path.parts))):
            try:
                sync(path)
            except FileNotFoundError:
                continue  # renamed since
            except OSError as error:
                raise self.explained(error, path.name, 0) from error
        self.unsynced.clear()

    def replace(self, name: str, content: bytes) -> None:
        """Replace a file atomically: at every moment it holds the old bytes or the new ones."""
        part = f"{name}.part"
        self.write(part, content)
        try:
            sync(self.path / part)
            os.replace(self.path / part, self.path / name)
            sync(self.path)
        except OSError as error:
            raise self.explained(error, name, len(content)) from error

    def explained(self, error: OSError, name: str, needed: int) -> OSError:
        """The same error with a repair, where it is about disk space or permissions."""
        if error.errno in NO_ROOM:
            free = shutil.disk_usage(self.path).free
            limit = ", or a limit on file sizes" if error.errno == errno.EFBIG else ""
            return OSError(
                error.errno,
                f"run_dir={str(self.path)!r}: no room to write {name}: {needed:,} bytes are needed and "
                f"{free:,} are free{limit}. The last commit stands and nothing is damaged: make room "
                "and run the same again",
            )
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return type(error)(
                error.errno,
                f"run_dir={str(self.path)!r}: {name} cannot be written ({error.strerror}). Choose a "
                "directory that you may write to",
            )
        return error


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Journal:
    """A file that only grows. A commit covers its first bytes; `reset` cuts off the rest."""

    def __init__(self, folder: Folder, name: str):
        self.folder, self.name = folder, name
        self.length, self.total = 0, hashlib.sha256()

    def reset(self, length: int = 0) -> None:
        """Keep the first `length` bytes and append after them."""
        path = self.folder.path / self.name
        if path.exists():
            os.truncate(path, length)
        self.length, self.total = length, prefix_sum(path, length) if length else hashlib.sha256()

    def append(self, content: bytes) -> None:
        self.folder.write(self.name, content, "ab")
        self.length += len(content)
        self.total.update(content)

    @property
    def record(self) -> Record:
        return Record(self.length, self.total.hexdigest())
