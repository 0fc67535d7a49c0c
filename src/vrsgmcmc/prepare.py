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
        return max(0, step - self.first - self.burn_in) // self.thin if self.program.slots else 0

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
    if keep == "draws" and thin > num_steps - burn_in:
        raise ValueError(
            f"sample(thin={thin}): only {num_steps - burn_in} steps follow burn_in, so no draw "
            'would be kept. Take a smaller thin, more steps, or keep="averages".'
        )
    fresh = not isinstance(init, State)
    if not fresh:
        check_chains(init, num_chains)
    first = 0 if fresh else int(init.step.max())  # a chain that diverged stays behind
    step_sizes, schedule = steps.resolve(step_size, first, num_steps, num_chains)

    data, size = door.as_data(data)
    check_sizes("sample", estimator, size, batch_size)
    batched = chain_method == "vmap"
    roots = jax.vmap(lambda c: chain.roots(fold(key, c)))(jnp.arange(num_chains))
    roots = jax.tree.map(jax.random.key_data, roots)
    starts = start_positions(init, roots.start, batched) if fresh else init.position
    some = jax.tree.map(lambda leaf: leaf[0], starts)
    kind = jnp.result_type(*jax.tree.leaves(some))
    door.check_model(posterior, some, data)
    if not fresh:
        check_continuation(init, estimator, integrator, size)
    if estimator.name == "control_variate" and estimator.center is not None:  # type: ignore
        check_center(estimator.center, some)  # type: ignore[attr-defined]
    check_room(estimator, some, size, num_chains, keep, (num_steps - burn_in) // thin)
    names, watches, watched = watch(observables, num_steps - burn_in, some)
    if fresh:
        door.check_starts(posterior, starts, data, told=is_function(init))

    searched = 0
    if fresh and estimator.name == "control_variate" and estimator.center is None:  # type: ignore
        center, searched = find_mode(posterior, data, some)
        estimator = replace(estimator, center=center)  # type: ignore[type-var]

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
    observables: Mapping[str, Callable | Observable] | None, kept: int, params: Params
) -> tuple[tuple[str, ...], tuple[Watch, ...], tuple[Any, ...]]:
    """Names, static parts and data of the observables."""
    if not isinstance(observables or {}, Mapping):
        raise TypeError(
            f"observables must be a dict of functions, got {type(observables).__name__}. Give each a "
            'name: observables={"square": lambda x: x**2}.'
        )
    known = {
        name: value if isinstance(value, Observable) else folds.observable(value)
        for name, value in (observables or {}).items()
    }
    watches = tuple(Watch(o.function, o.every, o.data is not None) for o in known.values())
    data = tuple(jax.tree.map(jnp.asarray, o.data) for o in known.values())
    for name, one, argument in zip(known, watches, data, strict=True):
        if one.every > kept:
            raise ValueError(
                f"observable {name!r} is evaluated every {one.every} steps, but only {kept} steps "
                "follow burn_in."
            )
        try:
            jax.eval_shape(one, params, argument)
        except Exception as error:
            raise ValueError(
                f"observable {name!r} failed at the start: {type(error).__name__}: {error}"
            ) from error
    return tuple(known), watches, data


def is_function(init: Any) -> bool:
    """Whether `init` is a function of a key: a model that can be called is a pytree of parameters."""
    return callable(init) and jax.tree.leaves(init) == [init]


def start_positions(init: Any, words: Any, batched: bool) -> Params:
    """Where the chains start: leaves [chain, ...]."""
    count = words.shape[0]
    if not is_function(init):
        params = door.as_params(init)
        return jax.tree.map(lambda leaf: jnp.stack([leaf] * count), params)
    try:
        if batched:
            return door.as_params(jax.vmap(lambda w: init(chain.unlocked(w)))(words), "init(key)")
        each = [door.as_params(init(chain.unlocked(w)), "init(key)") for w in words]
    except TypeError as error:
        raise TypeError(
            f"init(key) failed: {error}. It gets one key and returns the start."
        ) from error
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


def start_state(program: Program, setting: Setting, words: Any, params: Params) -> State:
    return chain.bind(program, setting).init(chain.unlocked(words), params)


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
