"""Short chains from the mode whose minibatches hold the rows of highest leverage.

A row that few minibatches hold can throw a chain far out, and a short run need not meet it. Here
every chain meets the rows whose gradients are the largest at a typical point of the posterior, in
units of its standard deviations: `MOST_LEVERS` of them, in at most one of ten steps.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core
from vrsgmcmc.core import Data, Kernel, Params, Posterior, Sampler

from .candidates import Case

MOST_LEVERS = 16
PART = 4096  # rows whose gradients are held at once


def levers(case: Case, rows: int, seed: int) -> np.ndarray:
    """The rows of highest leverage among `rows` data, best first; it costs `rows` evaluations.

    Leverage: g_i^T H^-1 g_i at a draw from the local model, which has the residual and the curvature of
    a row in it.
    """
    model, rng = case.model, np.random.default_rng(seed)
    away = model.directions @ (rng.normal(size=len(model.curvature)) / np.sqrt(model.curvature))
    center, unravel = ravel_pytree(case.mode)
    point = unravel(center + jnp.asarray(away, center.dtype))
    root = jnp.asarray(model.directions / np.sqrt(model.curvature), center.dtype)
    index = np.sort(rng.choice(model.size, rows, replace=False))
    part = min(PART, rows)
    parts = np.resize(index, (-(-rows // part), part))  # the last part starts again at row 0
    leverages = [_leverages(case.posterior, case.data, point, root, some) for some in parts]
    return index[np.argsort(-np.concatenate(leverages)[:rows])]


@core.bounded_jit
def _leverages(posterior: Posterior, data: Data, point: Params, root: Any, index: Any) -> Any:
    batch = core.rows(data, index)
    gradients = core.row_gradients(posterior, point, batch, jax.random.key(0))
    leaves = [jnp.reshape(leaf, (len(index), -1)) for leaf in jax.tree.leaves(gradients)]
    return jnp.sum(jnp.square(jnp.concatenate(leaves, 1) @ root), 1)


def walk(
    case: Case, sampler: Sampler, num_steps: int, num_chains: int, top: np.ndarray, seed: int
) -> tuple[np.ndarray, int]:
    """(x - c)^T H (x - c) / d after each step, [chain, step], and the evaluations of all chains."""
    size, model = case.model.size, case.model
    kernel = Kernel(case.posterior, sampler, size)
    period = min(kernel.period or num_steps, num_steps)
    cycles = -(-num_steps // period)
    rng = np.random.default_rng(seed)
    batches = np.stack(
        [schedule(rng, sampler, size, cycles * period, top) for _ in range(num_chains)]
    )
    batches = batches.reshape(num_chains, cycles, period, -1)
    count = kernel.anchor_size if kernel.anchor_size < size else 0
    anchors = np.array(
        [[choose(rng, size, count) for _ in range(cycles)] for _ in range(num_chains)]
    )
    keys = jax.random.split(jax.random.key(seed), num_chains)
    center, _ = ravel_pytree(case.mode)
    root = jnp.asarray(model.directions * np.sqrt(model.curvature), center.dtype)
    squares = _walk(case.posterior, sampler, case.data, case.mode, root, keys, anchors, batches)
    squares = np.asarray(squares, np.float64).reshape(num_chains, -1)[:, :num_steps]
    return squares, num_chains * int(sampler.evaluations(size, num_steps))


def schedule(
    rng: np.random.Generator, sampler: Sampler, size: int, num_steps: int, top: np.ndarray
) -> np.ndarray:
    """The rows of each step, with those of `top` in some of them, once each."""
    count = size if sampler.estimator.uses_all_data else sampler.batch_size
    if count >= size:
        return np.tile(np.arange(size), (num_steps, 1))
    batches = np.stack([choose(rng, size, count) for _ in range(num_steps)])
    most = min(MOST_LEVERS, max(1, num_steps // 10), len(top))
    for step, row in zip(rng.choice(num_steps, most, replace=False), top[:most], strict=True):
        if row not in batches[step]:
            batches[step, 0] = row
    return batches


def choose(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    return rng.choice(size, count, replace=False, shuffle=False)


@core.bounded_jit
def _walk(
    posterior: Posterior,
    sampler: Sampler,
    data: Data,
    mode: Params,
    root: Any,
    keys: Any,
    anchors: Any,
    batches: Any,
) -> Any:
    size = core.data_size(data)
    kernel = Kernel(posterior, sampler, size)
    center, _ = ravel_pytree(mode)

    def one_chain(key, anchors, batches):
        def cycle(state, rows):
            anchor_rows, batch_rows, number = rows
            key_here = jax.random.fold_in(key, number)
            if kernel.anchor_size:
                whole = kernel.anchor_size == size
                anchor = core.all_rows(data) if whole else core.rows(data, anchor_rows)
                state = kernel.refresh(key_here, state, anchor)

            def step(state, rows):
                index, l = rows
                batch = core.rows(data, index)
                state, _ = kernel.step(
                    jax.random.fold_in(key_here, l + 1), state, batch, sampler.step_size
                )
                away = ravel_pytree(state.position)[0] - center
                return state, jnp.mean(jnp.square(away @ root))

            return jax.lax.scan(step, state, (batch_rows, jnp.arange(len(batch_rows))))

        start = kernel.init(jax.random.fold_in(key, len(batches)), mode)
        return jax.lax.scan(cycle, start, (anchors, batches, jnp.arange(len(batches))))[1]

    return jax.vmap(one_chain)(keys, anchors, batches)
