"""The files that are made of a result, and their sums: `sha256sum -c findings.sha256` checks them.

The sums are written last, and removed before the files are written again: a file and a sum that differ
mean that the file was changed since.
"""

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path

from vrsgmcmc.run.store import Folder, IrregularFile, RunError, record

SUMS = "findings.sha256"
FINDINGS, PREDICTIONS = "findings.json", "predictions.csv"
REPORT, FIGURES = "report.html", "figures"
NAMES = re.compile(r"findings\.json|predictions\.csv|report\.html|figures/[\w.-]{1,200}")
LARGEST = 2**20  # bytes of the sums, and of the findings
AGAIN = "`vrsgmcmc report RUN` makes it again"


def write_sums(path: Path, names: Iterable[str]) -> None:
    """Note the sums of files that were written, beside those of others."""
    folder = Folder(path)
    for name in names:
        folder.unsynced[name] = None
    folder.sync()
    sums = read_sums(folder) | {name: record(folder.read(name)).sha256 for name in names}
    lines = [f"{checksum}  {name}\n" for name, checksum in sums.items()]
    folder.replace(SUMS, "".join(lines).encode())


def has_sums(path: Path) -> bool:
    return Folder(path).exists(SUMS)


def read_sums(folder: Folder) -> dict[str, str]:
    """The sha256 of each file by its name; empty where no sums were written."""
    try:
        lines = folder.read(SUMS, LARGEST).decode().splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{folder.path / SUMS} cannot be read ({error}). {AGAIN}.") from error
    pairs = [line.partition("  ") for line in lines]
    for _, _, name in pairs:
        if not NAMES.fullmatch(name):
            raise RunError(f"{folder.path / SUMS} is damaged: {name!r} is no file of it. {AGAIN}.")
    return {name: checksum for checksum, _, name in pairs}


def problems(path: Path) -> list[str]:
    """The files that are not as they were written."""
    folder = Folder(path)
    try:
        sums = read_sums(folder)
    except RunError as error:
        return [str(error)]
    wrong = {name: file_problem(folder, name, checksum) for name, checksum in sums.items()}
    return [f"{name}: {what}" for name, what in wrong.items() if what]


def file_problem(folder: Folder, name: str, checksum: str) -> str | None:
    """What is wrong with one file; None: nothing."""
    try:
        whole = folder.sum(name, folder.size(name)).hexdigest() == checksum
    except FileNotFoundError:
        return f"missing; {AGAIN}"
    except IrregularFile as error:
        return f"not a regular file but {error.what}"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None if whole else f"changed since it was written; {AGAIN}"


def without_sum(path: Path) -> list[str]:
    """The files that cannot be checked, because no sum of them was written."""
    folder = Folder(path)
    try:
        sums = read_sums(folder)
    except RunError:
        return []  # `problems` has it
    names = [name for name in (FINDINGS, PREDICTIONS, REPORT) if folder.exists(name)]
    if folder.exists(FIGURES):
        names += [f"{FIGURES}/{name}" for name in folder.names(FIGURES)]
    return [name for name in names if name not in sums]


def read_scores(path: Path) -> tuple[dict[str, float], list[str]]:
    """The scores of a job on its test rows, and what there is to say about them."""
    folder, notes = Folder(path), []
    if not folder.exists(FINDINGS):
        return {}, []
    try:
        content, expected = folder.read(FINDINGS, LARGEST), read_sums(folder).get(FINDINGS)
        if expected is None:
            notes.append(f"{FINDINGS} has no sum, so its scores could not be checked; {AGAIN}.")
        elif expected != record(content).sha256:
            return {}, [f"{FINDINGS} was changed, so its scores are not shown; {AGAIN}."]
        scores = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        return {}, [f"{FINDINGS} cannot be read, so there are no scores ({error}); {AGAIN}."]
    items = scores.items() if isinstance(scores, dict) else ()
    return {k: v for k, v in items if isinstance(v, float) and math.isfinite(v)}, notes
