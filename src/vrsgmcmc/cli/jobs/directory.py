"""The directory of a job: its record, its rows, and everything that is needed to resume it."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vrsgmcmc.datasets import SplitTable
from vrsgmcmc.run import check_memory, store
from vrsgmcmc.run.store import Folder, RunError, differences, trees

from .. import configuration
from ..configuration import OWN, Config
from . import chains, outputs
from .choose_sampler import SamplerChoice
from .problem import Problem, build_problem

FORMAT = "vrsgmcmc job 1"
RECORD, DATA, CHAINS = "job.json", "data.safetensors", "chains"
START = "start.safetensors"  # where chains start: of a plan of version 0.1.0
CLAIM = f"{RECORD}.part"  # written first, and renamed to the record at the end
LARGEST_RECORD = 2**26
ARRAYS = ("x_train", "y_train", "x_test", "y_test", "test_rows")
REPAIR = "Put it back from a copy, or sample again."


class Job(NamedTuple):
    """The contents of a job's directory."""

    path: Path
    config: Config
    ready: SplitTable
    choice: SamplerChoice  # its start is a list of leaves
    command: str

    @property
    def chains(self) -> Path:
        return self.path / CHAINS

    @property
    def needs_code(self) -> bool:
        return self.config.model == OWN

    def problem(self, function: Callable | None = None) -> Problem:
        if self.needs_code and function is None:
            raise ValueError(
                f"{self.path}: the model of this run is your own, and a run directory cannot name "
                "code. Give it again: --model FILE.py:FUNCTION."
            )
        return build_problem(self.config, self.ready, function)


def is_job(path: Path) -> bool:
    return path.is_dir() and Folder(path).exists(RECORD)


def find(path: Path, config: Config, ready: SplitTable) -> Job | None:
    """The same job in this directory; None if it can be written there, else `ValueError`."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"--out {path}: this is a file. Name a directory.")
    if is_job(path):
        job = load(path)
        there, here = (
            {**configuration.to_json(c), "data.sha256": store.record(rows_to_bytes(r)).sha256}
            for c, r in ((job.config, job.ready), (config, ready))
        )
        lines = [f"\n  {text}" for _, text in differences(there, here)]
        if lines:
            raise ValueError(
                f"--out {path} holds another run:{''.join(lines)}\nName another directory."
            )
        return job
    names = Folder(path).names() if path.is_dir() else []
    # With a claim, `save` began a job here and was stopped. Without, files that have the names of a
    # job's belong to somebody else, and are not overwritten.
    unfinished = CLAIM in names and {CLAIM, DATA, START}.issuperset(names)
    if names and not unfinished:
        some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise ValueError(
            f"--out {path} is not empty and not a run: it holds {some}. Name a new directory."
        )
    return None


def save(path: Path, config: Config, ready: SplitTable, choice: SamplerChoice, command: str) -> Job:
    """Write a job, and return it as it can be read there: resuming runs exactly the same.

    A claim is written first, so that the files of an interrupted `save` are recognised as ours, and
    the record last, so that a directory with a record is complete.
    """
    folder = Folder(path)
    with folder.explain(RECORD, 0):
        folder.make()
    folder.write(CLAIM, b"")
    folder.sync()
    data = rows_to_bytes(ready)
    folder.write(DATA, data)
    folder.sync()
    record = {
        "format": FORMAT,
        "command": command,
        "config": configuration.to_json(config),
        "settings": choice.settings,
        "notes": choice.notes,
        "table": {name: getattr(ready, name) for name in SplitTable._fields[3:]},  # no arrays
        "files": {DATA: store.record(data)},
    }
    folder.replace(RECORD, store.seal(record))
    return load(path)


def discard(job: Job) -> None:
    """Remove a new job of which nothing was sampled."""
    folder = Folder(job.path)
    if {DATA, RECORD}.issuperset(folder.names()):
        folder.remove(RECORD)
        folder.remove(DATA)
        folder.remove_empty()


def rows_to_bytes(ready: SplitTable) -> bytes:
    arrays = zip(ARRAYS, (*ready.train, *ready.test, ready.test_rows), strict=True)
    return trees.to_bytes({name: np.asarray(array) for name, array in arrays})


def load(path: Path) -> Job:
    """Read a job; `RunError` for anything that `save` did not write."""
    folder = Folder(path)
    record = read_record(path, folder)
    if folder.exists(CHAINS):
        folder.names(CHAINS)  # `RunError` for a link: the run is inside the directory
    try:
        files = {name: read_file(folder, name, record["files"]) for name in record["files"]}
        x_train, y_train, x_test, y_test, test_rows = (files[DATA][name] for name in ARRAYS)
        table = record["table"]
        columns, labels, notes = (tuple(table[name]) for name in ("columns", "labels", "notes"))
        center, scale = float(table["center"]), float(table["scale"])
        data = (x_train, y_train), (x_test, y_test), test_rows
        ready = SplitTable(*data, columns, table["target"], labels, center, scale, notes)
        values = {name: value for name, value in record["config"].items() if value is not None}
        config = configuration.validate(values, own_model=values["model"] == OWN)
        leaves = files.get(START)
        start = None if leaves is None else [leaves[str(i)] for i in range(len(leaves))]
        choice = SamplerChoice(dict(record["settings"]), start, tuple(record["notes"]))
        return Job(Path(os.path.abspath(path)), config, ready, choice, str(record["command"]))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise RunError(f"{path / RECORD} is not the record of a job ({error!r}).") from error


def read_record(path: Path, folder: Folder) -> dict[str, Any]:
    if not is_job(path):
        what = "no such directory" if not path.is_dir() else f"no run: it has no {RECORD}"
        raise RunError(f"{path}: {what}.")
    content = folder.read(RECORD, LARGEST_RECORD)
    try:
        record = store.unseal(content)
    except ValueError as error:
        raise RunError(f"{path / RECORD} is damaged. {REPAIR}") from error
    if record.get("format") != FORMAT:
        form = record.get("format")
        raise RunError(f"{path / RECORD} is of the format {form!r}, not {FORMAT!r}.")
    return record


def read_file(folder: Folder, name: str, files: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of one file of a job, compared with its length and sha256 in the record."""
    if name not in (DATA, START):
        raise RunError(f"{folder.path / RECORD} names a file that is none of a job: {name!r}.")
    file = folder.path / name
    try:
        check_memory(2 * folder.size(name), f"{file}", "Use a machine with more memory.")
        data = folder.read(name)
    except FileNotFoundError:
        raise RunError(f"{file} is missing. {REPAIR}") from None
    if list(store.record(data)) != files[name]:
        raise RunError(f"{file} is damaged. {REPAIR}")
    return trees.from_bytes(data)


def verify(path: Path) -> list[str]:
    """Compare every file of a job, or of a bare run directory, with its sum; returns the problems."""
    output_problems = outputs.problems(path)
    if not is_job(path):
        return store.verify(path) + output_problems
    try:
        job = load(path)
    except ValueError as error:
        return [str(error), *output_problems]
    if not job.chains.exists():  # nothing was sampled yet, or the run is lost
        made = outputs.has_sums(path)
        return [f"{CHAINS}: missing, though its findings are there"] * made + output_problems
    problems = [f"{CHAINS}/{text}" for text in store.verify(job.chains)]
    try:
        chains.check(job, store.open(job.chains))
    except ValueError as error:
        problems += [] if problems else [str(error)]  # what cannot be opened is named already
    return problems + output_problems
