"""The compiled part of a run.

A cycle is a refresh, in parts, and then m steps; a chunk is any stretch of that line:

    cycle 0: [part 0 .. part R-1][step 0 .. step m-1]   cycle 1: [part 0 ..

All loops have dynamic bounds, so one compiled program serves chunks of every length, and where the
line is cut changes no bit of the chain. What a step draws is a pure function of (chain key, l). The
step counter l is common to all chains, so bounds and branches stay scalars under vmap.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from .averages import Average, Observable, average_value, start_average, update_average
from .gradients import split_part
from .kernel import Kernel
from .order import all_rows, draw, rows
from .programs import bounded_jit
from .rng import fold
from .sampler import Sampler
from .tree import all_finite, select
from .types import Batch, Data, Params, Posterior, PRNGKey, State

LONGEST_CHUNK = 2**16  # units
LONGEST_BLOCK = 32  # steps whose keys and indices are drawn at once


@dataclass(frozen=True)
class Program:
    """What the compiled program depends on, besides shapes and the static fields of the sampler."""

    posterior: Posterior
    methods: tuple[type, ...]  # of estimator, integrator, metric: JAX may not tell them apart
    size: int
    cycle: int  # m: steps of a cycle; a block where nothing is refreshed in between
    part: int  # data of one part of a refresh
    parts: int  # R: parts of a refresh inside a cycle; 0: none
    weights: str
    slots: int  # draws that a chunk can hold; 0: draws are not stored
    every_step: bool  # each step after burn-in is a draw

    @property
    def block(self) -> int:
        return min(self.cycle, LONGEST_BLOCK)


class Setting(NamedTuple):
    """Arguments of the compiled program that are common to all chains and chunks."""

    sampler: Sampler  # without its step size, which differs between chains
    data: Data
    observables: tuple[Observable, ...]
    burn_in_end: Int[Array, ""]  # the step after which draws and averages count
    thin: Int[Array, ""]


class Roots(NamedTuple):
    """The keys of one chain, one for each use. Step l, or cycle c, folds its number into them."""

    noise: PRNGKey
    batch: PRNGKey
    anchor: PRNGKey
    augment: PRNGKey
    start: PRNGKey
    dynamics: PRNGKey


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
    partial_sum: Any  # of the refresh that a chunk may end in
    averages: tuple[Average, ...]


class Trouble(NamedTuple):
    """Where a chain became non-finite: the last finite step, and how its moves grew."""

    died: Bool[Array, ""]
    step: Int[Array, ""]
    move: Float[Array, ""]
    growth: Float[Array, ""]


def make_roots(key: PRNGKey) -> Roots:
    return Roots(*(fold(key, use) for use in range(len(Roots._fields))))


def wrap_keys(words: PyTree) -> PyTree:
    """Keys from their words: the host stores words, because JAX counts picking a key as using it."""
    return jax.tree.map(partial(jax.random.wrap_key_data, impl="threefry2x32"), words)


def per_chain(common: int = 0) -> Callable[[Callable], Callable]:
    """Compile `function(program, setting, *arguments)` of one chain; `batched`, of all chains at once.

    The last `common` arguments are the same for all chains; the others then have a leading axis
    [chain]. Each function is a jit of its own name: equal programs and shapes never trace twice.
    """

    def decorate(function: Callable) -> Callable:
        @wraps(function)
        def chains(program: Program, batched: bool, careful: bool, setting: Setting, *arguments):
            options = {"careful": True} if careful else {}
            one = partial(function, program, setting, **options)
            axes = [0] * (len(arguments) - common) + [None] * common
            return (jax.vmap(one, axes) if batched else one)(*arguments)

        programs = bounded_jit(chains, static=3)

        @wraps(function)
        def call(program: Program, setting: Setting, *arguments, batched=False, careful=False):
            return programs(program, batched, careful, setting, *arguments)

        return call

    return decorate


def bind(program: Program, setting: Setting) -> Kernel:
    return Kernel(program.posterior, setting.sampler, program.size)


@per_chain()
def init_state(program: Program, setting: Setting, key_words: Any, params: Params) -> State:
    return bind(program, setting).init(wrap_keys(key_words), params)


@per_chain()
def begin(program: Program, setting: Setting, state: State) -> Carry:
    """The first carry of one chain."""
    partial_sum = setting.sampler.estimator.empty_sum(state.memory) if program.parts else ()
    averages = tuple(start_average(each, state.position) for each in setting.observables)
    return Carry(state, partial_sum, averages)


@per_chain()
def empty_sum(program: Program, setting: Setting, state: State) -> Any:
    """The empty partial sum of the initial refresh (SAGA, control variate)."""
    return setting.sampler.estimator.empty_sum(state.memory)


@per_chain(common=2)
def collect_initial(
    program: Program,
    setting: Setting,
    roots: Roots,
    state: State,
    partial_sum: Any,
    start: Int[Array, ""],
    stop: Int[Array, ""],
) -> Any:
    """Parts [start, stop) of the initial refresh, over all data."""
    key = fold(wrap_keys(roots.augment), 0)
    return collect_parts(program, setting, key, None, state, partial_sum, start, stop)


@per_chain()
def renew_initial(program: Program, setting: Setting, roots: Roots, state: State, partial_sum: Any):
    """The state after the initial refresh."""
    return bind(program, setting).renew(fold(wrap_keys(roots.augment), 0), state, partial_sum)


@per_chain()
def finish(program: Program, setting: Setting, carry: Carry) -> tuple[State, tuple]:
    """The state and the values of the averages."""
    return carry.state, tuple(average_value(average) for average in carry.averages)


def collect_parts(
    program: Program,
    setting: Setting,
    augment_key: PRNGKey,
    index: Int[Array, " n1"] | None,
    state: State,
    partial_sum: Any,
    start: Int[Array, ""],
    stop: Int[Array, ""],
) -> Any:
    """Parts [start, stop) of a refresh; `index` is the anchor, None for all data in their order."""
    kernel = bind(program, setting)
    count = kernel.anchor_size
    part = min(program.part, count)

    def one_part(number: Int[Array, ""], partial_sum: Any) -> Any:
        if index is None:
            batch, fresh = split_part(number, part, all_rows(setting.data))
        else:
            named, fresh = split_part(number, part, Batch(index, ()))
            batch = rows(setting.data, named.index)
        present = fresh if count % part else None
        return kernel.collect(augment_key, state, partial_sum, batch, present)

    return lax.fori_loop(start, stop, one_part, partial_sum)


@per_chain(common=2)
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
    kernel, roots, sampler = bind(program, setting), wrap_keys(roots), setting.sampler
    m, parts, block = program.cycle, program.parts, program.block
    everything = all_rows(setting.data)

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
        carry, *rest = carried
        state, partial_sum, averages = carry
        key, index = fold(roots.augment, cycle), None
        if kernel.anchor_size < program.size:
            count = kernel.anchor_size
            index = draw(sampler.anchor_order, roots.anchor, cycle, program.size, count)
        partial_sum = collect_parts(program, setting, key, index, state, partial_sum, start, stop)
        complete = (start < parts) & (stop == parts)
        renewed = kernel.renew(key, state, partial_sum).memory
        memory = select(complete, renewed, state.memory)
        partial_sum = select(complete, sampler.estimator.empty_sum(memory), partial_sum)
        return Carry(state._replace(memory=memory), partial_sum, averages), *rest

    def steps(first, offset, start, stop, carried):
        numbers = first + offset + jnp.arange(block)
        keys = jax.vmap(lambda l: fold(roots.noise, l))(numbers)
        index = None
        if not sampler.estimator.uses_all_data:
            count, part = sampler.batch_size, sampler.estimator.block_size
            index = jax.vmap(
                lambda l: draw(sampler.order, roots.batch, l, program.size, count, part)
            )(numbers)

        def one_step(j, carried):
            l, row = first + j, j - offset
            batch = everything if index is None else rows(setting.data, index[row])
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
        age = l + 1 - setting.burn_in_end
        weight = h if program.weights == "step_size" else jnp.ones_like(h)
        averages = tuple(
            update_average(observable, average, state.position, age, weight)
            for observable, average in zip(setting.observables, carry.averages, strict=True)
        )
        if program.slots:
            draws = record(draws, state.position, age)
        return Carry(state, carry.partial_sum, averages), draws, trouble

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
    trouble = Trouble(
        died=~alive,
        step=jnp.where(trouble.died, trouble.step, l),
        move=jnp.where(alive, move, trouble.move),
        growth=jnp.where(alive, growth, trouble.growth),
    )
    return select(alive, new, old), trouble
