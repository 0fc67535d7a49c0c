"""Bytes on disk: synced before a commit points at them, and checked by length and sha256."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from .errors import IrregularFile
from .folder import Folder

# written before a run begins, where the library chooses; and after its end
DECISION, ACCURACY = ("decision.json", "decision.safetensors"), "accuracy.json"


class Record(NamedTuple):
    """Length and sha256 of a file, as a commit has them."""

    length: int
    sha256: str


def record(content: bytes) -> Record:
    return Record(len(content), hashlib.sha256(content).hexdigest())


def as_json(value: Any) -> bytes:
    """One text for one value, so that equal values have equal sums."""
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def seal(value: dict[str, Any]) -> bytes:
    """JSON that ends with the sum of itself."""
    return as_json({**value, "sha256": record(as_json(value)).sha256})


def unseal(content: bytes) -> dict[str, Any]:
    """The value in what `seal` made; `ValueError` for anything else."""
    try:
        value = json.loads(content)
        if value.pop("sha256") == record(as_json(value)).sha256:
            return value
    except (ValueError, KeyError, AttributeError, RecursionError, TypeError):
        pass
    raise ValueError("it is not as it was written")


def problem(folder: Folder, name: str, expected: Record, prefix: bool = False) -> str | None:
    """What is wrong with a file, or with its first `expected.length` bytes; None: nothing."""
    if what := length_problem(folder, name, expected.length, prefix):
        return what
    try:
        whole = folder.sum(name, expected.length).hexdigest() == expected.sha256
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None if whole else "damaged"


def length_problem(folder: Folder, name: str, length: int, prefix: bool = False) -> str | None:
    """What is wrong with a file, as far as its length tells."""
    try:
        there = folder.size(name)
    except FileNotFoundError:
        return "missing"
    except IrregularFile as error:
        return f"not a regular file but {error.what}"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if there < length or (there > length and not prefix):
        return f"{length:,} bytes were committed, {there:,} are there"
    return None


@contextmanager
def exclusive(lock_file: Path, message: str) -> Iterator[None]:
    """Hold a lock while the block runs; `RunError(message)` when another process holds it."""
    with Folder(lock_file.parent).lock(lock_file.name, message):
        yield


class Journal:
    """A file that only grows. A commit covers its first bytes; `reset` cuts off the rest."""

    def __init__(self, folder: Folder, name: str):
        self.folder, self.name = folder, name
        self.length, self.total = 0, hashlib.sha256()

    def reset(self, length: int = 0) -> None:
        """Keep the first `length` bytes and append after them."""
        if self.folder.exists(self.name):
            self.folder.truncate(self.name, length)
        self.length = length
        self.total = self.folder.sum(self.name, length) if length else hashlib.sha256()

    def append(self, content: bytes) -> None:
        self.folder.append(self.name, content)
        self.length += len(content)
        self.total.update(content)

    @property
    def record(self) -> Record:
        return Record(self.length, self.total.hexdigest())
