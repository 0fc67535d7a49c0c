"""The folder of results: claim it for one writer, and write the numbers."""

import csv
import io
import json
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vrsgmcmc.run.store import Folder, as_json, exclusive, without_home, xla_flags

from .settings import Settings

RECORD = "run.json"  # every folder of results has one
LOCK = ".lock"  # locked by the one writer


@contextmanager
def claim(folder: Path, experiment: str, settings: Settings) -> Iterator[None]:
    """Create the folder, or take one that is empty or holds an earlier run of the same experiment.

    After an error, such as a mistake in the options, folders that were created and are empty go again.
    """
    check(folder, experiment, settings)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    busy = (
        f"--out {folder}: another vrsgmcmc reproduce is writing to this folder. Wait for it, or "
        "name another."
    )
    with exclusive(folder / LOCK, busy):
        check(folder, experiment, settings)  # another command may have ended in the meantime
        if not read_record(folder):  # marks the folder as ours even if this run is interrupted
            mark = {"program": "vrsgmcmc", "experiment": experiment, "unfinished": True}
            Folder(folder).replace(RECORD, as_json(mark))
        try:
            yield
        except Exception:
            if missing and {path.name for path in folder.iterdir()} <= {RECORD, LOCK}:
                for name in (RECORD, LOCK):
                    (folder / name).unlink(missing_ok=True)
                for path in missing:
                    path.rmdir()
            raise


def check(folder: Path, experiment: str, settings: Settings) -> None:
    """Raise an OSError if the folder holds anything else than results of the same command."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise NotADirectoryError("this is a file. Name a folder that is empty or does not exist.")
    record, names = read_record(folder), {path.name for path in folder.iterdir()}
    if names - {f"{RECORD}.part", LOCK} and record.get("experiment") != experiment:
        raise FileExistsError(
            "this folder is not empty, and what it holds does not come from "
            f"`vrsgmcmc reproduce {experiment}`. Name a folder that is empty or does not exist."
        )
    earlier = record.get("settings")
    if earlier is not None and decisive(earlier) != decisive(to_json(settings)):
        raise FileExistsError(
            f"this folder holds the results of `{record.get('command')}`, which this run would "
            "replace. Name another folder, or remove this one."
        )


def read_record(folder: Path) -> dict[str, Any]:
    """The record in a folder of results; empty if the folder has none of ours."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    ours = isinstance(record, dict) and record.get("program") == "vrsgmcmc"
    return record if ours else {}


def finished_by(folder: Path) -> str | None:
    """The version that made the results in a folder; None if they, or their report, are missing."""
    record = read_record(folder)
    if "settings" not in record or not (folder / "report.html").is_file():
        return None
    return str(record.get("versions", {}).get("vrsgmcmc", "of another version"))


def to_json(settings: Settings) -> dict[str, Any]:
    return {
        name: without_home(str(value)) if isinstance(value, Path) else value
        for name, value in asdict(settings).items()
    }


def decisive(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that results depend on."""
    numbers = {name: settings.get(name) for name in ("size", "seeds", "passes")}
    return numbers | {"methods": list(settings.get("methods") or ())}


def facts(command: str) -> dict[str, Any]:
    """The provenance of results: the command, and all that the numbers may depend on."""
    import jax

    packages = ("vrsgmcmc", "jax", "jaxlib", "numpy", "matplotlib")
    return {
        "command": command,
        "versions": {name: version(name) for name in packages},
        **({"commit": head} if (head := commit()) else {}),
        **({"xla_flags": flags} if (flags := xla_flags()) else {}),
        "python": platform.python_version(),
        "machine": platform.platform(),
        "device": jax.devices()[0].device_kind,
    }


def commit() -> str | None:
    """The commit of the sources, if the package runs from a checkout."""
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
    provenance: Mapping[str, Any],
    settings: Settings,
    results: Mapping[str, Any],
) -> None:
    """Write the results with their settings and provenance (`facts`)."""
    record = {
        "program": "vrsgmcmc",
        "experiment": experiment,
        **provenance,
        "settings": to_json(settings),
        **results,
    }
    text = json.dumps(without_nan(record), indent=1, allow_nan=False)
    Folder(folder).replace(RECORD, f"{text}\n".encode())


def without_nan(value: Any) -> Any:
    """The value with None for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {name: without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def save_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the same keys as a table."""
    path.write_text(csv_text(rows), encoding="utf-8", newline="")


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as a table."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
