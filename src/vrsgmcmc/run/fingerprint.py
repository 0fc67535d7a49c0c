"""What makes two runs the same run: settings, start, schedule, and the model as a program.

A run directory keeps this as text and sums, so that it can be compared and never be executed.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.core import (
    Batch,
    Carry,
    Program,
    Setting,
    average_value,
    compiled,
    fold,
    named_leaves,
    take,
    to_json,
    tree_sum,
)
from vrsgmcmc.run.setup import Job, is_function, start_state, with_center
from vrsgmcmc.run.store import environment
from vrsgmcmc.run.store.draws import Layout


def layout(job: Job) -> Layout | None:
    """How the draws of a run lie on disk."""
    if not job.program.slots:
        return None
    return Layout.of(named_leaves(job.shapes), job.num_chains, job.kept)


def config(job: Job, places: Layout | None) -> dict[str, Any]:
    """The resolved settings. Two jobs with equal ones have the same chains, bit for bit."""
    program, setting = job.program, job.setting
    plain = ("batch_size", "order", "anchor_order", "num_steps", "num_chains", "burn_in", "thin")
    plain += ("weights", "clip", "chain_method", "data_size")
    observed = zip(job.names, program.watches, setting.watched, strict=True)
    return {
        **{name: job.settings[name] for name in plain},
        "estimator": to_json(setting.estimator),
        "integrator": to_json(setting.integrator),
        "step_size": to_json(job.step_sizes),
        "schedule": to_json(job.schedule),
        "first_step": job.first,
        "observables": {
            name: {"every": watch.every, "data": tree_sum(data) if watch.with_data else None}
            for name, watch, data in observed
        },
        "init": start_sum(job),
        "parameters": {
            name: f"{leaf.dtype}{list(leaf.shape)}" for name, leaf in named_leaves(job.shapes)
        },
        "draws": None if places is None else places.to_json(),
        "model": {"stablehlo_sha256": fingerprint(job)},
    }


def surroundings(job: Job) -> dict[str, Any]:
    words = [int(word) for word in np.ravel(jax.random.key_data(job.key))]
    seed = {"words": words, "implementation": str(jax.random.key_impl(job.key))}
    return environment.describe(seed, tree_sum(job.setting.data))


def start_sum(job: Job) -> str:
    """The start as a sum: of its numbers, or of the program of `init(key)`."""
    if not is_function(job.init):
        return tree_sum(job.init)
    key = jax.eval_shape(lambda: jax.random.key(0))
    try:
        text = jax.jit(job.init).lower(key).as_text()
    except Exception:  # it cannot be traced, so only its result can be compared
        text = "a function that cannot be traced"
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(job: Job) -> str:
    """The sha256 of one step's StableHLO, with the observables: traced, not compiled."""
    program = job.program
    rows = program.size if job.setting.estimator.name == "full" else program.batch_size
    arguments = (
        setting_shapes(job),
        jax.ShapeDtypeStruct((2,), jnp.uint32),
        jax.ShapeDtypeStruct((rows,), jnp.int32),
        jax.ShapeDtypeStruct((), job.step_sizes.dtype),
        job.shapes,
    )
    leaves, structure = jax.tree.flatten(arguments)
    return program_sum(program, structure, tuple(leaves))


@lru_cache(maxsize=512)
def program_sum(program: Program, structure: Any, leaves: tuple) -> str:
    def one_step(setting: Setting, words: Any, index: Any, h: Any, position: Any):
        kernel, key = compiled.bind(program, setting), compiled.unlocked(words)
        state = kernel.init(fold(key, 0), position)
        batch = Batch(index, take(setting.data, index))
        state, _ = kernel.step(fold(key, 1), state, batch, h)
        seen = zip(program.watches, setting.watched, strict=True)
        return state, [watch(state.position, data) for watch, data in seen]

    text = jax.jit(one_step).lower(*jax.tree.unflatten(structure, leaves)).as_text()
    return hashlib.sha256(text.encode()).hexdigest()


def setting_shapes(job: Job) -> Setting:
    """The arguments of the compiled program, as shapes."""
    setting = with_center(job.setting, job.shapes) if job.seeks else job.setting
    return jax.eval_shape(lambda setting: setting, setting)


def templates(job: Job) -> tuple[Carry, tuple]:
    """Shapes of what all chains carry, and of their averages."""
    program = job.program

    def all_chains(setting: Setting, words: Any, positions: Any) -> tuple[Carry, tuple]:
        def one(words: Any, position: Any) -> tuple[Carry, tuple]:
            state = start_state(program, setting, words, position)
            carry = compiled.begin(program, setting, state)
            return carry, tuple(average_value(average) for average in carry.averages)

        return jax.vmap(one)(words, positions)

    count = job.num_chains
    positions = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype), job.shapes
    )
    words = jax.ShapeDtypeStruct((count, 2), jnp.uint32)
    return jax.eval_shape(all_chains, setting_shapes(job), words, positions)
