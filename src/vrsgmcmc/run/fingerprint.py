"""What makes two runs the same run: settings, start, schedule, and the model as a program.

A run directory keeps this as text and sums, so that it can be compared and never be executed.
"""

import hashlib
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core
from vrsgmcmc.core import compiled

from .checks import is_function
from .setup import Setup
from .store import environment
from .store.draws import Layout


def layout(setup: Setup) -> Layout | None:
    """How the draws of a run lie on disk."""
    if not setup.program.slots:
        return None
    return Layout.of(core.named_leaves(setup.shapes), setup.num_chains, setup.num_draws)


def config(setup: Setup, places: Layout | None) -> dict[str, Any]:
    """The resolved settings. Two runs with equal ones have the same chains, bit for bit."""
    observables = zip(setup.names, setup.setting.observables, strict=True)
    return {
        **{
            name: value for name, value in setup.settings.items() if name not in vars(setup.sampler)
        },
        **setup.sampler.to_json(),
        "step_size": core.to_json(setup.step_sizes),
        "schedule": core.to_json(setup.schedule),
        "first_step": setup.first,
        "observables": {
            name: {"every": o.every, "data": None if o.data is None else core.tree_sum(o.data)}
            for name, o in observables
        },
        "init": start_sum(setup.init),
        "parameters": {
            name: f"{leaf.dtype}{list(leaf.shape)}"
            for name, leaf in core.named_leaves(setup.shapes)
        },
        "draws": None if places is None else places.to_json(),
        "model": {"stablehlo_sha256": fingerprint(setup)},
    }


def surroundings(setup: Setup) -> dict[str, Any]:
    words = [int(word) for word in np.ravel(jax.random.key_data(setup.key))]
    seed = {"words": words, "implementation": str(jax.random.key_impl(setup.key))}
    return environment.describe(seed, core.tree_sum(setup.setting.data))


def start_sum(init: Any) -> str:
    """The start as a sum: of its numbers, or of the program of `init(key)`."""
    if not is_function(init):
        return core.tree_sum(init)
    key = jax.eval_shape(lambda: jax.random.key(0))
    try:
        text = jax.jit(init).lower(key).as_text()
    except Exception:  # it cannot be traced, so only its result can be compared
        text = "a function that cannot be traced"
    return hashlib.sha256(text.encode()).hexdigest()


def model_sum(posterior: core.Posterior, data: core.Data, params: core.Params) -> str:
    """The sha256 of the StableHLO of the log-densities and gradients of one datum."""
    item = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), data)

    def one(params: core.Params, item: Any, key_words: Any) -> Any:
        datum = item
        if posterior.augment is not None:
            datum = posterior.augment(compiled.wrap_keys(key_words), item)
        likelihood = jax.value_and_grad(posterior.loglik)(params, datum)
        return likelihood, jax.value_and_grad(posterior.logprior)(params)

    words = jax.ShapeDtypeStruct((2,), jnp.uint32)
    text = jax.jit(one).lower(params, item, words).as_text()
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(setup: Setup) -> str:
    """The sha256 of one step's StableHLO, with the observables: traced, not compiled."""
    program = setup.program
    all_data = setup.sampler.estimator.uses_all_data
    count = program.size if all_data else setup.sampler.batch_size
    arguments = (
        setting_shapes(setup),
        jax.ShapeDtypeStruct((2,), jnp.uint32),
        jax.ShapeDtypeStruct((count,), jnp.int32),
        jax.ShapeDtypeStruct((), setup.step_sizes.dtype),
        setup.shapes,
    )
    leaves, structure = jax.tree.flatten(arguments)
    return program_sum(program, structure, tuple(leaves))


@lru_cache(maxsize=core.MOST_PROGRAMS)
def program_sum(program: core.Program, structure: Any, leaves: tuple) -> str:
    def one_step(setting: core.Setting, key_words: Any, index: Any, h: Any, position: Any):
        kernel, key = compiled.bind(program, setting), compiled.wrap_keys(key_words)
        state = kernel.init(core.fold(key, 0), position)
        batch = core.rows(setting.data, index)
        state, _ = kernel.step(core.fold(key, 1), state, batch, h)
        return state, [observable(state.position) for observable in setting.observables]

    text = jax.jit(one_step).lower(*jax.tree.unflatten(structure, leaves)).as_text()
    return hashlib.sha256(text.encode()).hexdigest()


def setting_shapes(setup: Setup) -> core.Setting:
    """The arguments of the compiled program, as shapes."""
    if setup.fresh and setup.sampler.estimator.seeks_mode:
        setup = setup.at_mode(setup.shapes, 0)
    return jax.eval_shape(lambda setting: setting, setup.setting)


def templates(setup: Setup) -> tuple[core.Carry, tuple]:
    """Shapes of what all chains carry, and of their averages."""
    program = setup.program

    def all_chains(
        setting: core.Setting, key_words: Any, positions: Any
    ) -> tuple[core.Carry, tuple]:
        state = compiled.init_state(program, setting, key_words, positions, batched=True)
        carry = compiled.begin(program, setting, state, batched=True)
        return carry, compiled.finish(program, setting, carry, batched=True)[1]

    count = setup.num_chains
    positions = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype), setup.shapes
    )
    key_words = jax.ShapeDtypeStruct((count, 2), jnp.uint32)
    return jax.eval_shape(all_chains, setting_shapes(setup), key_words, positions)
