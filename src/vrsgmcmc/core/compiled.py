"""The compiled part of a run.

A cycle is a refresh, in parts, and then m steps; a chunk is any stretch of that line:

    cycle 0: [part 0 .. part R-1][step 0 .. step m-1]   cycle 1: [part 0 ..

All loops have dynamic bounds, so one compiled program serves chunks of every length, and where the
line is cut changes no bit of the chain. What a step draws is a pure function of (chain key, l). The
step counter l is common to all chains, so under vmap every bound and branch stays one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from vrsgmcmc.core.averages import Average, Watch, average_value, start_average, update_average
from vrsgmcmc.core.gradients import split_part
from vrsgmcmc.core.kernel import Kernel
from vrsgmcmc.core.order import draw
from vrsgmcmc.core.rng import fold
from vrsgmcmc.core.tree import all_finite, select, take
from vrsgmcmc.core.types import (
    Anchored,
    Batch,
    Data,
    Estimator,
    Integrator,
    Posterior,
    PRNGKey,
    State,
)

LONGEST_CHUNK = 2**16  # units
LONGEST_BLOCK = 32  # steps whose keys and indices are drawn at once


@dataclass(frozen=True)
class Program:
    """What the compiled program depends on, besides shapes."""

    posterior: Posterior
    size: int
    batch_size: int
    order: str
    anchor_order: str
    cycle: int  # m: steps of a cycle; a block where nothing is refreshed in between
    part: int  # data of one part of a refresh
    parts: int  # R: parts of a refresh inside a cycle; 0: none
    watches: tuple[Watch, ...]
    weights: str
    slots: int  # draws a chunk can hold; 0: draws are not kept
    every_step: bool  # each step after burn-in is a draw
    clipped: bool

    @property
    def block(self) -> int:
        return min(self.cycle, LONGEST_BLOCK)


class Roots(NamedTuple):
    """The keys of one chain, one for each use. Step l, or cycle c, folds its number into them."""

    noise: PRNGKey
    batch: PRNGKey
    anchor: PRNGKey
    lock: PRNGKey
    start: PRNGKey
    dynamics: PRNGKey


def roots(key: PRNGKey) -> Roots:
    return Roots(*(fold(key, use) for use in range(len(Roots._fields))))


def unlocked(words: PyTree) -> PyTree:
    """Keys from their words: the host keeps words, because JAX counts picking a key as using it."""
    return jax.tree.map(partial(jax.random.wrap_key_data, impl="threefry2x32"), words)


class Setting(NamedTuple):
    """Arguments of the compiled program that are common to all chains and chunks."""

    estimator: Estimator
    integrator: Integrator
    clip: Any
    data: Data
    watched: tuple[PyTree, ...]
    kept_from: Int[Array, ""]  # the step after which draws and averages count
    thin: Int[Array, ""]


class Span(NamedTuple):
    """A chunk: from unit `start` of cycle `first` to before unit `stop` of cycle `last`."""

    first: Int[Array, ""]
    start: Int[Array, ""]
    last: Int[Array, ""]
    stop: Int[Array, ""]
    first_step: Int[Array, ""]  # the step that the schedule begins with
    first_draw: Int[Array, ""]  # the draw that the first slot is for


class Carry(NamedTuple):
    """What one chain takes from chunk to chunk."""

    state: State
    partial: Any
    averages: tuple[Average, ...]


class Trouble(NamedTuple):
    """Where a chain left the numbers: the last finite state, and how it was growing."""

    died: Bool[Array, ""]
    step: Int[Array, ""]
    move: Float[Array, ""]
    growth: Float[Array, ""]


def bind(program: Program, setting: Setting) -> Kernel:
    return Kernel(
        program.posterior,
        setting.estimator,
        setting.integrator,
        program.size,
        program.batch_size,
        setting.clip if program.clipped else None,
    )


def begin(program: Program, setting: Setting, state: State) -> Carry:
    """The first carry of one chain."""
    estimator = setting.estimator
    partial = ()
    if program.parts and isinstance(estimator, Anchored):
        partial = estimator.blank(state.memory)
    averages = tuple(
        start_average(watch, state.position, data)
        for watch, data in zip(program.watches, setting.watched, strict=True)
    )
    return Carry(state, partial, averages)


def collect_parts(
    program: Program,
    setting: Setting,
    lock: PRNGKey,
    index: Int[Array, " n1"] | None,
    state: State,
    partial: Any,
    start: Int[Array, ""],
    stop: Int[Array, ""],
) -> Any:
    """Parts [start, stop) of a refresh; `index` is the anchor, None for all data in their order."""
    kernel = bind(program, setting)
    count = kernel.anchor_size
    part = min(program.part, count)

    def one_part(number: Int[Array, ""], partial: Any) -> Any:
        if index is None:
            rows, fresh = split_part(number, part, Batch(jnp.arange(count), setting.data))
        else:
            named, fresh = split_part(number, part, Batch(index, ()))
            rows = Batch(named.index, take(setting.data, named.index))
        present = fresh if count % part else None
        return kernel.collect(lock, state, partial, rows, present)

    return lax.fori_loop(start, stop, one_part, partial)


def blank(program: Program, setting: Setting, state: State) -> Any:
    """What the one refresh of an estimator that has just one begins with."""
    assert isinstance(setting.estimator, Anchored)
    return setting.estimator.blank(state.memory)


def collect_once(
    program: Program,
    setting: Setting,
    roots: Roots,
    state: State,
    partial: Any,
    start: Int[Array, ""],
    stop: Int[Array, ""],
) -> Any:
    """Parts [start, stop) of that refresh."""
    return collect_parts(
        program, setting, fold(unlocked(roots.lock), 0), None, state, partial, start, stop
    )


def renew_once(program: Program, setting: Setting, roots: Roots, state: State, partial: Any):
    return bind(program, setting).renew(fold(unlocked(roots.lock), 0), state, partial)


def finish(program: Program, setting: Setting, carry: Carry) -> tuple[State, tuple]:
    """What is left of a carry when the run is over."""
    return carry.state, tuple(average_value(average) for average in carry.averages)


def advance(
    program: Program,
    setting: Setting,
    roots: Roots,
    step_size: Float[Array, ""],
    carry: Carry,
    span: Span,
    schedule: Float[Array, " H"],
    careful: bool = False,
) -> tuple[Carry, PyTree, Bool[Array, ""], Trouble]:
    """One chunk of one chain: the carry, the draws, whether all is finite, and where it was not.

    h_l is the chain's step size times the common schedule, whose last value holds from there on.
    """
    kernel, roots = bind(program, setting), unlocked(roots)
    m, parts, block = program.cycle, program.parts, program.block
    full = setting.estimator.name == "full"
    partial_anchor = parts and kernel.anchor_size < program.size
    everything = Batch(jnp.arange(program.size), setting.data)

    def one_cycle(cycle, carried):
        start = jnp.where(cycle == span.first, span.start, 0)
        stop = jnp.where(cycle == span.last, span.stop, parts + m)
        if parts:
            carried = refresh(cycle, jnp.minimum(start, parts), jnp.minimum(stop, parts), carried)
        start, stop = jnp.maximum(start - parts, 0), jnp.maximum(stop - parts, 0)

        def one_block(number, carried):
            return steps(cycle * m, number * block, start, stop, carried)

        if block == m:
            return one_block(0, carried)
        return lax.fori_loop(start // block, -(-stop // block), one_block, carried)

    def refresh(cycle, start, stop, carried):
        assert isinstance(setting.estimator, Anchored)
        carry, *rest = carried
        state, partial, averages = carry
        lock = fold(roots.lock, cycle)
        index = None
        if partial_anchor:
            index = draw(
                program.anchor_order, roots.anchor, cycle, program.size, kernel.anchor_size
            )
        partial = collect_parts(program, setting, lock, index, state, partial, start, stop)
        complete = (start < parts) & (stop == parts)
        renewed = kernel.renew(lock, state, partial).memory
        memory = select(complete, renewed, state.memory)
        partial = select(complete, setting.estimator.blank(memory), partial)
        return Carry(state._replace(memory=memory), partial, averages), *rest

    def steps(first, offset, start, stop, carried):
        numbers = first + offset + jnp.arange(block)
        keys = jax.vmap(lambda l: fold(roots.noise, l))(numbers)
        index = None
        if not full:
            index = jax.vmap(
                lambda l: draw(program.order, roots.batch, l, program.size, program.batch_size)
            )(numbers)

        def one_step(j, carried):
            l, row = first + j, j - offset
            batch = everything
            if index is not None:
                batch = Batch(index[row], take(setting.data, index[row]))
            h = step_size * schedule[jnp.minimum(l - span.first_step, schedule.shape[0] - 1)]
            return one(l, keys[row], batch, h, carried)

        return lax.fori_loop(
            jnp.maximum(start, offset), jnp.minimum(stop, offset + block), one_step, carried
        )

    def one(l, key, batch, h, carried):
        carry, draws, trouble = carried
        state, _ = kernel.step(key, carry.state, batch, h)
        if careful:
            state, trouble = watch_over(carry.state, state, trouble, l)
        age = l + 1 - setting.kept_from
        weight = h if program.weights == "step_size" else jnp.ones_like(h)
        averages = tuple(
            update_average(watch, average, state.position, data, age, weight)
            for watch, average, data in zip(
                program.watches, carry.averages, setting.watched, strict=True
            )
        )
        if program.slots:
            draws = record(draws, state.position, age)
        return Carry(state, carry.partial, averages), draws, trouble

    def record(draws, position, age):
        slot = jnp.clip(age // setting.thin - 1 - span.first_draw, 0, program.slots - 1)

        def write(draws):
            return jax.tree.map(
                lambda rows, x: lax.dynamic_update_index_in_dim(rows, x, slot, 0), draws, position
            )

        if program.every_step:
            return write(draws)
        return lax.cond((age > 0) & (age % setting.thin == 0), write, lambda d: d, draws)

    draws = jax.tree.map(
        lambda x: jnp.zeros((program.slots, *x.shape), x.dtype), carry.state.position
    )
    trouble = Trouble(jnp.array(False), jnp.zeros((), jnp.int32), jnp.zeros(()), jnp.zeros(()))
    carried = lax.fori_loop(span.first, span.last + 1, one_cycle, (carry, draws, trouble))
    carry, draws, trouble = carried
    return carry, draws, all_finite((carry.state.position, carry.state.dynamics)), trouble


def watch_over(old: State, new: State, trouble: Trouble, l: Any) -> tuple[State, Trouble]:
    """Freeze a chain at the step that would make it non-finite, and keep how its moves grew."""
    moves = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - b)), new.position, old.position)
    move = jnp.stack(jax.tree.leaves(moves)).max().astype(trouble.move.dtype)
    alive = ~trouble.died & all_finite((new.position, new.dynamics))
    growth = jnp.where(trouble.move > 0, move / trouble.move, 0.0)
    seen = Trouble(
        died=~alive,
        step=jnp.where(trouble.died, trouble.step, l),
        move=jnp.where(alive, move, trouble.move),
        growth=jnp.where(alive, growth, trouble.growth),
    )
    return select(alive, new, old), seen


@partial(jax.jit, static_argnames=("function", "program", "batched", "careful"))
def run(
    function: Callable,
    program: Program,
    batched: bool,
    setting: Setting,
    chains: tuple,
    common: tuple = (),
    careful: bool = False,
) -> Any:
    """`function(program, setting, *chains, *common)`, for one chain or, `batched`, for many at once.

    One jitted entrance: equal programs and equal shapes never trace twice.
    """

    def one(chains):
        if careful:
            return function(program, setting, *chains, *common, careful=True)
        return function(program, setting, *chains, *common)

    return jax.vmap(one)(chains) if batched else one(chains)
