"""The directory of a job: what was asked for, and everything that is needed to go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from vrsgmcmc.cli import configuration
from vrsgmcmc.cli.configuration import OWN, Config
from vrsgmcmc.cli.jobs.choose_sampler import Choice
from vrsgmcmc.cli.jobs.problem import Problem, make
from vrsgmcmc.datasets import Prepared
from vrsgmcmc.run import check_memory, is_function, store
from vrsgmcmc.run.store import Folder, RunError, as_json, differences, record, trees

FORMAT = "vrsgmcmc job 1"
RECORD, DATA, START, CHAINS = "job.json", "data.safetensors", "start.safetensors", "chains"
CLAIM = f"{RECORD}.part"  # there from the first moment on, and renamed to the record at the end
LARGEST_RECORD = 2**26
ARRAYS = ("x_train", "y_train", "x_test", "y_test", "test_rows")


class Job(NamedTuple):
    """A job as its directory holds it."""

    path: Path
    config: Config
    ready: Prepared
    choice: Choice  # its start is a list of leaves
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
        return make(self.config, self.ready, function)


def is_job(path: Path) -> bool:
    return (path / RECORD).is_file()


def create(path: Path, config: Config, ready: Prepared) -> Job | None:
    """Claim a directory for a job; the job that is there already, when it is the same one."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"--out {path}: this is a file. Name a directory.")
    if is_job(path):
        there = load(path)
        asked = {**configuration.plain(config), "data.sha256": content(ready)[1]}
        known = {**configuration.plain(there.config), "data.sha256": content(there.ready)[1]}
        told = [text for _, text in differences(known, asked)]
        if told:
            raise ValueError(
                f"--out {path} holds another run:\n  "
                + "\n  ".join(told)
                + "\nName another directory."
            )
        return there
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    if names and not is_unfinished(names):
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise ValueError(
            f"--out {path} is not empty and not a run: it holds {shown}. Name a new directory."
        )
    return None


def is_unfinished(names: list[str]) -> bool:
    """Whether `save` began to write a job here and was stopped. Files that only bear the names of a
    job's are somebody's own, and are not written over."""
    return CLAIM in names and {CLAIM, DATA, START}.issuperset(names)


def save(path: Path, config: Config, ready: Prepared, choice: Choice, command: str) -> Job:
    """Write a job: a claim first, so that what is left of a full disk or a kill is known as ours, and
    the record last, so that a directory with one is whole. Returns what can be read there: the first
    process and those that resume run the same."""
    path.mkdir(parents=True, exist_ok=True)
    folder = Folder(path)
    folder.write(CLAIM, b"")
    folder.sync()
    files = {DATA: content(ready)[0]}
    if choice.start is not None:
        leaves = jax.tree.leaves(choice.start)
        files[START] = trees.to_bytes({str(i): np.asarray(leaf) for i, leaf in enumerate(leaves)})
    for name, data in files.items():
        folder.write(name, data)
    folder.sync()
    told = {
        "format": FORMAT,
        "command": command,
        "config": configuration.plain(config),
        "settings": choice.settings,
        "notes": list(choice.notes),
        "table": {
            "columns": list(ready.columns),
            "target": ready.target,
            "labels": list(ready.labels),
            "center": ready.center,
            "scale": ready.scale,
            "notes": list(ready.notes),
        },
        "files": {name: list(record(data)) for name, data in files.items()},
    }
    folder.replace(RECORD, as_json({**told, "sha256": record(as_json(told)).sha256}))
    return load(path)


def content(ready: Prepared) -> tuple[bytes, str]:
    """The rows of a job as bytes, and their sha256."""
    arrays = dict(zip(ARRAYS, (*ready.train, *ready.test, ready.test_rows), strict=True))
    data = trees.to_bytes({name: np.asarray(array) for name, array in arrays.items()})
    return data, record(data).sha256


def load(path: Path) -> Job:
    """Read a job with suspicion: whatever is not as it was written is refused."""
    told = read_record(path)
    try:
        files = {name: read_file(path, name, told["files"]) for name in told["files"]}
        table, arrays = told["table"], files[DATA]
        ready = Prepared(
            (arrays["x_train"], arrays["y_train"]),
            (arrays["x_test"], arrays["y_test"]),
            arrays["test_rows"],
            tuple(table["columns"]),
            table["target"],
            tuple(table["labels"]),
            float(table["center"]),
            float(table["scale"]),
            tuple(table["notes"]),
        )
        known = {name: value for name, value in told["config"].items() if value is not None}
        config = configuration.checked(known, own_model=known["model"] == OWN)
        start = None
        if START in files:
            start = [files[START][str(i)] for i in range(len(files[START]))]
        settings: Any = told["settings"]
        choice = Choice(dict(settings), start, tuple(told["notes"]))
        return Job(path, config, ready, choice, str(told["command"]))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise RunError(f"{path / RECORD} is not the record of a job ({error!r}).") from error


def read_record(path: Path) -> dict[str, Any]:
    if not is_job(path):
        what = "no such directory" if not path.is_dir() else f"no run: it has no {RECORD}"
        raise RunError(f"{path}: {what}.")
    try:
        with (path / RECORD).open("rb") as file:
            told = json.loads(file.read(LARGEST_RECORD))
        known = told.pop("sha256")
        fine = record(as_json(told)).sha256 == known
    except (ValueError, KeyError, AttributeError, RecursionError, TypeError):
        fine, told = False, {}
    if not fine:
        raise RunError(f"{path / RECORD} is damaged. Put it back from a copy, or sample again.")
    if told.get("format") != FORMAT:
        raise RunError(f"{path / RECORD} is of the format {told.get('format')!r}, not {FORMAT!r}.")
    return told


def read_file(path: Path, name: str, files: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if name not in (DATA, START):
        raise RunError(f"{path / RECORD} names a file that is none of a job: {name!r}.")
    length, sha256 = files[name]
    file = path / name
    if not file.is_file():
        raise RunError(f"{file} is missing. Put it back from a copy, or sample again.")
    check_memory(2 * file.stat().st_size, f"{file}", "Use a machine with more memory.")
    data = file.read_bytes()
    if len(data) != length or record(data).sha256 != sha256:
        raise RunError(f"{file} is damaged. Put it back from a copy, or sample again.")
    return trees.from_bytes(data)


def verify(path: Path) -> list[str]:
    """Every file of a job, or of a bare run directory, against its sum: the problems found."""
    if not is_job(path):
        return store.verify(path)
    try:
        job = load(path)
    except ValueError as error:
        return [str(error)]
    if not job.chains.exists():
        return []  # nothing was sampled yet
    return [f"{CHAINS}/{text}" for text in store.verify(job.chains)]


def start_of(job: Job, problem: Problem) -> Any:
    """Where the chains start: as saved, with the structure of the problem's parameters."""
    if job.choice.start is None:
        return problem.init
    like: Any = problem.init
    if is_function(like):
        like = jax.eval_shape(like, jax.random.key(job.config.seed))
    structure = jax.tree.structure(like)
    if structure.num_leaves != len(job.choice.start):
        raise ValueError(
            f"{job.path}: this run has {len(job.choice.start)} arrays of parameters, and the model "
            f"{structure.num_leaves}. Give the model it was started with."
        )
    return jax.tree.unflatten(structure, job.choice.start)
