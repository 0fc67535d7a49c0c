"""Reading a run directory without its model: draws, averages and metrics by the names of leaves."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from . import commits, trees
from .commits import CURRENT, LEDGER, METRICS, PREVIOUS
from .draws import Layout, Leaf, chunk_name, dimensions, file_names
from .errors import RunError
from .files import ACCURACY, DECISION, Record, length_problem, problem, record, unseal
from .folder import Folder

if TYPE_CHECKING:
    import xarray

logger = logging.getLogger("vrsgmcmc")


def open(path: Any) -> Run:
    """Open a run directory to read it. What is damaged is not read: see `Run.notes`, `verify`."""
    folder = Folder(path)
    if not folder.path.is_dir() or not commits.is_run(folder):
        raise RunError(f"{str(path)!r} is not a run directory: it has no {CURRENT}.")
    commit, notes = newest(folder, thorough=False)
    sides = commits.side_problems(folder, commit)
    notes += [f"{name}: {what}" for name, what in sides.items()]
    if LEDGER in sides and commit["chunks"]:
        text = "draws are checked by crc32c alone, which cannot see a chunk in the wrong place"
        notes.append(f"{LEDGER}: {text}")
        logger.warning("%s: %s: %s; %s", folder.path.name, LEDGER, sides[LEDGER], text)
    return Run(folder.path, commit, tuple(notes))


def newest(folder: Folder, thorough: bool) -> tuple[dict[str, Any], list[str]]:
    """The newest whole commit, and what is wrong with a newer one."""
    notes = []
    for name in (CURRENT, PREVIOUS):
        commit, wrong = inspect(folder, name, thorough)
        if commit is not None and not wrong:
            if notes:
                steps = commit["progress"]["steps"]
                notes.append(f"going back to the commit before, at step {steps}")
            return commit, notes
        notes += [text for text in wrong if text not in notes]
    raise RunError(
        f"run_dir={str(folder.path)!r}: no whole commit is left ({'; '.join(notes)}). Put the damaged "
        "files back from a copy, or sample again in another directory; what is whole can still be read."
    )


def inspect(folder: Folder, name: str, thorough: bool) -> tuple[dict[str, Any] | None, list[str]]:
    """One of the two commits, and what is wrong with the files that it cannot do without."""
    try:
        commit = commits.load(folder, name)
        wrong = commits.order_problems(folder) if name == CURRENT else []
        wrong += commits.state_problems(folder, commit)
        count = commits.chunk_counts if wrong else commits.count_problems
        counts = count(folder, commit)
        wrong += [f"{name}: {text}" for text in counts]
        if not counts:
            wrong += commits.chunk_problems(folder, commit, thorough)
        return commit, wrong
    except RunError as error:
        return None, [f"{name}: {error}"]


def verify(path: Any) -> list[str]:
    """Check every file of a run against its sha256. The problems found; none: all is as committed."""
    folder = Folder(path)
    if not folder.path.is_dir() or not commits.is_run(folder):
        return [f"{str(path)!r} is not a run directory: it has no {CURRENT}"]
    problems = advice_problems(folder)
    for name in (CURRENT, PREVIOUS):
        commit, wrong = inspect(folder, name, thorough=True)
        if commit is not None:
            sides = commits.side_problems(folder, commit)
            wrong += [f"{side}: {what}" for side, what in sides.items()]
            if not commit.get("previous") and not folder.exists(PREVIOUS):
                return problems + wrong  # the first commit of a run has none before it
        problems += [text for text in wrong if text not in problems]
    return problems


def commit_sum(folder: Folder) -> str:
    """The sha256 of the last commit, which ends a finished run; empty where it is lost."""
    return record(folder.read(CURRENT)).sha256 if folder.exists(CURRENT) else ""


def advice_problems(folder: Folder) -> list[str]:
    """What is wrong with the files about a decision and about the accuracy, where there are any."""
    problems, (name, arrays) = [], DECISION
    for each in (name, ACCURACY):
        try:
            value = unseal(folder.read(each)) if folder.exists(each) else {}
            if each == name and value:
                what = problem(folder, arrays, Record(*value["arrays"]))
                problems += [f"{arrays}: {what}"] if what else []
            if each == ACCURACY and value and value["commit"] != commit_sum(folder):
                problems.append(f"{each}: of another run")
        except (OSError, KeyError, TypeError, ValueError) as error:
            problems.append(f"{each}: damaged ({error})")
    return problems


@dataclass(frozen=True)
class Run:
    """A run directory, read only."""

    path: Path
    commit: dict[str, Any] = field(repr=False)
    notes: tuple[str, ...] = ()  # what is wrong with it
    folder: Folder = field(init=False, repr=False)
    checked: set[str] = field(init=False, repr=False, default_factory=set)  # names of chunks

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Folder(self.path))

    @property
    def config(self) -> dict[str, Any]:
        return self.commit["config"]

    @property
    def environment(self) -> dict[str, Any]:
        return self.commit["environment"]

    @property
    def progress(self) -> dict[str, Any]:
        """Steps, evaluations, data passes, seconds, divergences."""
        return self.commit["progress"]

    @property
    def status(self) -> str:
        if self.commit["finished"]:
            return "finished"
        return f"interrupted at step {self.progress['steps']} of {self.config['num_steps']}"

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The state of the chains, by name."""
        name = commits.state_name(self.commit["number"])
        wrong = problem(self.folder, name, self.commit["files"][name])
        if wrong:
            raise RunError(f"{self.path / name}: {wrong}")
        return trees.from_bytes(self.folder.read(name))

    @cached_property
    def ledger(self) -> dict[str, str]:
        """The sha256 of the chunks of draws; empty where their file is damaged."""
        return commits.ledger(self.folder, self.commit)

    @property
    def averages(self) -> dict[str, Any]:
        """The online averages: an array [chain, ...], or a dict of them, for each observable."""
        names = list(self.config["observables"])
        averages: dict[str, Any] = {}
        for name, variable in zip(names, file_names(names), strict=True):
            prefix = f"averages/{variable}/"
            leaves = {
                key.removeprefix(prefix): value
                for key, value in self.arrays.items()
                if key.startswith(prefix)
            }
            averages[name] = leaves["x"] if list(leaves) == ["x"] else leaves
        return averages

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """A dict for each commit; none where the file is damaged."""
        expected = self.commit["files"].get(METRICS)
        if expected is None or problem(self.folder, METRICS, expected, prefix=True):
            return []
        lines = self.folder.read(METRICS, expected.length).splitlines()
        try:
            return [json.loads(line) for line in lines]
        except (ValueError, RecursionError) as error:
            raise RunError(f"{self.path / METRICS} has lines that are no JSON ({error})") from error

    @property
    def leaves(self) -> dict[str, Stored]:
        """The draws of each leaf, on disk until they are indexed."""
        layout = commits.layout_of(self.commit)
        if layout is None:
            return {}
        return {leaf.name: Stored(self, layout, leaf) for leaf in layout.leaves}

    @property
    def draws(self) -> xarray.DataTree:
        """The draws as a tree with the group `posterior`, read from disk when they are used."""
        import xarray

        variables = {
            stored.leaf.variable: xarray.Variable(
                dimensions(stored.leaf), indexing.LazilyIndexedArray(stored)
            )
            for stored in self.leaves.values()
        }
        step = self.config["first_step"] + self.config["burn_in"]
        steps = step + self.config["thin"] * np.arange(1, 1 + self.commit["draws"])
        coordinates = {
            "chain": np.arange(self.config["num_chains"]),
            "draw": np.arange(self.commit["draws"]),
            "step": ("draw", steps),
        }
        posterior = xarray.Dataset(variables, coordinates if variables else {})
        return xarray.DataTree.from_dict({"/posterior": posterior}, name=self.path.name)


class Stored(BackendArray):
    """The committed draws of one leaf, [chain, draw, ...]: whole chunks on disk, then the tail."""

    def __init__(self, run: Run, layout: Layout, leaf: Leaf):
        self.run, self.layout, self.leaf = run, layout, leaf
        self.whole = min(run.commit["chunks"] * layout.chunk, run.commit["draws"])
        self.shape = (layout.chains, run.commit["draws"], *leaf.shape)
        self.dtype = np.dtype(leaf.dtype)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, support, self.read)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.read((slice(None),) * len(self.shape)), dtype)

    def read(self, key: tuple[Any, ...]) -> Any:
        """NumPy's basic indexing, with steps forward."""
        chains, draws, *rest = key
        axis = 1 if isinstance(chains, slice) else 0  # of the draws, in the result
        if not isinstance(draws, slice):
            place = range(self.shape[1])[draws]
            one = self.read((chains, slice(place, place + 1), *rest))
            return one[:, 0] if axis else one[0]
        places = range(self.shape[1])[draws]
        result = np.empty(np.broadcast_to(0, self.shape)[key].shape, self.dtype)
        by_draw, done = np.moveaxis(result, axis, 0), 0
        while done < len(places):
            start, stop, block = self.block(places[done])
            count = len(range(places[done], min(places.stop, stop), places.step))
            inside = slice(places[done] - start, places[done + count - 1] - start + 1, places.step)
            part = block[(chains, inside, *rest)]
            by_draw[done : done + count] = np.moveaxis(part, axis, 0)
            done += count
        return result

    def block(self, place: int) -> tuple[int, int, np.ndarray]:
        """The draws that lie together with one: the first, the one behind the last, and all of them."""
        if place >= self.whole:
            return self.whole, self.shape[1], self.tail
        number, length = place // self.layout.chunk, self.layout.chunk
        return number * length, min((number + 1) * length, self.whole), self.chunk(number)

    def chunk(self, number: int) -> np.ndarray:
        """The draws of a chunk, compared with the sum of its file when it is first read."""
        if 0 in self.leaf.shape:
            return np.empty((self.shape[0], self.layout.chunk, *self.leaf.shape), self.dtype)
        name, folder = chunk_name(self.leaf, number), self.run.folder
        wrong = length_problem(folder, name, self.layout.chunk_bytes(self.leaf))
        if not wrong:
            content = folder.read(name)
            if name in self.run.checked or self.is_whole(name, content):
                self.run.checked.add(name)
                return self.layout.decode(self.leaf, content)
            wrong = "it is not as it was committed"
        raise RunError(
            f"{self.run.path}: draws of {self.leaf.name} are damaged ({name}: {wrong}). "
            "`verify` lists the files; put them back from a copy, or sample again."
        )

    def is_whole(self, name: str, content: bytes) -> bool:
        """Whether a chunk is as it was committed, by its line in the ledger, or else by its crc32c."""
        if self.run.ledger:
            return hashlib.sha256(content).hexdigest() == self.run.ledger.get(name)
        return self.layout.is_whole(name, content)

    @cached_property
    def tail(self) -> np.ndarray:
        """The draws that do not fill a chunk yet, which are in the state."""
        name = f"tail/{self.leaf.variable}"
        shape = (self.shape[0], self.shape[1] - self.whole, *self.leaf.shape)
        if not shape[1]:
            return np.empty(shape, self.dtype)
        tail = self.run.arrays.get(name)
        if tail is None or (tail.shape, tail.dtype) != (shape, self.dtype):
            raise RunError(
                f"{self.run.path}: {name} is not in the state as the commit describes it"
            )
        return tail
