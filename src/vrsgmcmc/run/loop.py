"""The loop of a run: start the chains, run chunk after chunk, and gather what comes out.

Between chunks the host draws progress, looks for non-finite chains, and notices Ctrl-C; inside them
nothing calls back. See `core/compiled.py` for what a chunk is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.core import (
    Anchored,
    Batch,
    Carry,
    Data,
    Params,
    Posterior,
    Span,
    State,
    compiled,
    row_likelihoods,
    run,
)
from vrsgmcmc.run.gather import Done, evaluations, gather
from vrsgmcmc.run.interrupts import Interruption, interruptible
from vrsgmcmc.run.line import Line
from vrsgmcmc.run.progress import Progress
from vrsgmcmc.run.result import Divergence, Result
from vrsgmcmc.run.setup import Job, chain_roots, start
from vrsgmcmc.run.storage import Held, Kept, Resumed
from vrsgmcmc.run.timeline import Pace

FIRST_CHUNK = 64  # units; the next ones are sized by the clock
ROWS_SHOWN = 256  # data for the mean log-likelihood in the progress table

logger = logging.getLogger("vrsgmcmc")


class Run:
    """The host's side of a run: groups of chains, taken chunk by chunk through the same steps.

    A group is all chains at once, or one chain where they run one after another.
    """

    def __init__(self, job: Job, kept: Held | Kept, progress: bool | None):
        self.job, self.kept = job, kept
        label = f"{job.setting.estimator.name} + {job.setting.integrator.name}"
        self.progress = Progress(progress, label, job.num_steps, job.num_chains)
        every_chain = range(job.num_chains)
        self.members = [list(every_chain)] if job.batched else [[c] for c in every_chain]
        roots = chain_roots(job.key, job.num_chains)
        self.all_roots = roots
        self.roots = [self.pick(roots, g) for g in range(len(self.members))]
        self.line = Line(job.program.cycle, job.program.parts)
        self.unit = self.line.unit(job.first)  # the next one
        self.steps = 0  # made so far
        self.visits = 0  # data that refreshes have visited so far, per chain
        self.before = 0.0  # seconds, in earlier processes
        self.divergences: dict[int, Divergence] = {}
        self.frozen: dict[int, Carry] = {}

    def pick(self, stacked: Any, group: int) -> Any:
        """What belongs to one group, out of leaves [chain, ...]."""
        return stacked if self.job.batched else jax.tree.map(lambda leaf: leaf[group], stacked)

    def call(self, function: Callable, chains: tuple, common: tuple = ()) -> Any:
        job = self.job
        return run(function, job.program, job.batched, job.setting, chains, common)

    def go(self) -> Result:
        self.began = time.monotonic()
        with self.progress, interruptible(*self.kept.signals) as interrupted:
            if self.kept.resumed is None:
                self.start(interrupted)
                self.kept.commit(self)
            else:
                self.resume(self.kept.resumed)
            self.run_chunks(interrupted)
            self.kept.commit(self)
        state, averages = self.finish()
        return gather(
            self.job,
            self.done(),
            state,
            averages,
            self.kept.draws(self.steps),
            interrupted=interrupted(),
            signal=interrupted.number,
            run_dir=self.kept.path,
        )

    def start(self, interrupted: Interruption) -> None:
        def look() -> None:
            if interrupted():
                interrupted.leave("interrupted before the first step")

        self.job, state = start(self.job, self.all_roots, look)
        job, states = self.job, [self.pick(state, g) for g in range(len(self.members))]
        if job.fresh and not job.program.parts and isinstance(job.setting.estimator, Anchored):
            states = self.refresh_once(states, look)
        self.carries = [self.call(compiled.begin, (state,)) for state in states]

    def resume(self, found: Resumed) -> None:
        """Stand where the last commit stands."""
        job, done = found.job, found.done
        self.job, self.unit = job, found.unit
        self.carries = [self.pick(found.carry, g) for g in range(len(self.members))]
        self.steps, self.visits, self.before = done.steps, done.visits, done.seconds
        self.divergences = {one.chain: one for one in done.divergences}
        for c in self.divergences:
            self.frozen[c] = jax.tree.map(lambda leaf, c=c: leaf[c], found.carry)
        self.progress.began -= self.before

    def refresh_once(self, states: list[State], look: Callable[[], None]) -> list[State]:
        """The refresh of an estimator that has just one, before the first step."""
        program, renewed = self.job.program, []
        parts = -(-program.size // program.part)
        for roots, state in zip(self.roots, states, strict=True):
            partial_sum, done, pace = self.call(compiled.blank, (state,)), 0, Pace(1)
            while done < parts:
                clock, stop = time.monotonic(), min(done + pace.length, parts)
                call = (roots, state, partial_sum), (np.int32(done), np.int32(stop))
                partial_sum = jax.block_until_ready(self.call(compiled.collect_once, *call))
                pace.took(stop - done, time.monotonic() - clock)
                done = stop
                look()
            renewed.append(self.call(compiled.renew_once, (roots, state, partial_sum)))
        self.visits = program.size
        return renewed

    def run_chunks(self, interrupted: Interruption) -> None:
        job, line, pace = self.job, self.line, Pace(FIRST_CHUNK)
        while not self.over and not interrupted():
            clock, longest = time.monotonic(), min(pace.length, job.longest_chunk)
            stop = min(self.unit + longest, line.unit(job.first + job.num_steps))
            self.one_chunk(stop, interrupted)
            self.visits += job.visited(line.parts_between(self.unit, stop))
            pace.took(stop - self.unit, time.monotonic() - clock)
            self.unit = stop
            if self.progress.due:
                self.show()
            if self.kept.due and not self.over:
                self.kept.commit(self)

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do."""
        job = self.job
        end = self.line.unit(job.first + job.num_steps)
        return self.unit >= end or len(self.divergences) == job.num_chains

    def one_chunk(self, stop: int, interrupted: Interruption) -> None:
        """Units from the next one to before `stop`, of every chain."""
        job, line = self.job, self.line
        before, after = line.steps_before(self.unit), line.steps_before(stop)
        first_draw, next_draw = job.draws_before(before), job.draws_before(after)
        (first, start), (last, end) = line.place(self.unit), line.place(stop - 1)
        span = Span(*np.array([first, start, last, end + 1, before, first_draw], np.int32))
        common = (span, job.schedule_between(before, after))
        rows = self.kept.room(first_draw, next_draw)
        for g, members in enumerate(self.members):
            arguments = (self.roots[g], self.pick(job.step_sizes, g), self.carries[g])
            carry, draws, finite, _ = self.call(compiled.advance, arguments, common)
            self.kept.wait(interrupted, finite)
            for row in np.flatnonzero(~np.atleast_1d(np.asarray(finite))):
                if members[row] not in self.divergences:
                    self.locate(members[row], g, common)
            if next_draw > first_draw:
                self.copy(draws, rows, members, first_draw)
            self.carries[g] = carry
        self.kept.put(rows)
        self.steps = after - job.first

    def copy(self, draws: Any, rows: Any, members: list[int], first_draw: int) -> None:
        """A group's draws to their place; NaN where a chain was no longer finite."""
        job = self.job

        def copy(target: np.ndarray, source: Any) -> None:
            source = np.asarray(source) if job.batched else np.asarray(source)[None]
            target[members] = source[:, : target.shape[1]]
            steps = job.draw_steps(first_draw, first_draw + target.shape[1])
            for c in self.divergences.keys() & set(members):
                target[c, steps > self.divergences[c].step] = np.nan

        jax.tree.map(copy, rows, draws)

    def locate(self, c: int, group: int, common: tuple[Span, np.ndarray]) -> None:
        """Run the chunk again, this chain alone and step by step, to see where it left."""
        job, roots, carry = self.job, self.roots[group], self.carries[group]
        if job.batched:
            roots, carry = jax.tree.map(lambda leaf: leaf[c], (roots, carry))
        arguments = (roots, job.step_sizes[c], carry)
        carry, _, _, trouble = run(
            compiled.advance, job.program, False, job.setting, arguments, common, careful=True
        )
        step, growth = int(trouble.step), float(trouble.growth)
        span, schedule = common
        h = float(job.step_sizes[c] * schedule[min(step - span.first_step, schedule.size - 1)])
        # an unstable mode of curvature k grows by |1 - h k| a step, and 1/k is a stable step size
        shrink = 1 / (1 + growth) if np.isfinite(growth) and growth > 0 else 0.1
        leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(carry.state.position)]
        values = np.concatenate(leaves).astype(np.float64)
        largest = max(np.max(np.abs(values)), np.finfo(float).tiny)
        norm = float(largest * np.linalg.norm(values / largest))  # squares could overflow
        found = Divergence(c, step, norm, h, h * float(np.clip(shrink, 1e-3, 0.5)))
        self.divergences[c], self.frozen[c] = found, carry
        logger.warning("%s", found)

    def show(self) -> None:
        job = self.job
        position = self.carries[0].state.position
        if job.batched:
            position = jax.tree.map(lambda leaf: leaf[0], position)
        rows = min(ROWS_SHOWN, job.program.size)
        value = mean_likelihood(job.program.posterior, rows, position, job.setting.data)
        cost = evaluations(job, self.done(), chains=1) / job.program.size
        self.progress.update(self.steps, cost, float(value))

    def done(self) -> Done:
        """How far the run is."""
        return Done(
            self.steps,
            self.visits,
            self.job.searched,
            self.before + time.monotonic() - self.began,
            tuple(self.divergences[c] for c in sorted(self.divergences)),
        )

    def carried(self) -> Carry:
        """What all chains carry: leaves [chain, ...]. A chain that left the numbers is frozen."""
        carry = self.carries[0] if self.job.batched else stack(self.carries)
        for c, frozen in self.frozen.items():
            carry = jax.tree.map(lambda all_, one, c=c: all_.at[c].set(one), carry, frozen)
        return carry

    def finish(self) -> tuple[State, tuple]:
        """The states and the averages of all chains."""
        finished = [self.call(compiled.finish, (carry,)) for carry in self.carries]
        state, averages = finished[0] if self.job.batched else stack(finished)
        averages = jax.tree.map(np.array, averages)
        for c, frozen in self.frozen.items():
            state = jax.tree.map(lambda all_, one, c=c: all_.at[c].set(one), state, frozen.state)
            for leaf in jax.tree.leaves(averages):
                leaf[c] = np.nan
        return state, averages


def stack(trees: list) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@partial(jax.jit, static_argnames=("posterior", "rows"))
def mean_likelihood(posterior: Posterior, rows: int, params: Params, data: Data):
    """The mean log-likelihood of the first rows, for the eye."""
    items = jax.tree.map(lambda leaf: leaf[:rows], data)
    batch = Batch(jnp.arange(rows), items)
    return jnp.mean(row_likelihoods(posterior, params, batch, jax.random.key(0)))
