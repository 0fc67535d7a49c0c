"""Where a run is stored while it goes: in memory, or in a run directory (`store`).

The loop hands over a `Checkpoint`, a value; a storage knows nothing of the loop.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.core import Carry, nbytes

from . import fingerprint, store
from .parts import StoredDraws
from .reading import is_number, read_totals
from .result import Result, constant, make_result
from .setup import Setup
from .store import trees
from .totals import Totals

# names of leaves in run directories that earlier versions wrote
OLD_NAMES = {"carry/partial.": "carry/partial_sum.", ".memory.lock": ".memory.augment_key"}
COUNT = "carry/partial_sum.count"  # a floating number in earlier versions


class Checkpoint(NamedTuple):
    """A run at one moment: all that a later process needs to go on from there."""

    setup: Setup  # with the mode that the start may have found
    totals: Totals
    unit: int  # the next one
    carry: Carry  # of all chains, leaves [chain, ...]
    averages: tuple
    finished: bool


def empty_draws(setup: Setup, count: int) -> Any:
    """Empty arrays for `count` draws of every chain."""
    return jax.tree.map(
        lambda leaf: np.empty((setup.num_chains, count, *leaf.shape), leaf.dtype), setup.shapes
    )


class MemoryStorage:
    """Draws in memory, and nothing on disk."""

    signals: tuple[int, ...] = ()
    patience = math.inf  # a chunk that is given up would take all draws with it
    path = None
    resumable = due = False

    def __init__(self, setup: Setup):
        self.setup, self.draws = setup, empty_draws(setup, setup.num_draws)

    def room(self, start: int, stop: int) -> Any:
        """Where draws [start, stop) are to be written: a view."""
        return jax.tree.map(lambda leaf: leaf[:, start:stop], self.draws)

    def append(self, rows: Any) -> None:
        """No-op: `room` returned a view of the array."""

    def commit(self, checkpoint: Checkpoint) -> None:
        """No-op: a run in memory cannot be resumed."""

    def last_checkpoint(self) -> None:
        return None

    def draws_loader(self, steps: int) -> Callable[[], Any]:
        if not self.setup.program.slots:
            return partial(constant, None)
        draws = self.room(0, self.setup.draws_before(self.setup.first + steps))
        return partial(constant, draws)


class RunDirectory:
    """A run and the directory that it is stored in."""

    def __init__(self, path: Any, setup: Setup):
        self.path, self.setup = Path(os.path.realpath(path)), setup
        self.layout = fingerprint.layout(setup)
        self.config = fingerprint.config(setup, self.layout)
        self.surroundings = fingerprint.surroundings(setup)
        self.carry, self.averages = fingerprint.templates(setup)

    def finished_result(self) -> Result | None:
        """The result of a finished run; None: it is not finished. Compiles and writes nothing."""
        run = store.finished(self.path, self.config, self.surroundings)
        return None if run is None else self.result(run)

    @contextmanager
    def write(self) -> Iterator[DirectoryStorage]:
        size = nbytes(self.carry)
        with store.write(self.path, self.config, self.surroundings, self.layout, size) as writer:
            yield DirectoryStorage(self, writer)

    def result(self, run: store.Run) -> Result:
        """The result of a finished run, from disk."""
        checkpoint = self.checkpoint(run)
        return make_result(
            checkpoint.setup,
            checkpoint.totals,
            checkpoint.carry.state,
            checkpoint.averages,
            self.draws_loader(run),
            run_dir=self.path,
        )

    def checkpoint(self, run: store.Run) -> Checkpoint:
        """The last commit, in terms of this setup."""
        record, setup, arrays = run.progress, self.setup, current_names(run.arrays)
        carry = jax.tree.map(jnp.asarray, trees.rebuilt("carry", arrays, self.carry))
        averages = tuple(
            trees.rebuilt(f"averages/{name}", arrays, like)
            for name, like in zip(store.file_names(setup.names), self.averages, strict=True)
        )
        totals = read_totals(run)
        unit: Any = record.get("unit")
        if not is_number(unit):
            raise store.RunError(f"{run.path}: the commit does not say where to go on")
        estimator = setup.sampler.estimator
        if setup.fresh and estimator.seeks_mode:
            memory = jax.tree.map(lambda leaf: leaf[0], carry.state.memory)
            setup = setup.at_mode(estimator.mode(memory), totals.search_cost)
        return Checkpoint(setup, totals, unit, carry, averages, run.status == "finished")

    def draws_loader(self, run: store.Run) -> Callable[[], Any]:
        """Reads the draws when it is called; None: none were stored."""
        if self.layout is None:
            return partial(constant, None)

        def rebuild(leaves: list[Any]) -> Any:
            draws = jax.tree.unflatten(jax.tree.structure(self.setup.shapes), leaves)
            return jax.tree.map(
                lambda leaf, like: leaf.astype(like.dtype, copy=False), draws, self.setup.shapes
            )

        return StoredDraws(
            run,
            rebuild,
            f"result.draws of {run.path.name}, read into memory,",
            f"Read them in parts: vrsgmcmc.store.open({str(run.path)!r}).draws is an "
            "xarray.DataTree that stays on disk.",
        )


class DirectoryStorage:
    """A run directory in the hands of the loop."""

    signals = (signal.SIGTERM,)
    patience = None
    resumable = True

    def __init__(self, directory: RunDirectory, writer: store.Writer):
        self.directory, self.writer = directory, writer
        self.path = directory.path

    @property
    def due(self) -> bool:
        return self.writer.due

    def room(self, start: int, stop: int) -> Any:
        return empty_draws(self.directory.setup, stop - start)

    def append(self, rows: Any) -> None:
        if self.directory.layout is not None:
            self.writer.append(jax.tree.leaves(rows))

    def commit(self, checkpoint: Checkpoint) -> None:
        setup, totals = checkpoint.setup, checkpoint.totals
        arrays = trees.named("carry", checkpoint.carry)
        for name, value in zip(store.file_names(setup.names), checkpoint.averages, strict=True):
            arrays |= trees.named(f"averages/{name}", value)
        evaluations = totals.evaluations(setup, checkpoint.carry.state)
        record = totals.to_json() | {
            "unit": checkpoint.unit,
            "evaluations": evaluations,
            "data_passes": evaluations / (setup.program.size * setup.num_chains),
        }
        self.writer.commit(arrays, record, finished=checkpoint.finished)

    def last_checkpoint(self) -> Checkpoint | None:
        run = self.writer.resumed
        return None if run is None else self.directory.checkpoint(run)

    def finished_result(self) -> Result | None:
        """The result, when another process has finished the run in the meantime."""
        run = self.writer.resumed
        return self.directory.result(run) if run is not None and run.status == "finished" else None

    def draws_loader(self, steps: int) -> Callable[[], Any]:
        return self.directory.draws_loader(store.open(self.path))


def current_names(arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays by the names, and of the kind, that their leaves have now."""

    def rename(name: str) -> str:
        for old, new in OLD_NAMES.items():
            name = name.replace(old, new)
        return name

    current = {rename(name): array for name, array in arrays.items()}
    if (count := current.get(COUNT)) is not None:
        current[COUNT] = count.astype(np.int32)
    return current
