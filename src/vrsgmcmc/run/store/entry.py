"""Entering a run directory: load the run that is finished there, or hold the directory to write."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import commits, environment
from .commits import CURRENT, LEDGER, METRICS
from .draws import FOLDER, Layout
from .errors import RunError
from .files import DECISION
from .folder import Folder
from .identity import check_same
from .reader import Run, inspect
from .writer import LOCK, Writer


def finished(path: Path, config: dict[str, Any], surroundings: dict[str, Any]) -> Run | None:
    """The run in a directory, if it is this one, finished and whole. Nothing is written."""
    folder = Folder(path)
    if not folder.path.is_dir() or not commits.is_run(folder):
        return None
    commit, wrong = inspect(folder, CURRENT, thorough=False)
    if commit is None or wrong or not commit["finished"]:
        return None
    if commits.side_problems(folder, commit):
        return None
    check_same(folder.path, commit, config, surroundings)
    return Run(folder.path, commit)


@contextmanager
def write(
    path: Path,
    config: dict[str, Any],
    surroundings: dict[str, Any],
    layout: Layout | None,
    state_bytes: int,
) -> Iterator[Writer]:
    """Hold a run directory: a new one, or one to be resumed (`Writer.resumed`)."""
    folder = check_directory(path)
    with folder.explain(LOCK, 0):
        folder.make()
    busy = (
        f"run_dir={str(path)!r}: another process is writing to this run. Wait for it, or name another "
        "directory."
    )
    with folder.lock(LOCK, busy):
        writer = Writer(folder, config, surroundings, layout)
        writer.take(state_bytes)
        yield writer


def check_directory(path: Path) -> Folder:
    """The folder of a run directory, which may be new; `RunError` where other things are."""
    if path.exists() and not path.is_dir():
        raise RunError(f"run_dir={str(path)!r} is a file. Name a directory.")
    folder = Folder(path)
    if path.is_dir() and not commits.is_run(folder):
        names = folder.names()
        if names and not is_left_over(names):
            raise RunError(
                f"run_dir={str(path)!r} is not empty and not a run: it holds "
                f"{environment.shorten(', '.join(names))}. Name a new directory."
            )
    return folder


def is_left_over(names: list[str]) -> bool:
    """Whether these are files of a run that was stopped before its first commit."""
    ours = {LOCK, FOLDER, LEDGER, METRICS, "config.json", "environment.json"}
    ours |= {commits.state_name(0), CURRENT, *DECISION}
    return not {LOCK, *DECISION}.isdisjoint(names) and ours.issuperset(
        name.removesuffix(".part") for name in names
    )
