"""The driver: `sample` starts the chains, runs chunks, and gathers what comes out.

Between chunks the host draws progress, looks for non-finite chains, and notices Ctrl-C; inside them
nothing calls back. See `chain.py` for what a chunk is.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import chain
from vrsgmcmc.chain import LONGEST_CHUNK, Span, run
from vrsgmcmc.estimators import practical
from vrsgmcmc.folds import Observable
from vrsgmcmc.integrators import sgld
from vrsgmcmc.posterior import row_likelihoods
from vrsgmcmc.prepare import Job, prepare
from vrsgmcmc.progress import Progress
from vrsgmcmc.result import Context, Divergence, Result
from vrsgmcmc.types import Anchored, Batch, Data, Estimator, Integrator, Params, Posterior, State

SECONDS_PER_CHUNK = 0.5
FIRST_CHUNK = 64  # units; the next ones are sized by the clock
ROWS_SHOWN = 256  # data for the mean log-likelihood in the progress table

logger = logging.getLogger("vrsgmcmc")
PRACTICAL, SGLD = practical(), sgld()


def sample(
    key: Any,
    posterior: Posterior,
    data: Any,
    init: Any,
    *,
    estimator: Estimator = PRACTICAL,
    integrator: Integrator = SGLD,
    step_size: Any = 1e-4,
    batch_size: int = 10,
    num_steps: int = 10_000,
    num_chains: int = 4,
    burn_in: int = 0,
    thin: int = 1,
    order: str = "without_replacement",
    anchor_order: str = "without_replacement",
    observables: Mapping[str, Callable | Observable] | None = None,
    weights: Literal["step_size", "equal"] = "step_size",
    clip: float | None = None,
    chain_method: Literal["vmap", "sequential"] = "vmap",
    keep: Literal["draws", "averages"] = "draws",
    run_dir: Any = None,
    progress: bool | None = None,
) -> Result:
    """Sample a posterior with stochastic gradients.

    - `key`: `jax.random.key(seed)`, or a seed. What chain c draws depends on (key, c, step) alone.
    - `posterior`: prior and log-likelihood of one datum; `data`: a pytree with leading axis N.
    - `init`: a pytree (all chains start there), a function of a key (each chain elsewhere), or
      `result.state` of an earlier run (which is continued: steps are counted on).
    - `estimator`, `integrator`: descriptions from the tables `vr.ESTIMATORS`, `vr.INTEGRATORS`.
    - `step_size`: h of the integrator's equation, for the gradient of the SUM over data: a number,
      one for each chain, or a schedule of the step l = 0, 1, ... (optax's fit).
    - `num_steps` includes `burn_in`; every `thin`-th position after it is kept as a draw.
    - `order`, `anchor_order`: how minibatches and anchors are drawn: "with_replacement",
      "without_replacement", "shuffled", "symmetric".
    - `observables`: functions averaged online over every step after burn-in; see `vr.observable`.
    - `weights`: weigh positions in averages by their step size, or equally.
    - `clip`: shorten the gradient estimate to this norm, on the scale of the mean over data. The
      chain then no longer has the posterior as its target.
    - `chain_method`: all chains at once, or one after another (better for large networks on CPU).
    - `keep`: "averages" stores no draws.
    - `progress`: None shows a table on a terminal and a line every ten seconds elsewhere.

    Ctrl-C ends the run after the chunk in hand and returns what is finished.
    """
    if run_dir is not None:
        raise ValueError("run_dir: this version keeps runs in memory only; leave run_dir=None.")
    job = prepare(
        key=key,
        posterior=posterior,
        data=data,
        init=init,
        estimator=estimator,
        integrator=integrator,
        step_size=step_size,
        batch_size=batch_size,
        num_steps=num_steps,
        num_chains=num_chains,
        burn_in=burn_in,
        thin=thin,
        order=order,
        anchor_order=anchor_order,
        observables=observables,
        weights=weights,
        clip=clip,
        chain_method=chain_method,
        keep=keep,
    )
    return Run(job, progress).go()


class Run:
    """The host's side of a run: groups of chains, taken chunk by chunk through the same steps.

    A group is all chains at once, or one chain where they run one after another.
    """

    def __init__(self, job: Job, progress: bool | None):
        self.job = job
        label = f"{job.setting.estimator.name} + {job.setting.integrator.name}"
        self.progress = Progress(progress, label, job.num_steps, job.num_chains)
        every_chain = range(job.num_chains)
        self.members = [list(every_chain)] if job.batched else [[c] for c in every_chain]
        self.roots = [self.pick(job.roots, g) for g in range(len(self.members))]
        self.steps = 0  # made so far
        self.visits = 0  # data that refreshes have visited so far, per chain
        self.divergences: dict[int, Divergence] = {}
        self.frozen: dict[int, State] = {}
        kept = (job.num_steps - job.burn_in) // job.thin if job.program.slots else 0
        self.draws = jax.tree.map(
            lambda leaf: np.empty((job.num_chains, kept, *leaf.shape[1:]), leaf.dtype),
            job.state.position,
        )

    def pick(self, stacked: Any, group: int) -> Any:
        """What belongs to one group, out of leaves [chain, ...]."""
        return stacked if self.job.batched else jax.tree.map(lambda leaf: leaf[group], stacked)

    def call(self, function: Callable, chains: tuple, common: tuple = ()) -> Any:
        job = self.job
        return run(function, job.program, job.batched, job.setting, chains, common)

    def go(self) -> Result:
        began, job = time.monotonic(), self.job
        states = [self.pick(job.state, g) for g in range(len(self.members))]
        with self.progress, interruptible() as interrupted:
            if job.fresh and not job.program.parts and isinstance(job.setting.estimator, Anchored):
                states = self.refresh_once(states, interrupted)
            self.carries = [self.call(chain.begin, (state,)) for state in states]
            self.run_chunks(interrupted)
        return self.result(time.monotonic() - began, interrupted())

    def refresh_once(self, states: list[State], interrupted: Callable[[], bool]) -> list[State]:
        """The refresh of an estimator that has just one, before the first step."""
        program, renewed = self.job.program, []
        parts = -(-program.size // program.part)
        for roots, state in zip(self.roots, states, strict=True):
            partial_sum, done, length = self.call(chain.blank, (state,)), 0, 1
            while done < parts:
                clock, stop = time.monotonic(), min(done + length, parts)
                call = (roots, state, partial_sum), (np.int32(done), np.int32(stop))
                partial_sum = jax.block_until_ready(self.call(chain.collect_once, *call))
                done, length = stop, next_length(length, time.monotonic() - clock)
                if interrupted():
                    raise KeyboardInterrupt("interrupted before the first step")
            renewed.append(self.call(chain.renew_once, (roots, state, partial_sum)))
        self.visits = program.size
        return renewed

    def run_chunks(self, interrupted: Callable[[], bool]) -> None:
        job = self.job
        line = Line(job.program.cycle, job.program.parts)
        unit, end = line.unit(job.first), line.unit(job.first + job.num_steps)
        length = FIRST_CHUNK
        while unit < end and not interrupted() and len(self.divergences) < job.num_chains:
            clock, stop = time.monotonic(), min(unit + min(length, job.longest_chunk), end)
            self.one_chunk(line, unit, stop)
            self.visits += job.visited(line.parts_between(unit, stop))
            length = next_length(length, time.monotonic() - clock)
            unit = stop
            if self.progress.due:
                self.show()

    def one_chunk(self, line: Line, unit: int, stop: int) -> None:
        """Units [unit, stop) of every chain."""
        job = self.job
        before, after = line.steps_before(unit), line.steps_before(stop)
        first_draw, next_draw = job.draws_before(before), job.draws_before(after)
        (first, start), (last, end) = line.place(unit), line.place(stop - 1)
        span = Span(*np.array([first, start, last, end + 1, before, first_draw], np.int32))
        common = (span, job.schedule_between(before, after))
        for g, members in enumerate(self.members):
            arguments = (self.roots[g], self.pick(job.step_sizes, g), self.carries[g])
            carry, draws, finite, _ = self.call(chain.advance, arguments, common)
            for row in np.flatnonzero(~np.atleast_1d(np.asarray(finite))):
                if members[row] not in self.divergences:
                    self.locate(members[row], g, common)
            if next_draw > first_draw:
                self.store(members, draws, first_draw, next_draw)
            self.carries[g] = carry
        self.steps = after - job.first

    def store(self, members: list[int], draws: Any, start: int, stop: int) -> None:
        """Copy a chunk's draws to their place."""

        def copy(target: np.ndarray, rows: Any) -> None:
            rows = np.asarray(rows) if self.job.batched else np.asarray(rows)[None]
            target[members, start:stop] = rows[:, : stop - start]

        jax.tree.map(copy, self.draws, draws)

    def locate(self, c: int, group: int, common: tuple[Span, np.ndarray]) -> None:
        """Run the chunk again, this chain alone and step by step, to see where it left."""
        job, roots, carry = self.job, self.roots[group], self.carries[group]
        if job.batched:
            roots, carry = jax.tree.map(lambda leaf: leaf[c], (roots, carry))
        arguments = (roots, job.step_sizes[c], carry)
        carry, _, _, trouble = run(
            chain.advance, job.program, False, job.setting, arguments, common, careful=True
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
        self.divergences[c], self.frozen[c] = found, carry.state
        logger.warning("%s", found)

    def show(self) -> None:
        job = self.job
        position = self.carries[0].state.position
        if job.batched:
            position = jax.tree.map(lambda leaf: leaf[0], position)
        rows = min(ROWS_SHOWN, job.program.size)
        value = mean_likelihood(job.program.posterior, rows, position, job.setting.data)
        self.progress.update(self.steps, self.cost() / job.program.size, float(value))

    def cost(self) -> int:
        """Per-datum gradient evaluations of one chain so far."""
        program = self.job.program
        each = self.job.setting.estimator.cost(program.size, program.batch_size)
        return self.steps * each + self.visits

    def result(self, seconds: float, interrupted: bool) -> Result:
        job, diverged = self.job, np.zeros(self.job.num_chains, bool)
        finished = [self.call(chain.finish, (carry,)) for carry in self.carries]
        if not job.batched:
            finished = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *finished)]
        state, averages = finished[0]
        averages = jax.tree.map(np.array, averages)
        draw_steps = (
            job.first
            + job.burn_in
            + job.thin * np.arange(1, 1 + job.draws_before(job.first + self.steps))
        )
        draws = jax.tree.map(lambda leaf: leaf[:, : draw_steps.size], self.draws)
        for c, found in self.divergences.items():
            diverged[c] = True
            state = jax.tree.map(lambda all_, one, c=c: all_.at[c].set(one), state, self.frozen[c])
            for leaf in jax.tree.leaves(averages):
                leaf[c] = np.nan
            for leaf in jax.tree.leaves(draws):
                leaf[c, draw_steps > found.step] = np.nan
        evaluations = job.num_chains * self.cost() + job.searched
        return Result(
            draws=draws if job.program.slots else None,
            averages=dict(zip(job.names, averages, strict=True)),
            evaluations=evaluations,
            data_passes=evaluations / (job.program.size * job.num_chains),
            seconds=seconds,
            state=state,
            diverged=diverged,
            divergences=tuple(self.divergences[c] for c in sorted(self.divergences)),
            num_steps=self.steps,
            interrupted=interrupted,
            settings=job.settings,
            draw_steps=draw_steps,
            context=Context(
                posterior=job.program.posterior,
                data=job.setting.data,
                estimator=job.setting.estimator,
                integrator=job.setting.integrator,
                step_size=float(np.mean(job.step_sizes) * job.schedule[-1]),
                batch_size=job.program.batch_size,
                order=job.program.order,
                anchor_order=job.program.anchor_order,
            ),
        )


@dataclass(frozen=True)
class Line:
    """The line of units: each cycle is `parts` parts of a refresh and then `cycle` steps."""

    cycle: int
    parts: int

    def place(self, unit: int) -> tuple[int, int]:
        return divmod(unit, self.cycle + self.parts)

    def unit(self, step: int) -> int:
        """Where a step begins: with its cycle's refresh, when it is the first of the cycle."""
        number, offset = divmod(step, self.cycle)
        return number * (self.cycle + self.parts) + (self.parts + offset if offset else 0)

    def steps_before(self, unit: int) -> int:
        number, offset = self.place(unit)
        return number * self.cycle + max(0, offset - self.parts)

    def parts_between(self, start: int, stop: int) -> Iterator[int]:
        """The parts of refreshes among units [start, stop)."""
        for number in range(self.place(start)[0], self.place(stop - 1)[0] + 1):
            first = number * (self.cycle + self.parts)
            yield from range(max(start - first, 0), min(stop - first, self.parts))


def next_length(length: int, seconds: float) -> int:
    """The length of the next chunk, so that it takes about as long as wanted."""
    wanted = length * SECONDS_PER_CHUNK / max(seconds, 1e-6)
    return int(np.clip(wanted, 1, min(8 * length, LONGEST_CHUNK)))


@partial(jax.jit, static_argnames=("posterior", "rows"))
def mean_likelihood(posterior: Posterior, rows: int, params: Params, data: Data):
    """The mean log-likelihood of the first rows, for the eye."""
    items = jax.tree.map(lambda leaf: leaf[:rows], data)
    batch = Batch(jnp.arange(rows), items)
    return jnp.mean(row_likelihoods(posterior, params, batch, jax.random.key(0)))


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C is noted, and asked for between chunks; a second one acts at once."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
