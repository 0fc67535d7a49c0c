"""The folder of results: whose it is, and the numbers in it."""

from __future__ import annotations

import csv
import json
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from vrsgmcmc.experiments.settings import Settings
from vrsgmcmc.run.store import Folder, as_json, without_home, xla_flags

RECORD = "run.json"  # every folder of results has one
LOCK = ".lock"  # and this, held while it is written to


@contextmanager
def claimed(folder: Path, experiment: str, settings: Settings) -> Iterator[None]:
    """Make the folder, or take one that is empty or holds an earlier run of the same."""
    check(folder, experiment, settings)
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        check(folder, experiment, settings)  # another command may have ended in the meantime
        if not record_in(folder):  # so that what is left of it, if it stops, is known as ours
            begun = {"program": "vrsgmcmc", "experiment": experiment, "unfinished": True}
            Folder(folder).replace(RECORD, as_json(begun))
        yield


def check(folder: Path, experiment: str, settings: Settings) -> None:
    """Refuses to replace what comes from elsewhere."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise NotADirectoryError("this is a file. Name a folder that is empty or does not exist.")
    there, names = record_in(folder), {path.name for path in folder.iterdir()}
    if names - {f"{RECORD}.part", LOCK} and there.get("experiment") != experiment:
        raise FileExistsError(
            "this folder is not empty, and what it holds does not come from "
            f"`vrsgmcmc reproduce {experiment}`. Name a folder that is empty or does not exist."
        )
    known = there.get("settings")
    if known is not None and asked_for(known) != asked_for(plain(settings)):
        raise FileExistsError(
            f"this folder holds the results of `{there.get('command')}`, which this run would replace. "
            "Name another folder, or remove this one."
        )


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One command at a time writes to a folder."""
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(
            f"--out {folder}: another vrsgmcmc reproduce is writing to this folder. Wait for it, or "
            "name another."
        ) from None
    try:
        yield
    finally:
        lock.release()


def record_in(folder: Path) -> dict[str, Any]:
    """What a folder of results says of itself; nothing, if it is none."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    ours = isinstance(record, dict) and record.get("program") == "vrsgmcmc"
    return record if ours else {}


def plain(settings: Settings) -> dict[str, Any]:
    return {
        name: without_home(str(value)) if isinstance(value, Path) else value
        for name, value in asdict(settings).items()
    }


def asked_for(known: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that results depend on."""
    asked = {name: known.get(name) for name in ("size", "seeds", "passes")}
    return asked | {"methods": list(known.get("methods") or ())}


def facts(command: str) -> dict[str, Any]:
    """How a report was made: the command, and what its numbers may depend on."""
    import jax

    packages = ("vrsgmcmc", "jax", "jaxlib", "numpy", "matplotlib")
    return {
        "command": command,
        "versions": {name: version(name) for name in packages},
        **({} if (known := commit()) is None else {"commit": known}),
        **({"xla_flags": flags} if (flags := xla_flags()) else {}),
        "python": platform.python_version(),
        "machine": platform.platform(),
        "device": jax.devices()[0].device_kind,
    }


def commit() -> str | None:
    """The commit of the sources, where the package is used out of a checkout."""
    git = Path(__file__).parents[3] / ".git"
    try:
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        name = head.removeprefix("ref: ")
        return head if name == head else (git / name).read_text(encoding="utf-8").strip()
    except OSError:  # no checkout, or one whose references are packed
        return None


def save_record(
    folder: Path,
    experiment: str,
    made: Mapping[str, Any],
    settings: Settings,
    results: Mapping[str, Any],
) -> None:
    """Write the results with the `facts` and settings that gave them."""
    record = {
        "program": "vrsgmcmc",
        "experiment": experiment,
        **made,
        "settings": plain(settings),
        **results,
    }
    text = json.dumps(without_nan(record), indent=1, allow_nan=False)
    Folder(folder).replace(RECORD, f"{text}\n".encode())


def without_nan(value: Any) -> Any:
    """With null for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {name: without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def save_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the same keys as a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
