"""Follow a run: averages over its segments, so that every figure against cost comes from one chain.

A run is cut at chosen steps. Each segment continues the one before and averages the observables over
its own steps; averages over several segments are their weighted means. What a chain knows after a
segment is the average over those that began after the first fifth of its steps. Large networks make a
segment in pieces, so that an interrupted run loses little.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from vrsgmcmc.core import Observable, Posterior, State, tree_sum
from vrsgmcmc.experiments.checkpoints import Memory
from vrsgmcmc.experiments.methods import Method
from vrsgmcmc.experiments.progress import Board
from vrsgmcmc.run import Result, config, is_function, prepare, sample
from vrsgmcmc.run.store import named, rebuilt

PIECES = 50  # of the run of a large network, at least, where its predictions allow


class Task(NamedTuple):
    """What is sampled, and what is watched on the way: functions of the parameters, or with data."""

    posterior: Posterior
    data: Any
    init: Any
    observables: Mapping[str, Any] = {}
    snapshots: Mapping[str, Callable] = {}  # looked at where a segment ends: the parameters alone
    chain_method: str = "vmap"
    clip: float | None = None
    schedule: Callable | None = None  # of the step; multiplies the step sizes, which are then equal

    @property
    def size(self) -> int:
        return jax.tree.leaves(self.data)[0].shape[0]

    @property
    def grain(self) -> int:
        """Steps in which every observable is evaluated at least once."""
        watched = [o for o in self.observables.values() if isinstance(o, Observable)]
        return max([1, *(o.every for o in watched)])

    @property
    def pieces(self) -> int:
        return PIECES if self.chain_method == "sequential" else 1


class Trace(NamedTuple):
    """Segment after segment: where it ends, when, and each chain's averages over it."""

    ends: Int[np.ndarray, " points"]  # steps so far
    seconds: Float[np.ndarray, " points"]  # so far, all chains together, at the usual pace
    averages: dict[str, Float[np.ndarray, "points chain ..."]]
    diverged: np.ndarray  # [chain]
    snapshots: Mapping[str, Float[np.ndarray, "points chain ..."]] = {}
    state: State | None = None  # of the chains at the end

    @property
    def sound(self) -> int | None:
        """The first chain that stayed finite."""
        return next(iter(np.flatnonzero(~self.diverged).tolist()), None)

    def known(self, name: str, point: int) -> Float[np.ndarray, "chain ..."]:
        """The average after a segment, over the segments that began after a fifth of the steps."""
        point %= len(self.ends)
        starts = np.concatenate([[0], self.ends[:-1]])
        first = min(point, int(np.searchsorted(starts, self.ends[point] / 5)))
        lengths = (self.ends - starts)[first : point + 1].astype(float)
        return np.tensordot(lengths / lengths.sum(), self.averages[name][first : point + 1], 1)

    def everything(self, name: str, point: int) -> Float[np.ndarray, "chain ..."]:
        """The average over all steps so far."""
        point %= len(self.ends)
        lengths = np.diff(self.ends[: point + 1], prepend=0).astype(float)
        return np.tensordot(lengths / lengths.sum(), self.averages[name][: point + 1], 1)


def cuts(
    steps: int, points: int, *, least: int = 1, multiple: int = 1
) -> Int[np.ndarray, " points"]:
    """Where to cut a run: evenly on a logarithmic axis, at multiples of a number of steps."""
    units = max(1, steps // multiple)
    first = np.clip(least // multiple, 1, units)
    return multiple * np.unique(np.geomspace(first, units, points).round().astype(int))


def follow(
    key: Any,
    task: Task,
    method: Method,
    step_sizes: Sequence[float] | np.ndarray,
    ends: Int[np.ndarray, " points"],
    *,
    board: Board | None = None,
    memory: Memory | None = None,
) -> Trace:
    """Run one chain for each step size and keep what it averages between the cuts.

    The board is told how far it is. With a memory that knows the beginning, it goes on from there.
    """
    memory = memory or Memory(None)
    options = options_of(task, method, step_sizes)
    description = "" if memory.path is None else describe(key, task, method, step_sizes, ends)
    known = memory.load(description) or {}
    done = found = int(np.sum(known.get("steps", 0)))
    shape, state = blank(task, method, len(step_sizes)), task.init
    if done and board is not None:
        board.at(done / ends[-1], known=True)
    if 0 < done < ends[-1]:
        state = jax.tree.map(jnp.asarray, rebuilt("state", known, shape))
    try:
        for stop in stops(ends, task.pieces, task.grain, after=done):
            steps = int(stop) - done
            with silent(logging.getLogger("vrsgmcmc")):
                result = sample(
                    key,
                    task.posterior,
                    task.data,
                    state,
                    num_steps=steps,
                    progress=False,
                    **options,
                )
            if result.interrupted:
                raise KeyboardInterrupt
            fresh, state = done == 0 or done in ends, result.state
            grown = longer(known, result, steps, fresh)
            done += steps
            if done in ends:
                grown = with_snapshots(grown, task.snapshots, state)
            known = grown  # at once: an interruption may save what is known at any moment
            if memory.due:
                memory.save(description, known)
            if board is not None:
                board.at(done / ends[-1])
    finally:
        if found < ends[-1]:
            memory.save(description, known)
    return Trace(
        ends=np.asarray(ends),
        seconds=usual_pace(known["seconds"], np.diff(ends, prepend=0)) * np.asarray(ends),
        averages={name: known[f"averages/{name}"] for name in task.observables},
        diverged=np.any(known["diverged"], axis=0),
        snapshots={name: known[f"snapshots/{name}"] for name in task.snapshots},
        state=rebuilt("state", known, shape),
    )


def stops(
    ends: Int[np.ndarray, " points"], pieces: int, grain: int, *, after: int
) -> Int[np.ndarray, " stops"]:
    """Where a run can be taken up again: its cuts, and multiples of `grain` between them."""
    longest = grain * -(-int(ends[-1]) // (grain * pieces))
    starts = np.concatenate([[0], ends[:-1]])
    between = [np.arange(a + longest, b, longest) for a, b in zip(starts, ends, strict=True)]
    found = np.unique(np.concatenate([*between, ends]))
    return found[found > after]


def options_of(task: Task, method: Method, step_sizes: Any) -> dict[str, Any]:
    """The arguments of `sample` that all segments have."""
    return {
        "estimator": method.estimator,
        "integrator": method.integrator,
        "step_size": scheduled(task, step_sizes),
        "batch_size": method.batch_size,
        "order": method.order,
        "anchor_order": method.anchor_order,
        "observables": task.observables,
        "num_chains": len(step_sizes),
        "chain_method": task.chain_method,
        "clip": task.clip,
        "weights": "equal",  # as between segments
        "keep": "averages",
    }


@contextmanager
def silent(logger: logging.Logger) -> Iterator[None]:
    """A step size that is too large is a finding here, not a mistake."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def usual_pace(
    seconds: Float[np.ndarray, " points"], steps: Int[np.ndarray, " points"]
) -> Float[np.ndarray, ""]:
    """Seconds per step: the median over steps, each of which has the pace of its segment.

    Segments that compile, or that something else on the machine held up, do not count.
    """
    order = np.argsort(seconds / steps)
    passed = np.cumsum(steps[order])
    return (seconds / steps)[order[np.searchsorted(passed, passed[-1] / 2)]]


def blank(task: Task, method: Method, chains: int) -> State:
    """The shapes of the chains' states."""
    made = method.kernel(task.posterior, task.size)

    def one(key: Any) -> State:
        return made.init(key, task.init(key) if is_function(task.init) else task.init)

    return jax.eval_shape(jax.vmap(one), jax.random.split(jax.random.key(0), chains))


def scheduled(task: Task, step_sizes: Any) -> Any:
    """One step size for each chain, or the schedule that they all follow."""
    if task.schedule is None:
        return np.asarray(step_sizes, np.float32)
    scale, schedule = float(step_sizes[0]), task.schedule
    if np.ptp(step_sizes) > 0:
        raise ValueError(f"follow: chains of a schedule have one scale, got {step_sizes}.")
    return lambda step: scale * schedule(step)


def longer(
    known: dict[str, np.ndarray], result: Result, steps: int, fresh: bool
) -> dict[str, np.ndarray]:
    """The segments so far with one more piece, of a `fresh` segment or of the last; and the state."""
    averages = {f"averages/{name}": value[None] for name, value in result.averages.items()}
    sums = {"seconds": np.array([result.seconds]), "steps": np.array([steps])}
    diverged = result.diverged[None]
    if not fresh:
        before = {name: known[name][-1:] for name in (*averages, *sums, "diverged")}
        share = steps / (steps + int(before["steps"][0]))
        averages = {n: before[n] + share * (new - before[n]) for n, new in averages.items()}
        sums = {name: before[name] + new for name, new in sums.items()}
        diverged = diverged | before["diverged"]
    last = averages | sums | {"diverged": diverged}
    earlier = {name: known[name] if fresh else known[name][:-1] for name in last if known}
    joined = {n: np.concatenate([earlier[n], new]) if known else new for n, new in last.items()}
    return known | joined | named("state", result.state)


def with_snapshots(
    known: dict[str, np.ndarray], snapshots: Mapping[str, Callable], state: State
) -> dict[str, np.ndarray]:
    """With a look at the parameters where a segment ends."""
    chains = [jax.tree.map(itemgetter(c), state.position) for c in range(len(state.step))]
    for name, look in snapshots.items():
        seen = np.stack([np.asarray(look(each)) for each in chains])[None]
        before = [known[f"snapshots/{name}"]] if f"snapshots/{name}" in known else []
        known = known | {f"snapshots/{name}": np.concatenate([*before, seen])}
    return known


def describe(key: Any, task: Task, method: Method, step_sizes: Any, ends: Any) -> str:
    """All that a trace depends on: what the run does that it is cut out of, and how it is cut."""
    job = prepare(
        key=key,
        posterior=task.posterior,
        data=task.data,
        init=task.init,
        num_steps=int(ends[-1]),
        burn_in=0,
        thin=1,
        **options_of(task, method, step_sizes),
    )
    return repr(
        (
            {name: version(name) for name in ("vrsgmcmc", "jax", "jaxlib")},
            jax.random.key_data(job.key).tolist(),
            tree_sum(task.data),
            config(job, None),
            sorted(task.snapshots),
            np.asarray(ends).tolist(),
            task.pieces,
        )
    )
