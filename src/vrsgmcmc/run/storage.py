"""Where a run is kept while it goes: in memory, or in a run directory (`store`)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.core import Carry, State, tree
from vrsgmcmc.run import fingerprint, store
from vrsgmcmc.run.gather import Done, evaluations, gather
from vrsgmcmc.run.memory import check_memory
from vrsgmcmc.run.result import Divergence, Later, Result
from vrsgmcmc.run.setup import Job, with_center
from vrsgmcmc.run.store import trees
from vrsgmcmc.run.store.draws import file_names


class Going(Protocol):
    """A run under way, as far as it is kept."""

    job: Job
    unit: int

    @property
    def over(self) -> bool: ...

    def done(self) -> Done: ...

    def carried(self) -> Carry: ...

    def finish(self) -> tuple[State, tuple]: ...


class Resumed(NamedTuple):
    """Where the last commit stands."""

    job: Job
    done: Done
    unit: int
    carry: Carry


def empty_draws(job: Job, count: int) -> Any:
    """Room for so many draws of every chain."""
    return jax.tree.map(
        lambda leaf: np.empty((job.num_chains, count, *leaf.shape), leaf.dtype), job.shapes
    )


class Held:
    """Draws in memory, and nothing on disk."""

    signals: tuple[int, ...] = ()
    resumed = path = None
    due = False

    def __init__(self, job: Job):
        self.job, self.held = job, empty_draws(job, job.kept)

    def room(self, start: int, stop: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[:, start:stop], self.held)

    def put(self, rows: Any) -> None:
        """They are already there."""

    def wait(self, interrupted: Any, values: Any) -> None:
        """Whoever looks at the values waits for them."""

    def commit(self, run: Going) -> None:
        """There is nothing to resume."""

    def draws(self, steps: int) -> Any:
        if not self.job.program.slots:
            return None
        return self.room(0, self.job.draws_before(self.job.first + steps))


class Directory:
    """A job and the directory that it is kept in."""

    def __init__(self, path: Any, job: Job):
        self.path, self.job = Path(path), job
        self.layout = fingerprint.layout(job)
        self.config = fingerprint.config(job, self.layout)
        self.surroundings = fingerprint.surroundings(job)
        self.carry, self.averages = fingerprint.templates(job)

    def finished(self) -> Result | None:
        """The result of a finished run. Nothing is compiled, nothing written."""
        run = store.finished(self.path, self.config, self.surroundings)
        return None if run is None else self.load(run)

    @contextmanager
    def write(self) -> Iterator[Kept]:
        size = tree.nbytes(self.carry)
        with store.write(self.path, self.config, self.surroundings, self.layout, size) as writer:
            yield Kept(self, writer)

    def load(self, run: store.Run) -> Result:
        found = self.resumed(run)
        averages = tuple(
            trees.rebuilt(f"averages/{name}", run.arrays, like)
            for name, like in zip(file_names(self.job.names), self.averages, strict=True)
        )
        return gather(
            found.job,
            found.done,
            found.carry.state,
            averages,
            self.draws(run),
            run_dir=self.path,
        )

    def resumed(self, run: store.Run) -> Resumed:
        """What a commit says, in terms of this job."""
        told, job = run.progress, self.job
        carry = jax.tree.map(jnp.asarray, trees.rebuilt("carry", run.arrays, self.carry))
        try:
            divergences = tuple(
                Divergence(chain, step, *map(float, rest))
                for chain, step, *rest in told["divergences"]
            )
            counted = {name: told[name] for name in ("steps", "visits", "searched", "seconds")}
            done, unit = Done(**counted, divergences=divergences), told["unit"]
        except (KeyError, TypeError, ValueError) as error:
            raise store.RunError(f"{run.path}: the commit tells no progress ({error!r})") from error
        if job.seeks:
            center = jax.tree.map(lambda leaf: leaf[0], carry.state.memory.center)
            job = replace(job, setting=with_center(job.setting, center), searched=done.searched)
        return Resumed(job, done, unit, carry)

    def draws(self, run: store.Run) -> Any:
        """The draws when they are asked for; None: none were kept."""
        if self.layout is None:
            return None

        def load() -> Any:
            stored = list(run.leaves.values())
            needed = sum(np.prod(leaf.shape) * leaf.dtype.itemsize for leaf in stored)
            check_memory(
                int(needed),
                f"result.draws of {run.path.name}, read into memory,",
                f"Read them in parts: vrsgmcmc.store.open({str(run.path)!r}).draws is an "
                "xarray.DataTree that stays on disk.",
            )
            kinds = [leaf.dtype for leaf in jax.tree.leaves(self.job.shapes)]
            arrays = [np.asarray(leaf, kind) for leaf, kind in zip(stored, kinds, strict=True)]
            return jax.tree.unflatten(jax.tree.structure(self.job.shapes), arrays)

        return Later(load)


class Kept:
    """A run directory in the hands of the driver."""

    signals = (signal.SIGTERM,)

    def __init__(self, directory: Directory, writer: store.Writer):
        self.directory, self.writer, self.job = directory, writer, directory.job
        self.path = directory.path

    @property
    def finished(self) -> bool:
        return self.writer.resumed is not None and self.writer.resumed.status == "finished"

    def loaded(self) -> Result:
        assert self.writer.resumed is not None
        return self.directory.load(self.writer.resumed)

    @cached_property
    def resumed(self) -> Resumed | None:
        return self.writer.resumed and self.directory.resumed(self.writer.resumed)

    @property
    def due(self) -> bool:
        return self.writer.due

    def room(self, start: int, stop: int) -> Any:
        return empty_draws(self.job, stop - start)

    def put(self, rows: Any) -> None:
        if self.directory.layout is not None:
            self.writer.append(jax.tree.leaves(rows))

    def wait(self, interrupted: Any, values: Any) -> None:
        interrupted.wait(values)

    def commit(self, run: Going) -> None:
        done, (_, averages) = run.done(), run.finish()
        arrays = trees.named("carry", run.carried())
        for name, value in zip(file_names(self.job.names), averages, strict=True):
            arrays |= trees.named(f"averages/{name}", value)
        cost = evaluations(run.job, done, run.job.num_chains) + done.searched
        told = done._asdict() | {
            "unit": run.unit,
            "evaluations": cost,
            "data_passes": cost / (run.job.program.size * run.job.num_chains),
            "divergences": [[one.chain, one.step, *map(repr, one[2:])] for one in done.divergences],
        }
        self.writer.commit(arrays, told, finished=run.over)

    def draws(self, steps: int) -> Any:
        return self.directory.draws(store.open(self.path))
