"""The driver: `sample` checks, starts the chains, runs chunks, and gathers what comes out.

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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import chain, door, folds, order, steps, tree
from vrsgmcmc.arguments import one_of, positive, whole
from vrsgmcmc.chain import Carry, Program, Setting, Span, run
from vrsgmcmc.estimators import practical
from vrsgmcmc.folds import Observable, Watch
from vrsgmcmc.integrators import sgld
from vrsgmcmc.kernel import check_pair, check_sizes
from vrsgmcmc.noise import fold
from vrsgmcmc.posterior import part_size, row_likelihoods
from vrsgmcmc.progress import Progress
from vrsgmcmc.result import Divergence, Result
from vrsgmcmc.search import find_mode
from vrsgmcmc.types import Anchored, Batch, Data, Estimator, Integrator, Params, Posterior, State

SECONDS_PER_CHUNK = 0.5
FIRST_CHUNK = 64  # units; the next ones are sized by the clock
LONGEST_CHUNK = 2**16
DRAW_BYTES = 2**24  # draws of one chunk, all chains together
ROWS_SHOWN = 256  # data for the mean log-likelihood in the progress table
MOST_STEPS = 2**30

logger = logging.getLogger("vrsgmcmc")


def sample(
    key: Any,
    posterior: Posterior,
    data: Any,
    init: Any,
    *,
    estimator: Estimator = practical(),
    integrator: Integrator = sgld(),
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
    job = prepare(**{name: value for name, value in locals().items() if name != "run_dir"})
    return Run(job, progress).go()


@dataclass(frozen=True)
class Job:
    """A run with everything looked at and resolved."""

    program: Program
    setting: Setting
    keys: Any
    state: State
    fresh: bool  # the chains start here, rather than continue
    step_sizes: np.ndarray
    names: tuple[str, ...]
    searched: int  # evaluations that the search for a centre took
    first: int  # the step the run starts from
    num_steps: int
    num_chains: int
    burn_in: int
    thin: int
    batched: bool
    settings: dict[str, Any]


def prepare(
    *,
    key: Any,
    posterior: Posterior,
    data: Any,
    init: Any,
    estimator: Estimator,
    integrator: Integrator,
    step_size: Any,
    batch_size: int,
    num_steps: int,
    num_chains: int,
    burn_in: int,
    thin: int,
    order: str,
    anchor_order: str,
    observables: Mapping[str, Callable | Observable] | None,
    weights: str,
    clip: float | None,
    chain_method: str,
    keep: str,
    progress: bool | None,
) -> Job:
    """Everything that can be wrong is found here, before anything is compiled."""
    key = door.as_key(key)
    check_pair(posterior, estimator, integrator)
    num_steps, num_chains, thin = (
        whole("sample", name, value)
        for name, value in (("num_steps", num_steps), ("num_chains", num_chains), ("thin", thin))
    )
    batch_size = whole("sample", "batch_size", batch_size)
    burn_in = whole("sample", "burn_in", burn_in, least=0)
    if burn_in >= num_steps:
        raise ValueError(
            f"sample(burn_in={burn_in}): num_steps={num_steps} includes burn_in, so no step would be "
            "left. Take more steps or a shorter burn-in."
        )
    if num_steps > MOST_STEPS:
        raise ValueError(
            f"sample(num_steps={num_steps}): at most {MOST_STEPS} steps in one call; continue with "
            "init=result.state."
        )
    for name, value in (("order", order), ("anchor_order", anchor_order)):
        one_of("sample", name, value, ORDERS)
    one_of("sample", "weights", weights, ("step_size", "equal"))
    one_of("sample", "chain_method", chain_method, ("vmap", "sequential"))
    one_of("sample", "keep", keep, ("draws", "averages"))
    if clip is not None:
        clip = positive("sample", "clip", clip)
    names, watches, watched = watch(observables, num_steps - burn_in)

    data, size = door.as_data(data)
    check_sizes("sample", estimator, size, batch_size)
    batched = chain_method == "vmap"
    keys = jax.vmap(partial(fold, key))(jnp.arange(num_chains))
    fresh = not isinstance(init, State)
    if fresh:
        starts = start_positions(init, keys, batched)
        some = jax.tree.map(lambda leaf: leaf[0], starts)
        door.check_model(posterior, some, data)
        for number in range(num_chains if callable(init) else 1):
            here = jax.tree.map(lambda leaf, c=number: leaf[c], starts)
            door.check_start(posterior, here, data, number if callable(init) else None)
    else:
        check_continuation(init, estimator, num_chains)
        some = jax.tree.map(lambda leaf: leaf[0], init.position)
    first = 0 if fresh else int(init.step[0])
    sizes = steps.resolve(step_size, first, num_steps, num_chains)
    check_room(estimator, some, size, num_chains, keep, (num_steps - burn_in) // thin)

    searched = 0
    if fresh and estimator.name == "control_variate":
        if estimator.center is None:  # type: ignore[attr-defined]
            center, searched = find_mode(posterior, data, some)
            estimator = replace(estimator, center=center)  # type: ignore[type-var]
        else:
            check_center(estimator.center, some)  # type: ignore[attr-defined]

    period = estimator.every(size, batch_size)
    anchor = estimator.anchor(size)
    part = min(max(anchor, 1), part_size(posterior, some, Batch(jnp.arange(size), data)))
    slots = 0
    if keep == "draws":
        slots = int(np.clip(DRAW_BYTES // (tree.nbytes(some) * num_chains), 2, LONGEST_CHUNK))
    program = Program(
        posterior=posterior,
        size=size,
        batch_size=batch_size,
        order=order,
        anchor_order=anchor_order,
        cycle=period or chain.LONGEST_BLOCK,
        part=part,
        parts=-(-anchor // part) if period else 0,
        watches=watches,
        weights=weights,
        slots=slots,
        every_step=thin == 1,
        clipped=clip is not None,
    )
    kept_from = jnp.asarray(first + burn_in, jnp.int32)
    setting = Setting(
        estimator, integrator, clip, data, watched, kept_from, jnp.asarray(thin, jnp.int32)
    )
    state = init
    if fresh:
        state = run(start_state, program, True, setting, (keys, starts))
    settings = {
        "estimator": estimator if estimator.name != "control_variate" else "control_variate",
        "integrator": integrator,
        "batch_size": batch_size,
        "order": order,
        "anchor_order": anchor_order,
        "step_size": step_size,
        "num_steps": num_steps,
        "num_chains": num_chains,
        "burn_in": burn_in,
        "thin": thin,
        "weights": weights,
        "clip": clip,
        "chain_method": chain_method,
        "data_size": size,
    }
    return Job(
        program, setting, keys, state, fresh, sizes, names, searched, first, num_steps, num_chains,
        burn_in, thin, batched, settings,
    )  # fmt: skip


ORDERS = tuple(order.ORDERS)


def watch(
    observables: Mapping[str, Callable | Observable] | None, kept: int
) -> tuple[tuple[str, ...], tuple[Watch, ...], tuple[Any, ...]]:
    """Names, static parts and data of the observables."""
    known = {
        name: value if isinstance(value, Observable) else folds.observable(value)
        for name, value in (observables or {}).items()
    }
    for name, value in known.items():
        if value.every > kept:
            raise ValueError(
                f"observable {name!r} is evaluated every {value.every} steps, but only {kept} steps "
                "follow burn_in."
            )
    watches = tuple(Watch(o.function, o.every, o.data is not None) for o in known.values())
    data = tuple(jax.tree.map(jnp.asarray, o.data) for o in known.values())
    return tuple(known), watches, data


def start_positions(init: Any, keys: Any, batched: bool) -> Params:
    """Where the chains start: leaves [chain, ...]."""
    count = keys.shape[0]
    if not callable(init):
        params = door.as_params(init)
        return jax.tree.map(lambda leaf: jnp.stack([leaf] * count), params)
    starts = jax.vmap(lambda key: fold(key, chain.START))(keys)
    if batched:
        return door.as_params(jax.vmap(init)(starts), "init(key)")
    each = [door.as_params(init(starts[c]), "init(key)") for c in range(count)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


def start_state(program: Program, setting: Setting, key: Any, params: Params) -> State:
    return chain.bind(program, setting).init(fold(key, chain.DYNAMICS), params)


def check_continuation(state: State, estimator: Estimator, num_chains: int) -> None:
    """A state can be continued by the same number of chains and the same kind of estimator."""
    count = state.step.shape[0] if jnp.ndim(state.step) else None
    if count != num_chains:
        raise ValueError(
            f"init is a state of {count or 'one chain, without a chain axis,'} chains, but "
            f"num_chains={num_chains}. They must agree."
        )
    one = jax.tree.map(lambda leaf: leaf[0], state)
    size = jax.tree.leaves(one.memory)[0].shape[0] if estimator.name == "saga" else 1
    expected = jax.eval_shape(lambda: estimator.init(one.position, size))
    if jax.tree.structure(expected) != jax.tree.structure(one.memory):
        raise ValueError(
            f"init is a state that {estimator.name}() cannot continue: its memory is of another "
            "estimator. Start from its position: init=lambda key: ..., or run the same estimator."
        )


def check_center(center: Any, params: Params) -> None:
    shapes = [jax.tree.map(jnp.shape, value) for value in (center, params)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"control_variate: the centre has shapes {shapes[0]}, the parameters {shapes[1]}. They "
            "must agree."
        )


def check_room(
    estimator: Estimator, params: Params, size: int, chains: int, keep: str, draws: int
) -> None:
    """What must be held fits in memory."""
    one = tree.nbytes(params)
    if estimator.name == "saga":
        door.check_memory(
            3 * one * size * chains,
            f"saga() keeps a gradient for each of {size:,} data ({one * size:,} bytes), for each of "
            f"{chains} chains, three times while it is updated, and so",
            "Use svrg() or practical(), which keep two copies of the parameters, or fewer chains.",
        )
    if keep == "draws":
        door.check_memory(
            one * draws * chains,
            f"keeping {draws:,} draws of {one:,} bytes for each of {chains} chains",
            'Take a larger thin, or keep="averages" with observables.',
        )


class Run:
    """The host's side of a run: groups of chains, taken chunk by chunk through the same steps."""

    def __init__(self, job: Job, progress: bool | None):
        self.job = job
        estimator, integrator = job.setting.estimator, job.setting.integrator
        label = f"{estimator.name} + {integrator.name}"
        self.progress = Progress(progress, label, job.num_steps, job.num_chains)
        self.kind = np.dtype(jnp.result_type(*jax.tree.leaves(job.state.position)))
        self.divergences: dict[int, Divergence] = {}
        self.frozen: dict[int, State] = {}
        self.visits = 0  # data that refreshes have visited, per chain
        self.steps = 0
        every_chain = range(job.num_chains)
        self.members = [list(every_chain)] if job.batched else [[c] for c in every_chain]
        kept = (job.num_steps - job.burn_in) // job.thin if job.program.slots else 0
        self.draws = jax.tree.map(
            lambda leaf: np.empty((job.num_chains, kept, *leaf.shape[1:]), leaf.dtype),
            job.state.position,
        )

    def pick(self, stacked: Any, group: int) -> Any:
        """What belongs to one group of chains, out of leaves [chain, ...]."""
        return stacked if self.job.batched else jax.tree.map(lambda leaf: leaf[group], stacked)

    def stack(self, each: list) -> Any:
        if self.job.batched:
            return each[0]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)

    def call(self, function: Callable, chains: tuple, common: tuple = ()) -> Any:
        job = self.job
        return run(function, job.program, job.batched, job.setting, chains, common)

    def go(self) -> Result:
        began = time.monotonic()
        job = self.job
        self.keys = [self.pick(job.keys, g) for g in range(len(self.members))]
        states = [self.pick(job.state, g) for g in range(len(self.members))]
        with self.progress, interruptible() as interrupted:
            if job.fresh and not job.program.parts and isinstance(job.setting.estimator, Anchored):
                states = self.refresh_all(states, interrupted)
            self.carries = [
                self.call(chain.begin, (key, state))
                for key, state in zip(self.keys, states, strict=True)
            ]
            self.run_chunks(interrupted)
        return self.result(time.monotonic() - began, interrupted())

    def refresh_all(self, states: list[State], interrupted: Callable[[], bool]) -> list[State]:
        """The one refresh of an estimator that needs one before its first step."""
        job = self.job
        parts = -(-job.program.size // job.program.part)
        renewed = []
        for key, state in zip(self.keys, states, strict=True):
            partial_sum = self.call(blank, (key, state))
            length = 1
            done = 0
            while done < parts:
                stop = min(done + length, parts)
                clock = time.monotonic()
                partial_sum = jax.block_until_ready(
                    self.call(chain.refresh_once, (key, state, partial_sum), (done, stop))
                )
                length = next_length(length, time.monotonic() - clock)
                done = stop
                if interrupted():
                    raise KeyboardInterrupt
            renewed.append(self.call(renew_once, (key, state, partial_sum)))
        self.visits = job.program.size
        return renewed

    def run_chunks(self, interrupted: Callable[[], bool]) -> None:
        job = self.job
        m, parts = job.program.cycle, job.program.parts
        unit = units(job.first, m, parts)
        end = units(job.first + job.num_steps, m, parts, before_refresh=True)
        length = FIRST_CHUNK
        most = LONGEST_CHUNK
        if job.program.slots:
            most = min(most, (job.program.slots - 1) * job.thin)
        while unit < end and not interrupted() and len(self.divergences) < job.num_chains:
            stop = min(unit + min(length, most), end)
            clock = time.monotonic()
            self.one_chunk(unit, stop)
            length = next_length(length, time.monotonic() - clock)
            unit = stop
            if self.progress.due:
                self.show()

    def one_chunk(self, unit: int, stop: int) -> None:
        """Units [unit, stop) of every chain."""
        job, (m, parts) = self.job, (self.job.program.cycle, self.job.program.parts)
        before, after = steps_before(unit, m, parts), steps_before(stop, m, parts)
        kept = lambda step: max(0, step - job.first - job.burn_in) // job.thin  # noqa: E731
        first_draw, next_draw = kept(before), kept(after)
        (first, start), (last, end) = divmod(unit, m + parts), divmod(stop - 1, m + parts)
        span = Span(*np.array([first, start, last, end + 1, before, first_draw], np.int32))
        sizes = self.step_sizes(before, after)
        outs = [
            self.call(
                chain.advance, (key, self.pick(sizes, g), carry), (span,)
            )
            for g, (key, carry) in enumerate(zip(self.keys, self.carries, strict=True))
        ]
        for g, (carry, draws, finite, _) in enumerate(outs):
            members = self.members[g]
            for c in np.flatnonzero(~np.atleast_1d(finite)):
                self.locate(members[c], g, int(c), sizes[members[c]], span)
            if next_draw > first_draw:
                self.store(members, draws, first_draw, next_draw)
            self.carries[g] = carry
        self.steps = after - job.first
        self.visits += visited(unit, stop, m, parts, job)

    def step_sizes(self, before: int, after: int) -> np.ndarray:
        """[chain, H] for one chunk; H is 1 where they are fixed, and always the same length."""
        sizes, job = self.job.step_sizes, self.job
        if sizes.shape[1] > 1:
            sizes = sizes[:, before - job.first : after - job.first]
            most = min(LONGEST_CHUNK, (job.program.slots - 1) * job.thin if job.program.slots else LONGEST_CHUNK)
            sizes = np.pad(sizes, ((0, 0), (0, most - sizes.shape[1])))
        return sizes.astype(self.kind)

    def store(self, members: list[int], draws: Any, start: int, stop: int) -> None:
        """Copy a chunk's draws to their place; those of a chain that has diverged are NaN."""

        def copy(target: np.ndarray, rows: Any) -> None:
            rows = np.asarray(rows)
            rows = rows if self.job.batched else rows[None]
            target[members, start:stop] = rows[:, : stop - start]

        jax.tree.map(copy, self.draws, draws)

    def locate(self, c: int, group: int, row: int, sizes: np.ndarray, span: Span) -> None:
        """Run the chunk again, this chain alone and step by step, to see where it left."""
        if c in self.divergences:
            return
        job = self.job
        carry = self.carries[group]
        key = self.keys[group]
        if job.batched:
            carry, key = jax.tree.map(lambda leaf: leaf[row], (carry, key))
        carry, _, _, trouble = run(
            chain.advance, job.program, False, job.setting, (key, sizes, carry), (span,), True
        )
        step = int(trouble.step)
        h = float(sizes[min(step - int(span.first_step), len(sizes) - 1)])
        growth = float(trouble.growth)
        factor = 1 / (1 + growth) if np.isfinite(growth) and growth > 0 else 0.1
        norm = float(np.sqrt(sum(np.sum(np.square(np.asarray(leaf, np.float64)))
                                 for leaf in jax.tree.leaves(carry.state.position))))  # fmt: skip
        found = Divergence(c, step, norm, h, h * float(np.clip(factor, 1e-3, 0.5)))
        self.divergences[c], self.frozen[c] = found, carry.state
        logger.warning("%s", found)

    def show(self) -> None:
        job = self.job
        rows = min(ROWS_SHOWN, job.program.size)
        state = self.carries[0].state
        position = jax.tree.map(lambda leaf: leaf[0], state.position) if job.batched else state.position
        value = mean_likelihood(job.program.posterior, position, job.setting.data, rows)
        self.progress.update(self.steps, self.cost() / job.program.size, float(value))

    def cost(self) -> int:
        """Per-datum gradient evaluations of one chain."""
        program, estimator = self.job.program, self.job.setting.estimator
        return self.steps * estimator.cost(program.size, program.batch_size) + self.visits

    def result(self, seconds: float, interrupted: bool) -> Result:
        job = self.job
        diverged = np.zeros(job.num_chains, bool)
        state = self.stack([carry.state for carry in self.carries])
        averages = self.stack([tuple(map(folds.finish, c.averages)) for c in self.carries]) if job.names else ()
        averages = jax.tree.map(lambda leaf: np.array(leaf), averages)
        if job.batched and job.names:
            averages = tuple(
                jax.tree.map(lambda v, a=a: np.array(v), jax.vmap(folds.finish)(a))
                for a in self.carries[0].averages
            )
        draw_steps = job.first + job.burn_in + job.thin * np.arange(
            1, 1 + max(0, self.steps - job.burn_in) // job.thin
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
        )


def units(step: int, m: int, parts: int, before_refresh: bool = False) -> int:
    """The place of a step on the line of units: its cycle's refresh comes before its first step."""
    cycle, offset = divmod(step, m)
    return cycle * (m + parts) + (parts + offset if offset else 0)


def steps_before(unit: int, m: int, parts: int) -> int:
    cycle, offset = divmod(unit, m + parts)
    return cycle * m + max(0, offset - parts)
