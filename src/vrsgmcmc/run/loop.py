"""The loop of a run: start the chains, advance them chunk by chunk, commit, and make the result.

Between chunks the host draws progress, looks for non-finite chains, and notices signals; inside them
nothing calls back. See `core/compiled.py` for what a chunk is.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core
from vrsgmcmc.core import compiled

from .divergence import locate
from .interrupts import Interruption, interruptible
from .progress import Progress
from .result import Result, make_result
from .setup import Setup
from .start import chain_roots, refresh_initially, start
from .storage import Checkpoint, DirectoryStorage, MemoryStorage
from .timeline import Clock, Pace, Timeline
from .totals import Divergence, Totals

PROGRESS_ROWS = 256  # data for the mean log-likelihood in the progress display

logger = logging.getLogger("vrsgmcmc")


class Stop(NamedTuple):
    """When a run may end before its last step: at one of these steps, once its draws are enough."""

    steps: tuple[int, ...]  # in rising order
    enough: Callable[[core.Params], bool]  # of the draws so far


class Loop:
    """Groups of chains, advanced chunk by chunk through the same steps.

    A group is all chains at once, or one chain where they run one after another. `pace` sizes the
    chunks by the seconds of `clock`.
    """

    def __init__(
        self,
        setup: Setup,
        storage: MemoryStorage | DirectoryStorage,
        progress: bool | None,
        pace: Pace,
        clock: Clock = time.monotonic,
        stop: Stop | None = None,
        quiet: bool = False,
    ):
        self.quiet = quiet
        self.setup, self.storage, self.pace, self.clock = setup, storage, pace, clock
        self.stop, self.enough = stop, False
        label = f"{setup.sampler.estimator.name} + {setup.sampler.integrator.name}"
        self.progress = Progress(progress, label, setup.num_steps, setup.num_chains)
        every_chain = range(setup.num_chains)
        self.groups = [list(every_chain)] if setup.batched else [[c] for c in every_chain]
        self.all_roots = chain_roots(setup.key, setup.num_chains)
        self.roots = [self.pick(self.all_roots, g) for g in range(len(self.groups))]
        self.timeline = Timeline(setup.program.cycle, setup.program.parts)
        self.unit = self.timeline.unit(setup.first)  # the next one
        self.end = self.timeline.unit(setup.first + setup.num_steps)
        self.steps = 0  # made so far
        self.visits = 0  # data that refreshes have visited so far, per chain
        self.earlier_seconds = 0.0  # in earlier processes
        self.divergences: dict[int, Divergence] = {}
        self.frozen: dict[int, core.Carry] = {}  # what a chain carried before it became non-finite

    def pick(self, stacked: Any, group: int) -> Any:
        """What belongs to one group, out of leaves [chain, ...]."""
        return stacked if self.setup.batched else jax.tree.map(lambda leaf: leaf[group], stacked)

    def run(self) -> Result:
        self.began = self.clock()
        with self.progress, interruptible(*self.storage.signals) as interruption:
            if (checkpoint := self.storage.last_checkpoint()) is None:
                self.start(interruption)
                self.commit()
            else:
                self.restore(checkpoint)
                self.look()
            while not self.over and not interruption():
                self.run_chunk(interruption)
            self.commit()
        state, averages = self.finish()
        return make_result(
            self.setup,
            self.totals(),
            state,
            averages,
            self.storage.draws_loader(self.steps),
            interrupted=interruption(),
            signal=interruption.number,
            run_dir=self.storage.path,
        )

    def start(self, interruption: Interruption) -> None:
        def wait(values: Any) -> None:
            interruption.wait(values)
            if interruption():
                interruption.leave("interrupted before the first step")

        self.setup, state = start(self.setup, self.all_roots, wait)
        setup = self.setup
        states = [self.pick(state, g) for g in range(len(self.groups))]
        estimator, size = setup.sampler.estimator, setup.program.size
        if setup.fresh and not setup.program.parts and estimator.refresh_size(size):
            states = [
                refresh_initially(setup, roots, state, wait, self.clock)
                for roots, state in zip(self.roots, states, strict=True)
            ]
            self.visits = size
        self.carries = [
            compiled.begin(setup.program, setup.setting, state, batched=setup.batched)
            for state in states
        ]

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state of the last commit."""
        self.setup, totals, self.unit, carry = checkpoint[:4]
        self.carries = [self.pick(carry, g) for g in range(len(self.groups))]
        self.steps, self.visits = totals.steps, totals.visits
        self.earlier_seconds = totals.seconds
        self.divergences = {divergence.chain: divergence for divergence in totals.divergences}
        for c in self.divergences:
            self.frozen[c] = jax.tree.map(lambda leaf, c=c: leaf[c], carry)
        self.progress.began -= self.earlier_seconds

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        done = self.enough or self.unit >= self.end
        return done or len(self.divergences) == self.setup.num_chains

    def run_chunk(self, interruption: Interruption) -> None:
        began = self.clock()
        longest = min(self.pace.length, self.setup.longest_chunk)
        stop = min(self.unit + longest, self.end, self.next_look())
        self.advance(stop, interruption)
        self.visits += self.setup.visits(self.timeline.parts_between(self.unit, stop))
        self.pace.took(stop - self.unit, self.clock() - began)
        self.unit = stop
        self.look()
        if self.progress.due:
            self.report_progress()
        if self.storage.due and not self.over:
            self.commit()

    def next_look(self) -> int:
        """The unit at which the draws are looked at next."""
        steps = (step for step in (self.stop.steps if self.stop else ()) if step > self.steps)
        return self.timeline.unit(self.setup.first + next(steps, self.setup.num_steps))

    def look(self) -> None:
        """See whether the draws are enough, where it is time to."""
        if self.stop is not None and self.steps in self.stop.steps and not self.over:
            self.commit()
            self.enough = self.stop.enough(self.storage.draws_loader(self.steps)())

    def advance(self, stop: int, interruption: Interruption) -> None:
        """Advance every chain from the next unit to before `stop`."""
        setup, timeline = self.setup, self.timeline
        before, after = timeline.steps_before(self.unit), timeline.steps_before(stop)
        first_draw, next_draw = setup.draws_before(before), setup.draws_before(after)
        (first, start), (last, end) = timeline.place(self.unit), timeline.place(stop - 1)
        span = core.Span(*np.array([first, start, last, end + 1, before, first_draw], np.int32))
        schedule = setup.schedule_between(before, after)
        rows = self.storage.room(first_draw, next_draw)
        for g, chains in enumerate(self.groups):
            step_size = self.pick(setup.step_sizes, g)
            arguments = (self.roots[g], step_size, self.carries[g], span, schedule)
            carry, draws, finite, _ = compiled.advance(
                setup.program, setup.setting, *arguments, batched=setup.batched
            )
            interruption.wait(finite, self.storage.patience)
            for row in np.flatnonzero(~np.atleast_1d(np.asarray(finite))):
                if chains[row] not in self.divergences:
                    self.freeze(chains[row], g, span, schedule)
            if next_draw > first_draw:
                self.copy_draws(draws, rows, chains, first_draw)
            self.carries[g] = carry
        self.storage.append(rows)
        self.steps = after - setup.first

    def copy_draws(self, draws: Any, rows: Any, chains: list[int], first_draw: int) -> None:
        """Copy a group's draws to their place; NaN where a chain was no longer finite."""
        setup = self.setup

        def copy(target: np.ndarray, source: Any) -> None:
            source = np.asarray(source) if setup.batched else np.asarray(source)[None]
            target[chains] = source[:, : target.shape[1]]
            steps = setup.draw_steps(first_draw, first_draw + target.shape[1])
            for c in self.divergences.keys() & set(chains):
                target[c, steps > self.divergences[c].step] = np.nan

        jax.tree.map(copy, rows, draws)

    def freeze(self, c: int, group: int, span: core.Span, schedule: np.ndarray) -> None:
        """Freeze a chain that became non-finite, at the step before that."""
        roots, carry = self.roots[group], self.carries[group]
        if self.setup.batched:
            roots, carry = jax.tree.map(lambda leaf: leaf[c], (roots, carry))
        divergence, self.frozen[c] = locate(self.setup, c, roots, carry, span, schedule)
        self.divergences[c] = divergence
        if not self.quiet:
            logger.warning("%s", divergence)

    def report_progress(self) -> None:
        setup, size = self.setup, self.setup.program.size
        position = self.carries[0].state.position
        if setup.batched:
            position = jax.tree.map(lambda leaf: leaf[0], position)
        rows = min(PROGRESS_ROWS, size)
        value = mean_likelihood(setup.program.posterior, rows, position, setup.setting.data)
        states = [carry.state for carry in self.carries]
        evaluations = setup.evaluations(self.steps, self.visits, states)
        passes = evaluations / (size * setup.num_chains)
        self.progress.update(self.steps, passes, float(value))

    def totals(self) -> Totals:
        return Totals(
            self.steps,
            self.visits,
            self.setup.search_cost,
            self.earlier_seconds + self.clock() - self.began,
            tuple(self.divergences[c] for c in sorted(self.divergences)),
        )

    def commit(self) -> None:
        """Store all that a later process needs to go on from here."""
        if self.storage.resumable:
            _, averages = self.finish()
            self.storage.commit(
                Checkpoint(
                    self.setup, self.totals(), self.unit, self.all_carries(), averages, self.over
                )
            )

    def all_carries(self) -> core.Carry:
        """What all chains carry: leaves [chain, ...]. A chain that became non-finite is frozen."""
        carry = self.carries[0] if self.setup.batched else stack(self.carries)
        for c, frozen in self.frozen.items():
            carry = jax.tree.map(lambda all_, one, c=c: all_.at[c].set(one), carry, frozen)
        return carry

    def finish(self) -> tuple[core.State, tuple]:
        """The states and the averages of all chains."""
        setup = self.setup
        ends = [
            compiled.finish(setup.program, setup.setting, carry, batched=setup.batched)
            for carry in self.carries
        ]
        state, averages = ends[0] if setup.batched else stack(ends)
        averages = jax.tree.map(np.array, averages)
        for c, frozen in self.frozen.items():
            state = jax.tree.map(lambda all_, one, c=c: all_.at[c].set(one), state, frozen.state)
            for leaf in jax.tree.leaves(averages):
                leaf[c] = np.nan
        return state, averages


def stack(trees: list) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@partial(core.bounded_jit, static=2)
def mean_likelihood(posterior: core.Posterior, rows: int, params: core.Params, data: core.Data):
    """The mean log-likelihood of the first rows, for the progress display."""
    items = jax.tree.map(lambda leaf: leaf[:rows], data)
    batch = core.Batch(jnp.arange(rows), items)
    return jnp.mean(core.row_likelihoods(posterior, params, batch, jax.random.key(0)))
