"""Follow a run: averages over its segments, so that every figure against cost comes from one chain.

A run is cut at chosen steps. Each segment continues the one before and averages the observables over
its own steps; averages over several segments are their weighted means. What a chain knows after a
segment is the average over those that began after the first fifth of its steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from vrsgmcmc.driver import sample
from vrsgmcmc.experiments.methods import Method
from vrsgmcmc.types import Posterior


class Task(NamedTuple):
    """What is sampled, and what is watched on the way: functions of the parameters, or with data."""

    posterior: Posterior
    data: Any
    init: Any
    observables: Mapping[str, Any]

    @property
    def size(self) -> int:
        return jax.tree.leaves(self.data)[0].shape[0]


class Trace(NamedTuple):
    """Segment after segment: where it ends, when, and each chain's averages over it."""

    ends: Int[np.ndarray, " points"]  # steps so far
    seconds: Float[np.ndarray, " points"]  # so far, all chains together, without compiling
    averages: dict[str, Float[np.ndarray, "points chain ..."]]
    diverged: np.ndarray  # [chain]

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
) -> Trace:
    """Run one chain for each step size and keep what it averages between the cuts."""
    options = {
        "estimator": method.estimator,
        "integrator": method.integrator,
        "step_size": np.asarray(step_sizes, np.float32),
        "batch_size": method.batch_size,
        "order": method.order,
        "anchor_order": method.anchor_order,
        "observables": task.observables,
        "num_chains": len(step_sizes),
        "keep": "averages",
        "progress": False,
    }
    fewest = max(getattr(each, "every", 1) for each in task.observables.values())
    sample(key, task.posterior, task.data, task.init, num_steps=fewest, **options)  # compiles
    state, before, diverged = task.init, 0, np.zeros(len(step_sizes), bool)
    seconds, averages = [], []
    for end in ends:
        result = sample(
            key, task.posterior, task.data, state, num_steps=int(end - before), **options
        )
        if result.interrupted:  # half a comparison is none
            raise KeyboardInterrupt
        state, before, diverged = result.state, end, diverged | result.diverged
        seconds.append(result.seconds)
        averages.append(result.averages)
    return Trace(
        ends=np.asarray(ends),
        seconds=np.cumsum(seconds),
        averages={name: np.stack([each[name] for each in averages]) for name in task.observables},
        diverged=diverged,
    )
