"""Writing a run directory: one writer, who starts it or goes on where its last commit stands."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from . import commits, environment, trees
from .commits import CURRENT, LEDGER, METRICS, PREVIOUS
from .draws import FOLDER, Layout
from .files import Folder, Journal, RunError, as_json, exclusive, record
from .identity import check_same
from .reader import Run, newest

LOCK = "run.lock"
SECONDS_BETWEEN_COMMITS = 10.0
LEAST_RATIO = 100  # of the time to the next commit and the time a commit takes: 1 % of a run
LONGEST_PAUSE = 300.0  # seconds, also after a commit in which the machine slept

logger = logging.getLogger("vrsgmcmc")


def finished(path: Path, config: dict[str, Any], surroundings: dict[str, Any]) -> Run | None:
    """The run in a directory, if it is this one, finished and whole. Nothing is written."""
    if not commits.is_run(path):
        return None
    try:
        commit = commits.load(path, CURRENT)
        wrong = commits.state_problems(path, commit) or commits.side_problems(path, commit)
        wrong = wrong or commits.chunk_problems(path, commit, thorough=False)
    except RunError:
        return None
    if wrong or not commit["finished"]:
        return None
    check_same(path, commit, config, surroundings)
    return Run(path, commit)


@contextmanager
def write(
    path: Path,
    config: dict[str, Any],
    surroundings: dict[str, Any],
    layout: Layout | None,
    state_bytes: int,
) -> Iterator[Writer]:
    """Hold a run directory: a new one, or one to be resumed (`Writer.resumed`)."""
    if path.exists() and not path.is_dir():
        raise RunError(f"run_dir={str(path)!r} is a file. Name a directory.")
    if path.is_dir() and not commits.is_run(path):
        names = sorted(entry.name for entry in path.iterdir())
        if names and not is_left_over(names):
            raise RunError(
                f"run_dir={str(path)!r} is not empty and not a run: it holds "
                f"{environment.shorten(', '.join(names))}. Name a new directory."
            )
    folder = Folder(path)
    with ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(
                exclusive(
                    path / LOCK,
                    f"run_dir={str(path)!r}: another process is writing to this run. Wait for it, or "
                    "name another directory.",
                )
            )
        except OSError as error:
            raise folder.explained(error, LOCK, 0) from error
        writer = Writer(folder, config, surroundings, layout)
        writer.take(state_bytes)
        yield writer


def is_left_over(names: list[str]) -> bool:
    """Whether these are files of a run that was stopped before its first commit."""
    ours = {LOCK, FOLDER, LEDGER, METRICS, "config.json", "environment.json"}
    ours |= {commits.state_name(0), CURRENT}
    return LOCK in names and ours.issuperset(name.removesuffix(".part") for name in names)


class Writer:
    """The run directory in the hands of its writer."""

    def __init__(
        self,
        folder: Folder,
        config: dict[str, Any],
        surroundings: dict[str, Any],
        layout: Layout | None,
    ):
        self.folder, self.path, self.layout = folder, folder.path, layout
        self.config, self.environment = config, surroundings
        self.resumed: Run | None = None
        self.number = -1  # the last that a state has
        self.standing = -1  # the commit that stands,
        self.bytes: bytes | None = None  # and its bytes
        self.ledger, self.metrics = Journal(folder, LEDGER), Journal(folder, METRICS)
        self.files: dict[str, Any] = {}  # of commits, that never change
        self.draws = self.chunks = self.buffered = 0  # draws, whole chunks of them, and the rest
        self.lines: list[str] = []
        self.last, self.pause = time.monotonic(), SECONDS_BETWEEN_COMMITS
        if layout is not None:
            self.encoded, self.arrays = layout.arrays()
            self.buffers = [
                np.empty((layout.chains, layout.chunk, *leaf.shape), leaf.dtype)
                for leaf in layout.leaves
            ]

    def take(self, state_bytes: int) -> None:
        """Start the directory, or make it what its newest whole commit says."""
        if not commits.is_run(self.path):
            self.check_space(state_bytes)
            shutil.rmtree(self.path / FOLDER, ignore_errors=True)  # of a start that was stopped
            self.write_sides(self.sides())
            self.ledger.reset()
            self.metrics.reset()
            return
        commit, notes = newest(self.path, thorough=True)
        check_same(self.path, commit, self.config, self.environment)
        for text in notes:
            logger.warning("%s: %s", self.path.name, text)
        self.config, self.environment = commit["config"], commit["environment"]
        self.resumed = Run(self.path, commit, tuple(notes))
        self.bytes = commits.to_bytes(commit)
        self.standing = commit["number"]
        self.number = max(self.standing, *self.state_numbers())
        self.draws, self.chunks = commit["draws"], commit["chunks"]
        if not commit["finished"]:
            self.check_space(state_bytes)
        self.repair(commit)
        if self.layout is not None and not commit["finished"]:
            self.buffered = self.draws - self.chunks * self.layout.chunk
            for buffer, stored in zip(self.buffers, self.resumed.leaves.values(), strict=True):
                buffer[:, : self.buffered] = stored.tail

    def sides(self) -> dict[str, bytes]:
        """The files that are written once."""
        files = {"config.json": as_json(self.config), "environment.json": as_json(self.environment)}
        if self.layout is not None:
            for name, content in self.encoded.items():
                files[f"{FOLDER}/{name}"] = content.to_bytes()
        return files

    def write_sides(self, contents: dict[str, bytes]) -> None:
        for name, content in contents.items():
            self.folder.replace(name, content)
            self.files[name] = record(content)

    def repair(self, commit: dict[str, Any]) -> None:
        """Make again what can be made again, and cut off what came behind the commit."""
        wrong = commits.side_problems(self.path, commit)
        for name, what in wrong.items():
            lost = " Its lines up to here are lost; the chains are not affected." * (
                name == METRICS
            )
            logger.warning("%s: %s: %s; made again.%s", self.path.name, name, what, lost)
        self.files = {
            name: expected
            for name, expected in commit["files"].items()
            if name not in commits.JOURNALS and not name.startswith("state-")
        }
        self.write_sides({k: v for k, v in self.sides().items() if k in wrong})
        if METRICS in wrong:
            self.metrics.reset()
            self.folder.write(METRICS, b"")
            commit["files"][METRICS] = self.metrics.record
            self.bytes = commits.to_bytes(commit)
            self.folder.replace(CURRENT, self.bytes)
        else:
            self.metrics.reset(commit["files"][METRICS].length)
        if LEDGER in wrong:
            self.ledger.reset()
            if self.layout is not None:
                for name, _ in self.layout.files(self.chunks):
                    self.note(name, (self.path / name).read_bytes())
        else:
            self.ledger.reset(commit["files"][LEDGER].length)

    def check_space(self, state_bytes: int) -> None:
        """Refuse to start what cannot fit on the disk."""
        needed = 4 * state_bytes  # of two commits, of the next one, and the tail
        if self.layout is not None:
            there = sum(length for _, length in self.layout.files(self.chunks))
            needed += self.layout.nbytes - there
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise OSError(
                errno.ENOSPC,
                f"run_dir={str(self.path)!r}: this run needs {needed:,} bytes and {free:,} are free. "
                'Make room, take a larger thin, or keep="averages"',
            )

    def state_numbers(self) -> list[int]:
        states = self.path.glob("state-*.safetensors")
        return [int(p.stem[6:]) for p in states if p.stem[6:].isdecimal()] or [-1]

    def note(self, name: str, content: bytes) -> None:
        """A line for the ledger."""
        self.lines.append(f"{record(content).sha256}  {name}\n")

    def append(self, leaves: list[np.ndarray]) -> None:
        """Further draws, [chain, some, ...] for each leaf."""
        assert self.layout is not None
        done, some = 0, leaves[0].shape[1]
        while done < some:
            count = min(some - done, self.layout.chunk - self.buffered)
            for buffer, leaf in zip(self.buffers, leaves, strict=True):
                buffer[:, self.buffered : self.buffered + count] = leaf[:, done : done + count]
            self.buffered += count
            self.draws += count
            done += count
            if self.buffered == self.layout.chunk:
                self.write_chunk()

    def write_chunk(self) -> None:
        """The buffered draws become a chunk on disk."""
        assert self.layout is not None
        start = self.chunks * self.layout.chunk
        for array, buffer in zip(self.arrays, self.buffers, strict=True):
            array[:, start : start + self.buffered] = buffer[:, : self.buffered]
        chunks = {name: self.encoded.pop(name) for name in list(self.encoded) if "/c/" in name}
        for name, content in chunks.items():
            content = content.to_bytes()
            self.folder.write(f"{FOLDER}/{name}", content)
            self.note(f"{FOLDER}/{name}", content)
        self.chunks, self.buffered = self.chunks + 1, 0

    @property
    def due(self) -> bool:
        return time.monotonic() - self.last > self.pause

    def commit(
        self, arrays: dict[str, np.ndarray], progress: dict[str, Any], finished: bool
    ) -> None:
        """Everything so far, at once: when this returns it is on disk, until then the last one is."""
        clock = time.monotonic()
        if self.layout is not None:
            if finished and self.buffered:
                self.write_chunk()
            for leaf, buffer in zip(self.layout.leaves, self.buffers, strict=True):
                arrays[f"tail/{leaf.variable}"] = buffer[:, : self.buffered]
        number, state = self.number + 1, trees.to_bytes(arrays)
        name = commits.state_name(number)
        self.folder.write(name, state)
        self.ledger.append("".join(self.lines).encode())
        self.lines.clear()
        line = {name: value for name, value in progress.items() if np.isscalar(value)}
        self.metrics.append(
            json.dumps({**line, "draws": self.draws}, sort_keys=True).encode() + b"\n"
        )
        self.folder.sync()
        files = {**self.files, name: record(state)}
        files |= {LEDGER: self.ledger.record, METRICS: self.metrics.record}
        content = commits.to_bytes(
            {
                "number": number,
                "previous": self.bytes is not None,
                "finished": finished,
                "progress": progress,
                "draws": self.draws,
                "chunks": self.chunks,
                "config": self.config,
                "environment": self.environment,
                "files": files,
            }
        )
        if self.bytes is not None:
            self.folder.replace(PREVIOUS, self.bytes)
        self.folder.replace(CURRENT, content)
        for old in self.state_numbers():
            if old not in (self.standing, number):
                os.unlink(self.path / commits.state_name(old))
        self.bytes, self.number, self.standing = content, number, number
        self.last = time.monotonic()
        self.pause = pause_after(self.last - clock)


def pause_after(seconds: float) -> float:
    """How long to wait with the next commit after one that took so many seconds."""
    return min(max(SECONDS_BETWEEN_COMMITS, LEAST_RATIO * seconds), LONGEST_PAUSE)
