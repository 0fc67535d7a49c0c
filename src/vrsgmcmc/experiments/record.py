"""The folder of results: whose it is, and the numbers in it."""

from __future__ import annotations

import csv
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vrsgmcmc.experiments import Settings

RECORD = "run.json"  # every folder of results has one


def claim(folder: Path, experiment: str) -> None:
    """Make the folder, or take one that is empty or holds an earlier run of this experiment."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError("this is a file. Name a folder that is empty or does not exist.")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) and experiment_in(folder) != experiment:
        raise FileExistsError(
            "this folder is not empty, and what it holds does not come from "
            f"`vrsgmcmc reproduce {experiment}`. Name a folder that is empty or does not exist."
        )
    if not (folder / RECORD).exists():  # so that what is left of it, if it stops, is known as ours
        begun = {"program": "vrsgmcmc", "experiment": experiment, "unfinished": True}
        (folder / RECORD).write_text(json.dumps(begun) + "\n", encoding="utf-8")


def experiment_in(folder: Path) -> str | None:
    """The name of the experiment whose results a folder holds."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(record, dict) and record.get("program") == "vrsgmcmc"
    return record.get("experiment") if ours else None


def facts(command: str) -> dict[str, Any]:
    """How a report was made: the command, and what its numbers may depend on."""
    import jax

    packages = ("vrsgmcmc", "jax", "jaxlib", "numpy", "matplotlib")
    return {
        "command": command,
        "versions": {name: version(name) for name in packages},
        **({} if (known := commit()) is None else {"commit": known}),
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
    folder: Path, experiment: str, command: str, settings: Settings, results: Mapping[str, Any]
) -> str:
    """Write the results with the command, settings and versions that gave them; returns the name."""
    plain = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asdict(settings).items()
    }
    record = {
        "program": "vrsgmcmc",
        "experiment": experiment,
        **facts(command),
        "settings": plain,
        **results,
    }
    text = json.dumps(without_nan(record), indent=1, allow_nan=False)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")
    return RECORD


def without_nan(value: Any) -> Any:
    """With null for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {name: without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def save_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows with the same keys as a table; returns the name of the file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path.name
