"""The finished part of an interrupted experiment, so that the same command continues it.

Every trace has one file, whose name is a hash of everything that the trace depends on. A file is
replaced as a whole. A file that cannot be read counts as missing.
"""

import hashlib
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from vrsgmcmc.run.store import Folder, RunError, pause_after, trees

FOLDER = "unfinished"


class Checkpoints:
    """Named arrays by description, in a folder; without a folder nothing is stored."""

    def __init__(self, folder: Path | None):
        self.path = None if folder is None else folder / FOLDER
        self.last, self.pause = time.monotonic(), pause_after(0)

    @property
    def due(self) -> bool:
        """Whether it is time to save work in progress."""
        return self.path is not None and time.monotonic() - self.last > self.pause

    @property
    def exist(self) -> bool:
        return self.path is not None and self.path.is_dir() and any(self.path.iterdir())

    def load(self, description: str) -> dict[str, np.ndarray] | None:
        if self.path is None:
            return None
        try:
            content = (self.path / file_name(description)).read_bytes()
            digest, rest = content[:32], content[32:]
            return trees.from_bytes(rest) if hashlib.sha256(rest).digest() == digest else None
        except (OSError, RunError):
            return None

    def save(self, description: str, arrays: dict[str, Any]) -> None:
        if self.path is None or not arrays:
            return
        start = time.monotonic()
        content = trees.to_bytes({name: np.asarray(array) for name, array in arrays.items()})
        self.path.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(content).digest()
        Folder(self.path).replace(file_name(description), digest + content)
        self.last = time.monotonic()
        self.pause = pause_after(self.last - start)

    def delete(self) -> None:
        """Delete all files; called when the results are written."""
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)


def file_name(description: str) -> str:
    return hashlib.sha256(description.encode()).hexdigest()[:32]
