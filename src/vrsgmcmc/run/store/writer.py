"""The writer of a run directory: it starts one, or goes on where its last commit stands."""

from __future__ import annotations

import errno
import json
import logging
import re
import shutil
import time
from typing import Any

import numpy as np

from . import commits, trees
from .commits import CURRENT, LEDGER, METRICS, PREVIOUS
from .draws import FOLDER, Layout
from .errors import RunError
from .files import Journal, as_json, record
from .folder import Folder
from .identity import check_same
from .reader import Run, newest

LOCK = "run.lock"
STATE = r"state-([0-9]{1,15})\.safetensors"
SECONDS_BETWEEN_COMMITS = 10.0
LEAST_RATIO = 100  # of the time to the next commit and the time a commit takes: 1 % of a run
LONGEST_PAUSE = 300.0  # seconds, also after a commit in which the machine slept

logger = logging.getLogger("vrsgmcmc")


class Writer:
    """The run directory in the hands of its writer."""

    def __init__(
        self,
        folder: Folder,
        config: dict[str, Any],
        environment: dict[str, Any],
        layout: Layout | None,
    ):
        self.folder, self.path, self.layout = folder, folder.path, layout
        self.config, self.environment = config, environment
        self.resumed: Run | None = None
        self.number = -1  # the last that a state has
        self.standing = -1  # the number of the commit that stands
        self.bytes: bytes | None = None  # of that commit
        self.on_disk: bytes | None = None  # of its file, as this writer saw or wrote it last
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
        if not commits.is_run(self.folder):
            self.check_space(state_bytes)
            self.folder.remove_tree(FOLDER)  # of a start that was stopped
            self.write_sides(self.sides())
            self.ledger.reset()
            self.metrics.reset()
            return
        commit, notes = newest(self.folder, thorough=True)
        self.on_disk = self.current()
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
        wrong = commits.side_problems(self.folder, commit)
        for name, what in wrong.items():
            lost = ""
            if name == METRICS:
                lost = " Its lines up to here are lost; the chains are not affected."
            logger.warning("%s: %s: %s; made again.%s", self.path.name, name, what, lost)
        self.files = {
            name: expected
            for name, expected in commit["files"].items()
            if name not in commits.JOURNALS and not name.startswith("state-")
        }
        self.write_sides({k: v for k, v in self.sides().items() if k in wrong})
        self.restore_journal(self.metrics, b"" if METRICS in wrong else None, commit)
        self.restore_journal(
            self.ledger, self.sum_chunks(commit) if LEDGER in wrong else None, commit
        )

    def restore_journal(
        self, journal: Journal, content: bytes | None, commit: dict[str, Any]
    ) -> None:
        """Cut a journal to its committed length, or write it again and note that in the commit."""
        if content is None:
            journal.reset(commit["files"][journal.name].length)
            return
        self.folder.replace(journal.name, content)
        journal.reset(len(content))
        if commit["files"].get(journal.name) != journal.record:
            commit["files"][journal.name] = journal.record
            self.replace_current(commits.to_bytes(commit))

    def sum_chunks(self, commit: dict[str, Any]) -> bytes:
        """The ledger of the chunks on disk; `RunError` if they are not those of the commit."""
        names = [] if self.layout is None else [name for name, _ in self.layout.files(self.chunks)]
        ledger = "".join(ledger_line(name, self.folder.read(name)) for name in names).encode()
        if commit["files"].get(LEDGER) not in (None, record(ledger)):
            raise RunError(
                f"run_dir={str(self.path)!r}: {LEDGER} is damaged, and the chunks of draws are not "
                "those that it listed. Put the directory back from a copy, or sample again elsewhere."
            )
        return ledger

    def current(self) -> bytes | None:
        """What the current commit's file holds, whole or not."""
        try:
            return self.folder.read(CURRENT, commits.LARGEST)
        except (FileNotFoundError, RunError):
            return None

    def replace_current(self, content: bytes) -> None:
        self.folder.replace(CURRENT, content)
        self.bytes = self.on_disk = content

    def check_hold(self) -> None:
        """Stop where another process can have written to the directory."""
        last = "the commit on disk is left as it is"
        self.folder.check_lock(
            LOCK,
            f"run_dir={str(self.path)!r}: {LOCK} was deleted or replaced while this run was written, "
            f"so another process may be writing here too. This one stops, and {last}: run the same "
            "again when no other process writes.",
        )
        if self.current() != self.on_disk:
            raise RunError(
                f"run_dir={str(self.path)!r}: {CURRENT} was changed by another process while this run "
                f"was written. This one stops, and {last}: run the same again when no other process "
                "writes."
            )

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
        matches = [re.fullmatch(STATE, name) for name in self.folder.names()]
        return [int(match[1]) for match in matches if match] or [-1]

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
            self.lines.append(ledger_line(f"{FOLDER}/{name}", content))
        self.chunks, self.buffered = self.chunks + 1, 0

    @property
    def due(self) -> bool:
        return time.monotonic() - self.last > self.pause

    def commit(
        self, arrays: dict[str, np.ndarray], progress: dict[str, Any], finished: bool
    ) -> None:
        """Everything so far, at once: when this returns it is on disk, until then the last one is."""
        clock = time.monotonic()
        self.check_hold()
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
        line["draws"] = self.draws
        self.metrics.append(f"{json.dumps(line, sort_keys=True)}\n".encode())
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
        self.replace_current(content)
        for old in self.state_numbers():
            if old not in (self.standing, number):
                self.folder.remove(commits.state_name(old))
        self.number = self.standing = number
        self.last = time.monotonic()
        self.pause = pause_after(self.last - clock)


def ledger_line(name: str, content: bytes) -> str:
    """A line as `sha256sum -c` reads it."""
    return f"{record(content).sha256}  {name}\n"


def pause_after(seconds: float) -> float:
    """How long to wait with the next commit after one that took so many seconds."""
    return min(max(SECONDS_BETWEEN_COMMITS, LEAST_RATIO * seconds), LONGEST_PAUSE)
