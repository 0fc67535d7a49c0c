"""The commit: one small file that says how far the run is and what every other file must be.

    commit = {progress, config, environment, files: {name: [length, sha256]}, sha256: of the rest}

`commit.json` is the current one; `commit.previous.json` the one before, for when something that only
the current one points at is damaged. Both carry copies of config and environment.
"""

import hashlib
import json
import re
from typing import Any

from .draws import MOST, Layout, is_count
from .errors import IrregularFile, RunError
from .files import Record, as_json, length_problem, problem
from .folder import Folder

FORMAT = "vrsgmcmc run 1"
CURRENT, PREVIOUS = "commit.json", "commit.previous.json"
LEDGER, METRICS = "draws.sha256", "metrics.jsonl"
JOURNALS = (LEDGER, METRICS)
LARGEST = 2**26  # bytes; a commit is a few kilobytes, more where it has a long schedule
MOST_LISTED = 1000  # chunks that are missing
MOST_NAMED = 10**7  # draws of parameters without numbers, which no file bounds
NAMES = re.compile(
    r"config\.json|environment\.json|state-[0-9]{1,18}\.safetensors|draws\.sha256|metrics\.jsonl|"
    r"draws\.zarr/(posterior/([^/\\.][^/\\]*/)?)?zarr\.json"
)
SUM = re.compile(rb',\n "sha256": "([0-9a-f]{64})"\n}\n')  # the end, behind what it sums
SUM_BYTES = len(',\n "sha256": ""\n}\n') + 64
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
COUNTS = {  # whole numbers in the parts of a commit
    "config": ("num_steps", "num_chains", "burn_in", "thin", "first_step"),
    "progress": ("steps",),
}


def to_bytes(commit: dict[str, Any]) -> bytes:
    body = {"format": FORMAT, **commit}
    return as_json({**body, "sha256": hashlib.sha256(as_json(body)).hexdigest()})


def parse(content: bytes) -> dict[str, Any]:
    """A commit from its bytes; `RunError` says what is wrong with them."""
    start, ending = content[:-SUM_BYTES], SUM.fullmatch(content[-SUM_BYTES:])
    if not ending or hashlib.sha256(start + b"\n}\n").hexdigest() != ending[1].decode():
        raise RunError("damaged")
    try:
        body = json.loads(content, parse_constant=refuse_constant)
        del body["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RunError("damaged") from None
    if body.pop("format", None) != FORMAT:
        raise RunError(f"not of the format {FORMAT!r}")
    for name, kind in NEEDED.items():
        if type(body.get(name)) is not kind:
            raise RunError(f"{name} is missing or of the wrong kind")
    if not isinstance(body["config"].get("observables"), dict):
        raise RunError("config: observables are missing or of the wrong kind")
    counts = [(name, body[name]) for name in ("number", "draws", "chunks")]
    counts += [
        (f"{part}: {name}", body[part].get(name)) for part in COUNTS for name in COUNTS[part]
    ]
    for name, value in counts:
        if not is_count(value):
            raise RunError(f"{name} is not a whole number from 0 to {MOST:,}")
    body["files"] = {name: to_record(name, value) for name, value in body["files"].items()}
    return body


def refuse_constant(name: str) -> None:
    """No number of a commit is NaN or infinite."""
    raise ValueError(name)


def to_record(name: str, value: Any) -> Record:
    """Length and sha256 of a file, from a commit."""
    if not NAMES.fullmatch(name):
        raise RunError(f"{name!r} is no file of a run")
    if not (isinstance(value, list) and len(value) == 2 and is_count(value[0])):
        raise RunError(f"{name!r} has no length and sum")
    if not (isinstance(value[1], str) and re.fullmatch("[0-9a-f]{64}", value[1])):
        raise RunError(f"{name!r} has no sha256")
    return Record(*value)


def state_name(number: int) -> str:
    return f"state-{number}.safetensors"


def load(folder: Folder, name: str) -> dict[str, Any]:
    """The commit in one of the two files."""
    try:
        return parse(folder.read(name, LARGEST))
    except FileNotFoundError:
        raise RunError("missing") from None
    except IrregularFile as error:
        raise RunError(f"not a regular file but {error.what}") from None
    except OSError as error:
        raise RunError(f"cannot be read ({error.strerror})") from error


def order_problems(folder: Folder) -> list[str]:
    """Whether the commit before is newer than the current one: a crash never leaves that."""
    try:
        current, previous = (load(folder, name)["number"] for name in (CURRENT, PREVIOUS))
    except RunError:
        return []
    return [f"{CURRENT}: older than {PREVIOUS}"] * (current < previous)


def is_run(folder: Folder) -> bool:
    return any(folder.exists(name) for name in (CURRENT, PREVIOUS))


def layout_of(commit: dict[str, Any]) -> Layout | None:
    """How the draws of a run are laid out; None: it keeps none."""
    try:
        described = commit["config"]["draws"]
        return None if described is None else Layout.from_json(described)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RunError("config: draws are not described") from None


def state_problems(folder: Folder, commit: dict[str, Any]) -> list[str]:
    """What is wrong with the state file, which belongs to this commit alone."""
    name = state_name(commit["number"])
    if name not in commit["files"]:
        return [f"{name}: not in the commit"]
    wrong = problem(folder, name, commit["files"][name])
    return [f"{name}: {wrong}"] if wrong else []


def side_problems(folder: Folder, commit: dict[str, Any]) -> dict[str, str]:
    """What is wrong with the files that both commits share and that can be made again."""
    state = state_name(commit["number"])
    problems = {
        name: problem(folder, name, expected, prefix=name in JOURNALS)
        for name, expected in commit["files"].items()
        if name != state
    }
    problems |= {
        name: "the commit has no sum of it, so it cannot be checked"
        for name in JOURNALS
        if name not in commit["files"]
    }
    return {name: what for name, what in problems.items() if what}


def count_problems(folder: Folder, commit: dict[str, Any]) -> list[str]:
    """Numbers of a commit that its files contradict: looked at before anything is counted or made.

    The state must be as it was committed (`state_problems`).
    """
    layout, chains, draws = layout_of(commit), commit["config"]["num_chains"], commit["draws"]
    state = commit["files"][state_name(commit["number"])].length
    if chains > state:  # every chain has bytes in it
        return [f"{chains:,} chains are counted, which do not fit into a state of {state:,} bytes"]
    if layout is None:
        return ["draws are counted and none are kept"] if draws or commit["chunks"] else []
    tail = draws - commit["chunks"] * layout.chunk
    if layout.chains != chains or draws > layout.draws:
        return ["the counts of chains or draws contradict each other"]
    if not -layout.chunk < tail < layout.chunk or (tail < 0 and not commit["finished"]):
        return [f"{draws:,} draws are counted in {commit['chunks']:,} chunks of {layout.chunk:,}"]
    if tail * layout.draw_bytes > state:
        return [f"{tail:,} draws behind the last chunk do not fit into the state"]
    return chunk_counts(folder, commit)


def chunk_counts(folder: Folder, commit: dict[str, Any]) -> list[str]:
    """Whether about so many chunks are there as the commit counts."""
    layout = layout_of(commit)
    if layout is None:
        return []
    if not layout.draw_bytes:
        most = max(commit["draws"], commit["chunks"])
        return ["too many draws are counted"] * (most > MOST_NAMED)
    try:
        there = len(folder.names(layout.chunk_folder))
    except FileNotFoundError:
        there = 0
    except IrregularFile as error:
        return [f"{layout.chunk_folder}: not a folder but {error.what}"]
    if commit["chunks"] > there + MOST_LISTED:
        return [
            f"{layout.chunk_folder}: {commit['chunks']:,} chunks are counted, {there:,} are there"
        ]
    return []


def chunk_problems(folder: Folder, commit: dict[str, Any], thorough: bool) -> list[str]:
    """Chunks of draws that are not as they were committed: by length, or `thorough`, by sha256."""
    layout = layout_of(commit)
    if layout is None:
        return []
    checksums = ledger(folder, commit) if thorough else {}
    wrong = []
    for name, length in layout.files(commit["chunks"]):
        if thorough and name in checksums:
            what = problem(folder, name, Record(length, checksums[name]))
        else:  # without a line in the ledger a chunk still has zarr's own checksum
            what = length_problem(folder, name, length)
            if thorough and not what and not layout.is_whole(name, folder.read(name)):
                what = "damaged"
        if what:
            wrong.append(f"{name}: {what}")
    return wrong


def ledger(folder: Folder, commit: dict[str, Any]) -> dict[str, str]:
    """The sha256 of every committed chunk; empty where the ledger itself is damaged."""
    expected = commit["files"].get(LEDGER, Record(0, ""))
    if not expected.length or problem(folder, LEDGER, expected, prefix=True):
        return {}
    lines = folder.read(LEDGER, expected.length).decode(errors="replace").splitlines()
    pairs = [line.partition("  ") for line in lines]
    return {name: checksum for checksum, _, name in pairs}
