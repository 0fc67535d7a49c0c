"""The commit: one small file that says how far the run is and what every other file must be.

    commit = {progress, config, environment, files: {name: [length, sha256]}, sha256: of the rest}

`commit.json` is the current one; `commit.previous.json` the one before, for when something that only
the current one points at is damaged. Both carry copies of config and environment.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from .draws import Layout
from .files import Record, RunError, as_json, problem, read_json

FORMAT = "vrsgmcmc run 1"
CURRENT, PREVIOUS = "commit.json", "commit.previous.json"
LEDGER, METRICS = "draws.sha256", "metrics.jsonl"
JOURNALS = (LEDGER, METRICS)
NAMES = re.compile(
    r"config\.json|environment\.json|state-\d{1,18}\.safetensors|draws\.sha256|metrics\.jsonl|"
    r"draws\.zarr/(posterior/([^/\\.][^/\\]*/)?)?zarr\.json"
)
NEEDED = {  # the parts of a commit and their types
    "number": int,
    "finished": bool,
    "progress": dict,
    "draws": int,
    "chunks": int,
    "config": dict,
    "environment": dict,
    "files": dict,
}


def to_bytes(commit: dict[str, Any]) -> bytes:
    body = {"format": FORMAT, **commit}
    return as_json({**body, "sha256": hashlib.sha256(as_json(body)).hexdigest()})


def parse(content: bytes) -> dict[str, Any]:
    """A commit from its bytes; `RunError` says what is wrong with them."""
    try:
        body = json.loads(content)
        checksum = body.pop("sha256")
        whole = hashlib.sha256(as_json(body)).hexdigest() == checksum
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise RunError("damaged") from None
    if not whole or as_json({**body, "sha256": checksum}) != content:
        raise RunError("damaged")
    if body.pop("format", None) != FORMAT:
        raise RunError(f"not of the format {FORMAT!r}")
    for name, kind in NEEDED.items():
        if type(body.get(name)) is not kind:
            raise RunError(f"{name} is missing or of the wrong kind")
    for name, value in body["files"].items():
        if not NAMES.fullmatch(name) or len(value) != 2:
            raise RunError(f"{name!r} is no file of a run")
        body["files"][name] = Record(int(value[0]), str(value[1]))
    return body


def state_name(number: int) -> str:
    return f"state-{number}.safetensors"


def load(path: Path, name: str) -> dict[str, Any]:
    """The commit in one of the two files."""
    try:
        return parse(read_json(path / name))
    except FileNotFoundError:
        raise RunError("missing") from None
    except OSError as error:
        raise RunError(f"cannot be read ({error.strerror})") from error


def is_run(path: Path) -> bool:
    return any((path / name).exists() for name in (CURRENT, PREVIOUS))


def layout_of(commit: dict[str, Any]) -> Layout | None:
    """How the draws of a run are laid out; None: it keeps none."""
    try:
        described = commit["config"]["draws"]
        return None if described is None else Layout.from_json(described)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RunError("config: draws are not described") from None


def state_problems(path: Path, commit: dict[str, Any]) -> list[str]:
    """What is wrong with the state file, which belongs to this commit alone."""
    name = state_name(commit["number"])
    if name not in commit["files"]:
        return [f"{name}: not in the commit"]
    wrong = problem(path / name, commit["files"][name])
    return [f"{name}: {wrong}"] if wrong else []


def side_problems(path: Path, commit: dict[str, Any]) -> dict[str, str]:
    """What is wrong with the files that both commits share and that can be made again."""
    state = state_name(commit["number"])
    problems = {
        name: problem(path / name, expected, prefix=name in JOURNALS)
        for name, expected in commit["files"].items()
        if name != state
    }
    return {name: what for name, what in problems.items() if what}


def chunk_problems(path: Path, commit: dict[str, Any], thorough: bool) -> list[str]:
    """Chunks of draws that are not as they were committed: by length, or `thorough`, by sha256."""
    layout = layout_of(commit)
    if layout is None:
        return []
    checksums = ledger(path, commit) if thorough else {}
    wrong = []
    for name, length in layout.files(commit["chunks"]):
        if thorough and name in checksums:
            what = problem(path / name, Record(length, checksums[name]))
        else:  # without a line in the ledger a chunk still has zarr's own checksum
            what = length_problem(path / name, length)
            what = what or (layout.unreadable(path, name) if thorough else None)
        if what:
            wrong.append(f"{name}: {what}")
    return wrong


def length_problem(path: Path, length: int) -> str | None:
    try:
        there = path.stat().st_size
    except FileNotFoundError:
        return "missing"
    return None if there == length else f"{length:,} bytes were committed, {there:,} are there"


def ledger(path: Path, commit: dict[str, Any]) -> dict[str, str]:
    """The sha256 of every committed chunk; empty where the ledger itself is damaged."""
    expected = commit["files"].get(LEDGER, Record(0, ""))
    if not expected.length or problem(path / LEDGER, expected, prefix=True):
        return {}
    with open(path / LEDGER, "rb") as file:
        lines = file.read(expected.length).decode().splitlines()
    return {name: checksum for checksum, name in (line.split("  ", 1) for line in lines)}
