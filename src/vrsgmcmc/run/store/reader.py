"""Reading a run directory without its model: draws, averages and metrics by the names of leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from . import commits, trees
from .commits import CURRENT, METRICS, PREVIOUS
from .draws import Layout, Leaf, dimensions, file_names, open_array
from .files import RunError, problem

if TYPE_CHECKING:
    import xarray


def open(path: Any) -> Run:
    """Open a run directory to read it. What is damaged is not read: see `Run.notes`, `verify`."""
    path = Path(path)
    if not path.is_dir() or not commits.is_run(path):
        raise RunError(f"{str(path)!r} is not a run directory: it has no {CURRENT}.")
    commit, notes = newest(path, thorough=False)
    return Run(path, commit, tuple(notes))


def newest(path: Path, thorough: bool) -> tuple[dict[str, Any], list[str]]:
    """The newest whole commit, and what is wrong with a newer one."""
    notes = []
    for name in (CURRENT, PREVIOUS):
        try:
            commit = commits.load(path, name)
            wrong = commits.state_problems(path, commit)
            wrong += commits.chunk_problems(path, commit, thorough)
        except RunError as error:
            commit, wrong = None, [f"{name}: {error}"]
        if commit is not None and not wrong:
            if notes:
                steps = commit["progress"].get("steps")
                notes.append(f"going back to the commit before, at step {steps}")
            return commit, notes
        notes += [text for text in wrong if text not in notes]
    raise RunError(
        f"run_dir={str(path)!r}: no whole commit is left ({'; '.join(notes)}). Put the damaged files "
        "back from a copy, or sample again in another directory; what is whole can still be read."
    )


def verify(path: Any) -> list[str]:
    """Check every file of a run against its sha256. The problems found; none: all is as committed."""
    path, problems = Path(path), []
    if not path.is_dir() or not commits.is_run(path):
        return [f"{str(path)!r} is not a run directory: it has no {CURRENT}"]
    for name in (CURRENT, PREVIOUS):
        try:
            commit = commits.load(path, name)
            sides = commits.side_problems(path, commit)
            wrong = commits.state_problems(path, commit)
            wrong += [f"{side}: {what}" for side, what in sides.items()]
            wrong += commits.chunk_problems(path, commit, thorough=True)
        except RunError as error:
            wrong = [f"{name}: {error}"]
        else:
            if not commit.get("previous") and not (path / PREVIOUS).exists():
                return problems + wrong  # the first commit of a run has none before it
        problems += [text for text in wrong if text not in problems]
    return problems


@dataclass(frozen=True)
class Run:
    """A run directory, read only."""

    path: Path
    commit: dict[str, Any] = field(repr=False)
    notes: tuple[str, ...] = ()  # what is wrong with it

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
        wrong = problem(self.path / name, self.commit["files"][name])
        if wrong:
            raise RunError(f"{self.path / name}: {wrong}")
        return trees.from_bytes((self.path / name).read_bytes())

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
        expected = self.commit["files"][METRICS]
        if problem(self.path / METRICS, expected, prefix=True):
            return []
        with (self.path / METRICS).open("rb") as file:
            return [json.loads(line) for line in file.read(expected.length).splitlines()]

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
        self.run, self.leaf = run, leaf
        self.whole = min(run.commit["chunks"] * layout.chunk, run.commit["draws"])
        self.shape = (layout.chains, run.commit["draws"], *leaf.shape)
        self.dtype = np.dtype(leaf.dtype)
        self.array = open_array(run.path, layout, leaf)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, support, self.read)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.read((slice(None),) * len(self.shape)), dtype)

    def read(self, key: tuple[Any, ...]) -> Any:
        """NumPy's basic indexing, with steps forward."""
        chains, draws, *rest = key
        if not isinstance(draws, slice):
            place = range(self.shape[1])[draws]
            if place < self.whole:
                return self.chunks((chains, place, *rest))
            return self.tail[(chains, place - self.whole, *rest)]
        places = range(self.shape[1])[draws]
        later = [place for place in places[:1] if place >= self.whole]
        first = range(places.start, min(places.stop, self.whole), places.step)
        start = places.start if later else places.start + len(first) * places.step
        parts = []
        if len(first):
            parts.append(self.chunks((chains, slice(first.start, first.stop, first.step), *rest)))
        if len(first) < len(places):
            tail = slice(start - self.whole, places.stop - self.whole, places.step)
            parts.append(self.tail[(chains, tail, *rest)])
        if not parts:
            return self.tail[(chains, slice(0, 0), *rest)]
        axis = 1 if isinstance(chains, slice) else 0
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis)

    def chunks(self, key: tuple[Any, ...]) -> Any:
        try:
            return np.asarray(self.array[key])
        except ValueError as error:
            raise RunError(
                f"{self.run.path}: draws of {self.leaf.name} are damaged ({error}). "
                "`verify` lists the files; put them back from a copy, or sample again."
            ) from error

    @cached_property
    def tail(self) -> np.ndarray:
        empty = np.empty((self.shape[0], 0, *self.shape[2:]), self.dtype)
        return self.run.arrays.get(f"tail/{self.leaf.variable}", empty)
