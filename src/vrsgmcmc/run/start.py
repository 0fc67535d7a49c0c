"""Where the chains start: their keys, positions and states, a mode, and the initial refresh."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.core import Params, PRNGKey, Roots, State, bounded_jit, compiled, fold, nbytes

from . import checks
from .densities import check_starts
from .memory import check_memory
from .mode import find_mode, warn_of_mode
from .timeline import Clock, Pace

if TYPE_CHECKING:
    from .setup import Setup


class Starts(NamedTuple):
    """A start for each chain: leaves [chain, ...]."""

    positions: Params


def chain_roots(key: PRNGKey, num_chains: int) -> Roots:
    """The keys of every chain, as words: leaves [chain, ...]."""
    roots = jax.vmap(lambda c: compiled.make_roots(fold(key, c)))(jnp.arange(num_chains))
    return jax.tree.map(jax.random.key_data, roots)


def start_like(key: PRNGKey, init: Any, num_chains: int, batched: bool) -> tuple[Any, Params]:
    """The start as it will be used, and parameters of the same shapes."""
    if isinstance(init, Starts):
        return init, jax.tree.map(lambda leaf: leaf[0], init.positions)
    if not checks.is_function(init):
        init = checks.as_params(init)
        return init, init
    try:
        shapes = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
        fine = all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(shapes))
    except Exception:
        fine, shapes = False, ()
    if not fine or not jax.tree.leaves(shapes):  # calling it says in words what is wrong
        starts = start_positions(init, chain_roots(key, num_chains).start, batched)
        return init, jax.tree.map(lambda leaf: leaf[0], starts)
    check_memory(nbytes(shapes), "the start, init(key),", "Use a smaller model.")
    return init, jax.tree.map(lambda leaf: jnp.asarray(np.zeros(leaf.shape, leaf.dtype)), shapes)


def start_positions(init: Any, key_words: Any, batched: bool) -> Params:
    """Where the chains start: leaves [chain, ...]."""
    count = key_words.shape[0]
    if isinstance(init, Starts):
        return init.positions
    if not checks.is_function(init):
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), init)
    try:
        if batched:
            return checks.as_params(call_init(init, key_words), "init(key)")
        each = [checks.as_params(init(compiled.wrap_keys(w)), "init(key)") for w in key_words]
    except TypeError as error:
        raise TypeError(
            f"init(key) failed: {error}. It gets one key and returns the start."
        ) from error
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


@bounded_jit
def call_init(init: Callable[[PRNGKey], Params], key_words: Any) -> Params:
    return jax.vmap(lambda w: init(compiled.wrap_keys(w)))(key_words)


def start(setup: Setup, roots: Roots, wait: Callable[[Any], Any]) -> tuple[Setup, State]:
    """The states of all chains, [chain, ...], and the setup with its mode, where one is searched.

    `wait` is called with what the search computes, and may end it by raising.
    """
    if not setup.fresh:
        return setup, setup.init
    posterior, data = setup.program.posterior, setup.setting.data
    starts = finite_starts(setup, roots)
    if setup.sampler.estimator.seeks_mode:
        some = jax.tree.map(lambda leaf: leaf[0], starts)
        mode = find_mode(posterior, data, some, wait)
        warn_of_mode(mode)
        setup = setup.at_mode(mode.params, mode.evaluations)
    state = compiled.init_state(setup.program, setup.setting, roots.dynamics, starts, batched=True)
    return setup, state


def finite_starts(setup: Setup, roots: Roots) -> Params:
    """Where the chains start, [chain, ...]; `ValueError` where a density is not finite there."""
    starts = start_positions(setup.init, roots.start, setup.batched)
    posterior, data = setup.program.posterior, setup.setting.data
    differ = checks.is_function(setup.init) or isinstance(setup.init, Starts)
    check_starts(posterior, starts, data, differ=differ)
    return starts


def refresh_initially(
    setup: Setup, roots: Roots, state: State, wait: Callable[[Any], Any], clock: Clock
) -> State:
    """The initial refresh of a group of chains, for an estimator that refreshes once."""
    program, batched = setup.program, setup.batched
    parts, first, pace = -(-program.size // program.part), 0, Pace(1)
    partial_sum = compiled.empty_sum(program, setup.setting, state, batched=batched)
    while first < parts:
        began, stop = clock(), min(first + pace.length, parts)
        arguments = (roots, state, partial_sum, np.int32(first), np.int32(stop))
        partial_sum = compiled.collect_initial(program, setup.setting, *arguments, batched=batched)
        wait(partial_sum)
        pace.took(stop - first, clock() - began)
        first = stop
    return compiled.renew_initial(
        program, setup.setting, roots, state, partial_sum, batched=batched
    )
