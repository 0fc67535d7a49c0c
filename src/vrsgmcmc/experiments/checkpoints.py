"""What an interrupted experiment has done, so that the same command goes on from there.

Every trace under way has a file, named by all that it depends on and put in its place whole. What
cannot be read is made again.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from vrsgmcmc.run.store import Folder, RunError, pause_after, trees

FOLDER = "unfinished"


class Memory:
    """Named arrays under a description; in a folder, or nowhere."""

    def __init__(self, folder: Path | None):
        self.path = None if folder is None else folder / FOLDER
        self.last, self.pause = time.monotonic(), pause_after(0)

    @property
    def due(self) -> bool:
        """Whether it is time to save work that is still going on."""
        return self.path is not None and time.monotonic() - self.last > self.pause

    @property
    def holds(self) -> bool:
        return self.path is not None and self.path.is_dir() and any(self.path.iterdir())

    def load(self, description: str) -> dict[str, np.ndarray] | None:
        if self.path is None:
            return None
        try:
            content = (self.path / name_of(description)).read_bytes()
            digest, rest = content[:32], content[32:]
            return trees.from_bytes(rest) if hashlib.sha256(rest).digest() == digest else None
        except (OSError, RunError):
            return None

    def save(self, description: str, arrays: dict[str, Any]) -> None:
        if self.path is None or not arrays:
            return
        began = time.monotonic()
        content = trees.to_bytes({name: np.asarray(array) for name, array in arrays.items()})
        self.path.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(content).digest()
        Folder(self.path).replace(name_of(description), digest + content)
        self.last = time.monotonic()
        self.pause = pause_after(self.last - began)

    def forget(self) -> None:
        """The experiment is over and its results are written."""
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)


def name_of(description: str) -> str:
    return hashlib.sha256(description.encode()).hexdigest()[:32]
