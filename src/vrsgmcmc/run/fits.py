"""Whether what is to be run together fits together: states and their methods, centres, memory."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from vrsgmcmc.core import Anchored, Estimator, Integrator, Params, State, tree
from vrsgmcmc.run.memory import check_memory


def check_chains(state: State, num_chains: int) -> None:
    count = state.step.shape[0] if jnp.ndim(state.step) else None
    if count != num_chains:
        raise ValueError(
            f"init is a state of {count or 'one chain, without a chain axis,'} chains, but "
            f"num_chains={num_chains}. They must agree."
        )


def check_continuation(
    state: State, estimator: Estimator, integrator: Integrator, size: int
) -> None:
    """A state is continued by the estimator and the integrator, and on the data, that made it."""
    one = jax.tree.map(lambda leaf: leaf[0], state)
    memory = jax.eval_shape(lambda: estimator.init(one.position, size))
    key = jax.eval_shape(lambda: jax.random.key(0))
    dynamics = jax.eval_shape(integrator.init, key, one.position)
    for owner, kind, part, expected in (
        (estimator, "estimator", one.memory, memory),
        (integrator, "integrator", one.dynamics, dynamics),
    ):
        name = "memory" if kind == "estimator" else "dynamics"
        if jax.tree.structure(expected) != jax.tree.structure(part):
            raise ValueError(
                f"init is a state that {owner.name}() cannot continue: its {name} is of another "
                f"{kind}. Start from its position instead, or run the same {kind}."
            )
        shapes = [jax.tree.map(jnp.shape, tree) for tree in (part, expected)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"init is a state that {owner.name}() cannot continue: its {name} has shapes "
                f"{shapes[0]}, but these data and parameters need {shapes[1]}."
            )


def check_refreshed(state: State, estimator: Estimator) -> None:
    """The only refresh of an estimator that has just one is behind a state: none will follow."""
    if int(state.step.max()) > 0 or not isinstance(estimator, Anchored):
        return
    if not tree.all_finite(state.memory):
        raise ValueError(
            f"init is a state that {estimator.name}() cannot continue: it was never refreshed, and its "
            "memory holds NaN. Call kernel.refresh(key, state, Batch(arange(N), data)) for each chain "
            "first, or start from its position instead."
        )


def check_center(center: Any, params: Params) -> None:
    shapes = [jax.tree.map(jnp.shape, value) for value in (center, params)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"control_variate: the centre has shapes {shapes[0]}, the parameters {shapes[1]}. They "
            "must agree."
        )


def check_room(estimator: Estimator, params: Params, size: int, chains: int, draws: int) -> None:
    """What must be held fits in memory."""
    one = tree.nbytes(params)
    if estimator.name == "saga":
        check_memory(
            3 * one * size * chains,
            f"saga() keeps a gradient for each of {size:,} data ({one * size:,} bytes), for each of "
            f"{chains} chains, three times while it is updated, and so",
            "Use svrg() or practical(), which keep two copies of the parameters, or fewer chains.",
        )
    check_memory(
        one * draws * chains,
        f"keeping {draws:,} draws of {one:,} bytes for each of {chains} chains",
        'Name a run_dir, which keeps them on disk; take a larger thin; or keep="averages" with '
        "observables.",
    )
