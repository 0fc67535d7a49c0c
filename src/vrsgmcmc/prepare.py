"""A run, looked at: everything a user can get wrong is found here, before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import chain, door, folds, steps, tree
from vrsgmcmc.arguments import one_of, positive, whole
from vrsgmcmc.chain import LONGEST_CHUNK, Program, Roots, Setting, run
from vrsgmcmc.folds import Observable, Watch
from vrsgmcmc.kernels import check_pair, check_sizes
from vrsgmcmc.noise import fold
from vrsgmcmc.order import ORDERS
from vrsgmcmc.posterior import cut, part_size
from vrsgmcmc.search import find_mode
from vrsgmcmc.types import Batch, Estimator, Integrator, Params, Posterior, State

DRAW_BYTES = 2**24  # draws of one chunk, all chains together
MOST_STEPS = 2**30


@dataclass(frozen=True)
class Job:
    """A run with everything looked at and resolved."""

    program: Program
    setting: Setting
    roots: Roots
    state: State
    fresh: bool  # the chains start here, rather than continue
    step_sizes: np.ndarray  # [chain]: h_l of a chain is its step size times the schedule
    schedule: np.ndarray  # [1], or [num_steps]
    names: tuple[str, ...]
    searched: int  # evaluations that the search for a centre took
    first: int  # the step the run starts from
    num_steps: int
    num_chains: int
    burn_in: int
    thin: int
    batched: bool
    settings: dict[str, Any]

    @property
    def longest_chunk(self) -> int:
        """Units that one chunk can take: its draws must fit their slots."""
        slots = self.program.slots
        return min(LONGEST_CHUNK, (slots - 1) * self.thin) if slots else LONGEST_CHUNK

    def draws_before(self, step: int) -> int:
        """How many draws the steps before `step` give."""
        return max(0, step - self.first - self.burn_in) // self.thin

    def schedule_between(self, before: int, after: int) -> np.ndarray:
        """The schedule of steps [before, after), padded to one length for all chunks."""
        if self.schedule.size == 1:
            return self.schedule
        part = self.schedule[before - self.first : after - self.first]
        return np.pad(part, (0, self.longest_chunk - part.size))

    def visited(self, parts: Iterable[int]) -> int:
        """The data that these parts of refreshes visit."""
        anchor, part = self.setting.estimator.anchor(self.program.size), self.program.part
        return sum(min(part, anchor - number * part) for number in parts)


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
    roots = jax.vmap(lambda c: chain.roots(fold(key, c)))(jnp.arange(num_chains))
    fresh, starts = not isinstance(init, State), None
    if fresh:
        starts = start_positions(init, roots.start, batched)
        some = jax.tree.map(lambda leaf: leaf[0], starts)
        door.check_model(posterior, some, data)
        door.check_starts(posterior, starts, data, told=callable(init))
    else:
        check_continuation(init, estimator, num_chains)
        some = jax.tree.map(lambda leaf: leaf[0], init.position)
    first = 0 if fresh else int(init.step[0])
    step_sizes, schedule = steps.resolve(step_size, first, num_steps, num_chains)
    kind = jnp.result_type(*jax.tree.leaves(some))
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
    parts, part = cut(anchor, part_size(posterior, some, Batch(jnp.arange(size), data)))
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
        parts=parts if period else 0,
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
    state = run(start_state, program, True, setting, (roots.dynamics, starts)) if fresh else init
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
        program=program,
        setting=setting,
        roots=roots,
        state=state,
        fresh=fresh,
        step_sizes=step_sizes.astype(kind),
        schedule=schedule.astype(kind),
        names=names,
        searched=searched,
        first=first,
        num_steps=num_steps,
        num_chains=num_chains,
        burn_in=burn_in,
        thin=thin,
        batched=batched,
        settings=settings,
    )


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
    if batched:
        return door.as_params(jax.vmap(init)(keys), "init(key)")
    each = [door.as_params(init(keys[c]), "init(key)") for c in range(count)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


def start_state(program: Program, setting: Setting, key: Any, params: Params) -> State:
    return chain.bind(program, setting).init(key, params)


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
