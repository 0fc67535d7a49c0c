"""Run chains in segments, so that every figure against cost comes from one run.

The caller names the steps at which segments end. Each segment continues the one before and averages
the observables over its own steps; an average over several segments is their weighted mean. The
late average after a segment covers the segments that began after the first fifth of the steps. Large
networks run a segment in pieces, so that an interruption loses little work.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from vrsgmcmc.core import Kernel, Observable, Posterior, Sampler, State, data_size, kernel, tree_sum
from vrsgmcmc.run import Result, config, is_function, run_chains, set_up
from vrsgmcmc.run.store import named, rebuilt

from .checkpoints import Checkpoints
from .progress import ExperimentProgress

PIECES = 50  # of a run of a large network, at least, where the predictions allow it


class Task(NamedTuple):
    """A posterior with data and start, and what to average: functions of the parameters."""

    posterior: Posterior
    data: Any
    init: Any
    observables: Mapping[str, Any] = {}
    snapshots: Mapping[str, Callable] = {}  # evaluated where a segment ends
    chain_method: str = "vmap"
    clip: float | None = None
    schedule: Callable | None = None  # of the step; multiplies the step sizes, which are then equal

    @property
    def size(self) -> int:
        return data_size(self.data)

    @property
    def grain(self) -> int:
        """Steps in which every observable is evaluated at least once."""
        sparse = [o for o in self.observables.values() if isinstance(o, Observable)]
        return max([1, *(o.every for o in sparse)])

    @property
    def pieces(self) -> int:
        return PIECES if self.chain_method == "sequential" else 1

    def kernel(self, sampler: Sampler) -> Kernel:
        pair, count = (sampler.estimator, sampler.integrator), sampler.batch_size
        return kernel(self.posterior, *pair, size=self.size, batch_size=count)


class Trace(NamedTuple):
    """For each segment: its last step, the time so far, and the averages of each chain."""

    ends: Int[np.ndarray, " points"]  # steps so far
    seconds: Float[np.ndarray, " points"]  # so far, all chains together, at the median pace
    averages: dict[str, Float[np.ndarray, "points chain ..."]]
    diverged: np.ndarray  # [chain]
    snapshots: Mapping[str, Float[np.ndarray, "points chain ..."]] = {}
    state: State | None = None  # of the chains at the end

    @property
    def first_finite_chain(self) -> int | None:
        return next(iter(np.flatnonzero(~self.diverged).tolist()), None)

    def late_average(self, name: str, point: int) -> Float[np.ndarray, "chain ..."]:
        """The average over the segments that began after a fifth of the steps so far."""
        point %= len(self.ends)
        starts = np.concatenate([[0], self.ends[:-1]])
        return self.average(name, min(point, np.searchsorted(starts, self.ends[point] / 5)), point)

    def late_averages(self, name: str) -> Float[np.ndarray, "points chain ..."]:
        """The late average after every segment."""
        return np.stack([self.late_average(name, point) for point in range(len(self.ends))])

    def average(self, name: str, first: Any, last: int) -> Float[np.ndarray, "chain ..."]:
        """The average over the segments from `first` to `last`."""
        lengths = np.diff(self.ends, prepend=0)[first : last + 1].astype(float)
        return np.tensordot(lengths / lengths.sum(), self.averages[name][first : last + 1], 1)


def cuts(
    steps: int, points: int, *, least: int = 1, multiple: int = 1
) -> Int[np.ndarray, " points"]:
    """The ends of segments: evenly on a logarithmic axis, at multiples of a number of steps."""
    units = max(1, steps // multiple)
    first = np.clip(least // multiple, 1, units)
    return multiple * np.unique(np.geomspace(first, units, points).round().astype(int))


def run_segments(
    key: Any,
    task: Task,
    sampler: Sampler,
    step_sizes: Sequence[float] | np.ndarray,
    ends: Int[np.ndarray, " points"],
    progress: ExperimentProgress | None = None,
    checkpoints: Checkpoints | None = None,
) -> Trace:
    """Run one chain for each step size and return its averages over each segment.

    A checkpoint of the same run is continued.
    """
    progress, checkpoints = progress or ExperimentProgress([]), checkpoints or Checkpoints(None)
    options = run_options(key, task, sampler, step_sizes)
    description = "" if checkpoints.path is None else describe(key, task, sampler, step_sizes, ends)
    record = checkpoints.load(description) or {}
    done = loaded = int(np.sum(record.get("steps", 0)))
    shape, state = state_shapes(task, sampler, len(step_sizes)), task.init
    if done:
        progress.update(done / ends[-1], loaded=True)
    if 0 < done < ends[-1]:
        state = jax.tree.map(jnp.asarray, rebuilt("state", record, shape))
    logger = logging.getLogger("vrsgmcmc")
    disabled, logger.disabled = logger.disabled, True  # here a divergence is a result, no mistake
    try:
        for stop in stops(ends, task.pieces, task.grain, after=done):
            steps = int(stop) - done
            setup = set_up(init=state, num_steps=steps, **options)
            result = run_chains(setup, progress=False)
            if result.interrupted:
                raise KeyboardInterrupt
            state = result.state
            longer = add_piece(record, result, steps, new_segment=done == 0 or done in ends)
            done += steps
            if done in ends:
                longer = add_row(longer, evaluate_snapshots(task.snapshots, state))
            record = longer  # at once: an interruption may save the record at any moment
            if checkpoints.due:
                checkpoints.save(description, record)
            progress.update(done / ends[-1])
    finally:
        logger.disabled = disabled
        if loaded < ends[-1]:
            checkpoints.save(description, record)
    return Trace(
        ends=np.asarray(ends),
        seconds=median_pace(record["seconds"], np.diff(ends, prepend=0)) * np.asarray(ends),
        averages={name: record[f"averages/{name}"] for name in task.observables},
        diverged=np.any(record["diverged"], axis=0),
        snapshots={name: record[f"snapshots/{name}"] for name in task.snapshots},
        state=rebuilt("state", record, shape),
    )


def stops(
    ends: Int[np.ndarray, " points"], pieces: int, grain: int, *, after: int
) -> Int[np.ndarray, " stops"]:
    """The steps after which a run can be continued: the ends, and multiples of `grain` between."""
    longest = grain * -(-int(ends[-1]) // (grain * pieces))
    starts = np.concatenate([[0], ends[:-1]])
    between = [np.arange(a + longest, b, longest) for a, b in zip(starts, ends, strict=True)]
    every = np.unique(np.concatenate([*between, ends]))
    return every[every > after]


def run_options(key: Any, task: Task, sampler: Sampler, step_sizes: Any) -> dict[str, Any]:
    """The arguments of `set_up` that all segments share."""
    return {
        "sampler": replace(sampler, step_size=apply_schedule(task, step_sizes), clip=task.clip),
        "key": key,
        "posterior": task.posterior,
        "data": task.data,
        "observables": task.observables,
        "num_chains": len(step_sizes),
        "chain_method": task.chain_method,
        "weights": "equal",  # as between segments
        "keep": "averages",
    }


def median_pace(
    seconds: Float[np.ndarray, " points"], steps: Int[np.ndarray, " points"]
) -> Float[np.ndarray, ""]:
    """Seconds per step: the median over steps, where a step has the pace of its segment.

    Segments that compile, or that ran while the machine was busy, do not count.
    """
    order = np.argsort(seconds / steps)
    total = np.cumsum(steps[order])
    return (seconds / steps)[order[np.searchsorted(total, total[-1] / 2)]]


def state_shapes(task: Task, sampler: Sampler, chains: int) -> State:
    """The shapes of the states of all chains."""
    bound = task.kernel(sampler)

    def start(key: Any) -> State:
        return bound.init(key, task.init(key) if is_function(task.init) else task.init)

    return jax.eval_shape(jax.vmap(start), jax.random.split(jax.random.key(0), chains))


def apply_schedule(task: Task, step_sizes: Any) -> Any:
    """One step size for each chain, or the schedule that all of them share."""
    if task.schedule is None:
        return np.asarray(step_sizes, np.float32)
    scale, schedule = float(step_sizes[0]), task.schedule
    if np.ptp(step_sizes) > 0:
        raise ValueError(f"run_segments: chains of a schedule have one scale, got {step_sizes}.")
    return lambda step: scale * schedule(step)


def add_piece(
    record: dict[str, np.ndarray], result: Result, steps: int, new_segment: bool
) -> dict[str, np.ndarray]:
    """The record with one more piece, of a new segment or of the last one, and the new state."""
    averages = {f"averages/{name}": value for name, value in result.averages.items()}
    sums: dict[str, Any] = {"seconds": result.seconds, "steps": steps}
    diverged = result.diverged
    if not new_segment:
        last = {name: record[name][-1] for name in (*averages, *sums, "diverged")}
        record = record | {name: record[name][:-1] for name in last}
        share = steps / (steps + int(last["steps"]))
        averages = {n: last[n] + share * (new - last[n]) for n, new in averages.items()}
        sums = {name: last[name] + new for name, new in sums.items()}
        diverged = diverged | last["diverged"]
    row = averages | sums | {"diverged": diverged}
    return add_row(record, row) | named("state", result.state)


def add_row(record: dict[str, np.ndarray], row: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The record with one more row of each of these arrays."""
    return record | {n: np.stack([*record.get(n, ()), np.asarray(v)]) for n, v in row.items()}


def evaluate_snapshots(snapshots: Mapping[str, Callable], state: State) -> dict[str, np.ndarray]:
    """Each snapshot at the current parameters of each chain."""
    chains = [jax.tree.map(itemgetter(c), state.position) for c in range(len(state.step))]
    return {
        f"snapshots/{name}": np.stack([np.asarray(function(each)) for each in chains])
        for name, function in snapshots.items()
    }


def describe(key: Any, task: Task, sampler: Sampler, step_sizes: Any, ends: Any) -> str:
    """All that a trace depends on, as text: the settings of the whole run, and its segments."""
    options = run_options(key, task, sampler, step_sizes)
    setup = set_up(init=task.init, num_steps=int(ends[-1]), **options)
    return repr(
        (
            {name: version(name) for name in ("vrsgmcmc", "jax", "jaxlib")},
            jax.random.key_data(setup.key).tolist(),
            tree_sum(task.data),
            config(setup, None),
            sorted(task.snapshots),
            np.asarray(ends).tolist(),
            task.pieces,
        )
    )
