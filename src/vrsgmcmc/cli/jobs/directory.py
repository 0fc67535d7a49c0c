"""The directory of a job: its record, its rows, and everything that is needed to resume it."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vrsgmcmc.datasets import SplitTable
from vrsgmcmc.datasets.tables import Design, Recipe
from vrsgmcmc.run import check_memory, store
from vrsgmcmc.run.store import Folder, RunError, differences, trees

from .. import configuration
from ..keys import OWN, Config
from . import chains, first_format, outputs
from .choose_sampler import SamplerChoice
from .problem import Problem, build_problem
from .rows import arrays_of, data_of, design_of, record_of

FORMAT = "vrsgmcmc job 2"
RECORD, DATA, CHAINS = "job.json", "data.safetensors", "chains"
START = "start.safetensors"  # where chains start: of a plan of version 0.1.0
CLAIM = f"{RECORD}.part"  # written first, and renamed to the record at the end
LARGEST_RECORD = 2**26
REPAIR = "Put it back from a copy, or sample again."


class Job(NamedTuple):
    """The contents of a job's directory."""

    path: Path
    config: Config
    rows: Design | SplitTable  # of the first format: SplitTable
    choice: SamplerChoice  # its start is a list of leaves
    command: str

    @property
    def chains(self) -> Path:
        return self.path / CHAINS

    @property
    def needs_code(self) -> bool:
        return self.config.model == OWN

    @property
    def model(self) -> str:
        """Its name."""
        chosen = self.rows.target.model if isinstance(self.rows, Design) else OWN
        return self.config.model or chosen

    @property
    def target(self) -> Any:
        """Its `name` and `labels`."""
        rows = self.rows
        return rows.target if isinstance(rows, Design) else Target(rows.target, rows.labels)

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows to train, and to test."""
        rows = self.rows
        if isinstance(rows, SplitTable):
            return len(rows.train[1]), len(rows.test[1])
        return len(rows.y), len(rows.test.y) if rows.test else 0

    def problem(self, function: Callable | None = None) -> Problem:
        if self.needs_code and function is None:
            raise ValueError(
                f"{self.path}: the model of this run is your own, and a run directory cannot name "
                "code. Give it again: --model FILE.py:FUNCTION."
            )
        if isinstance(self.config, first_format.FirstConfig):
            assert isinstance(self.rows, SplitTable)
            return first_format.build_problem(self.config, self.rows, function)
        assert isinstance(self.rows, Design)
        return build_problem(self.config, self.rows, function)

    def data(self) -> Any:
        """The training rows as the model has them, in 64 bits."""
        return data_of(self.rows) if isinstance(self.rows, Design) else self.problem().data


class Target(NamedTuple):
    name: str
    labels: tuple[str, ...]


def is_job(path: Path) -> bool:
    return path.is_dir() and Folder(path).exists(RECORD)


def find(path: Path, config: Config, design: Design) -> Job | None:
    """The same job in this directory; None if it can be written there, else `ValueError`."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"--out {path}: this is a file. Name a directory.")
    if is_job(path):
        job = load(path)
        if not isinstance(job.rows, Design):
            raise ValueError(
                f"--out {path} holds a run of an earlier version. Go on with it: vrsgmcmc resume "
                f"{path}; or name another directory."
            )
        there, here = (
            {**configuration.to_json(c), "data.sha256": store.record(rows_to_bytes(r)).sha256}
            for c, r in ((job.config, job.rows), (config, design))
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


def save(path: Path, config: Config, design: Design, choice: SamplerChoice, command: str) -> Job:
    """Write a job, and return it as it can be read there: resuming runs exactly the same.

    A claim is written first, so that the files of an interrupted `save` are recognised as ours, and
    the record last, so that a directory with a record is complete.
    """
    folder = Folder(path)
    with folder.explain(RECORD, 0):
        folder.make()
    folder.write(CLAIM, b"")
    folder.sync()
    folder.write(DATA, data := rows_to_bytes(design))
    folder.sync()
    record = {
        "format": FORMAT,
        "command": command,
        "config": configuration.to_json(config),
        "settings": choice.settings,
        "notes": choice.notes,
        "table": record_of(design),
        "recipe": json.loads(design.recipe.to_json()),
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


def rows_to_bytes(design: Design) -> bytes:
    return trees.to_bytes(arrays_of(design))


def load(path: Path) -> Job:
    """Read a job; `RunError` for anything that `save` did not write."""
    folder = Folder(path)
    record = read_record(path, folder)
    if folder.exists(CHAINS):
        folder.names(CHAINS)  # `RunError` for a link: the run is inside the directory
    try:
        files = {name: read_file(folder, name, record["files"]) for name in record["files"]}
        leaves, arrays = files.get(START), files[DATA]
        if record["format"] == first_format.FORMAT:
            rows = first_format.read_table(record["table"], arrays)
            config = first_format.read_config(record["config"])
        else:
            rows = read_rows(path, record["table"], record["recipe"], arrays)
            values = {name: value for name, value in record["config"].items() if value is not None}
            config = configuration.validate(values, own_model=values.get("model") == OWN)
        start = None if leaves is None else [leaves[str(i)] for i in range(len(leaves))]
        choice = SamplerChoice(dict(record["settings"]), start, tuple(record["notes"]))
        return Job(Path(os.path.abspath(path)), config, rows, choice, str(record["command"]))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise RunError(f"{path / RECORD} is not the record of a job ({error!r}).") from error


def read_rows(path: Path, table: Any, value: Any, arrays: Mapping[str, np.ndarray]) -> Design:
    """The rows of a job: their recipe is `value`, and `table` says the rest."""
    try:
        recipe = Recipe.from_json(json.dumps(value))
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path / RECORD}: {error}") from error
    try:
        return design_of(table, recipe, arrays)
    except ValueError as error:
        raise RunError(f"{path / DATA} is not the data of this job: {error}. {REPAIR}") from error


def read_record(path: Path, folder: Folder) -> dict[str, Any]:
    if not is_job(path):
        what = "no such directory" if not path.is_dir() else f"no run: it has no {RECORD}"
        raise RunError(f"{path}: {what}.")
    content = folder.read(RECORD, LARGEST_RECORD)
    try:
        record = store.unseal(content)
    except ValueError as error:
        raise RunError(f"{path / RECORD} is damaged. {REPAIR}") from error
    form = record.get("format")
    if form not in (FORMAT, first_format.FORMAT):
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
