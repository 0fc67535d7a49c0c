"""A run, looked at: everything a user can get wrong is found here, before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.core import (
    LONGEST_CHUNK,
    ORDERS,
    Batch,
    Estimator,
    Integrator,
    Observable,
    Params,
    Posterior,
    PRNGKey,
    Program,
    Roots,
    Setting,
    State,
    Watch,
    as_key,
    averages,
    check_pair,
    check_sizes,
    compiled,
    cut,
    fold,
    one_of,
    part_size,
    positive,
    run,
    tree,
    used_batch_size,
    whole,
)
from vrsgmcmc.run import checks
from vrsgmcmc.run.fits import (
    check_center,
    check_chains,
    check_continuation,
    check_refreshed,
    check_room,
)
from vrsgmcmc.run.mode import find_mode
from vrsgmcmc.run.step_sizes import in_kind, resolve

DRAW_BYTES = 2**24  # draws of one chunk, all chains together
MOST_STEPS = 2**30


@dataclass(frozen=True)
class Job:
    """A run with everything looked at and resolved."""

    program: Program
    setting: Setting
    key: PRNGKey
    init: Any
    shapes: Params  # of the parameters of one chain
    fresh: bool  # the chains start here, rather than continue
    seeks: bool  # a centre is to be searched for
    step_sizes: np.ndarray  # [chain]: h_l of a chain is its step size times the schedule
    schedule: np.ndarray  # [1], or [num_steps]
    names: tuple[str, ...]
    first: int  # the step the run starts from
    num_steps: int
    num_chains: int
    burn_in: int
    thin: int
    batched: bool
    settings: dict[str, Any]
    searched: int = 0  # evaluations that the search for a centre took

    @property
    def kept(self) -> int:
        """How many draws of a chain the whole run gives."""
        return self.draws_before(self.first + self.num_steps)

    @property
    def longest_chunk(self) -> int:
        """Units that one chunk can take: its draws must fit their slots."""
        slots = self.program.slots
        return min(LONGEST_CHUNK, (slots - 1) * self.thin) if slots else LONGEST_CHUNK

    def draws_before(self, step: int) -> int:
        """How many draws the steps before `step` give."""
        return max(0, step - self.first - self.burn_in) // self.thin if self.program.slots else 0

    def draw_steps(self, start: int, stop: int) -> np.ndarray:
        """The steps after which draws [start, stop) are taken."""
        return self.first + self.burn_in + self.thin * np.arange(start + 1, stop + 1)

    def schedule_between(self, before: int, after: int) -> np.ndarray:
        """The schedule of steps [before, after), padded to one length for all chunks."""
        if self.schedule.size == 1:
            return self.schedule
        part = self.schedule[before - self.first : after - self.first]
        return np.pad(part, (0, self.longest_chunk - part.size))

    def visited(self, parts: Iterable[int]) -> int:
        """The data that these parts of refreshes visit."""
        anchor, part = self.setting.estimator.refresh_size(self.program.size), self.program.part
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
    held: bool = True,
) -> Job:
    """Look at every argument. `held`: draws are kept in memory, and so they must fit."""
    key = as_key(key)
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
    step_sizes, schedule = resolve(step_size, first, num_steps, num_chains)

    data, size = checks.as_data(data)
    batch_size = used_batch_size(estimator, size, batch_size)
    check_sizes("sample", estimator, size, batch_size)
    period = estimator.refresh_period(size, batch_size)
    batched = chain_method == "vmap"
    if fresh:
        init, some = start_like(key, init, num_chains, batched)
    else:
        some = jax.tree.map(lambda leaf: leaf[0], init.position)
    kind = jnp.result_type(*(leaf.dtype for leaf in jax.tree.leaves(some)))
    step_sizes, schedule = (in_kind(values, kind) for values in (step_sizes, schedule))
    checks.check_model(posterior, some, data)
    if not fresh:
        check_continuation(init, estimator, integrator, size)
        if period is None:
            check_refreshed(init, estimator)
    if estimator.name == "control_variate" and estimator.center is not None:  # type: ignore
        check_center(estimator.center, some)  # type: ignore[attr-defined]
    draws = (num_steps - burn_in) // thin if keep == "draws" and held else 0
    check_room(estimator, some, size, num_chains, draws)
    names, watches, watched = watch(observables, num_steps - burn_in, some)
    seeks = fresh and estimator.name == "control_variate" and estimator.center is None  # type: ignore

    anchor = estimator.refresh_size(size)
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
        cycle=period or compiled.LONGEST_BLOCK,
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
        key=key,
        init=init,
        shapes=jax.tree.map(as_shape, some),
        fresh=fresh,
        seeks=seeks,
        step_sizes=step_sizes,
        schedule=schedule,
        names=names,
        first=first,
        num_steps=num_steps,
        num_chains=num_chains,
        burn_in=burn_in,
        thin=thin,
        batched=batched,
        settings=settings,
    )


def chain_roots(key: PRNGKey, num_chains: int) -> Roots:
    """The keys of every chain, as words: leaves [chain, ...]."""
    roots = jax.vmap(lambda c: compiled.roots(fold(key, c)))(jnp.arange(num_chains))
    return jax.tree.map(jax.random.key_data, roots)


def start(job: Job, roots: Roots, look: Callable[[], None]) -> tuple[Job, State]:
    """Where the chains start, looked at; and the job with its centre, where one is searched.

    `look` is called while it is searched, and may end that by raising.
    """
    if not job.fresh:
        return job, job.init
    posterior, data = job.program.posterior, job.setting.data
    starts = start_positions(job.init, roots.start, job.batched)
    checks.check_starts(posterior, starts, data, told=is_function(job.init))
    if job.seeks:
        some = jax.tree.map(lambda leaf: leaf[0], starts)
        center, searched = find_mode(posterior, data, some, look)
        job = replace(job, setting=with_center(job.setting, center), searched=searched)
    arguments = (roots.dynamics, starts)
    return job, run(start_state, job.program, True, job.setting, arguments)


def with_center(setting: Setting, center: Params) -> Setting:
    return setting._replace(estimator=replace(setting.estimator, center=center))  # type: ignore


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
        name: value if isinstance(value, Observable) else averages.observable(value)
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


def as_shape(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def start_like(key: PRNGKey, init: Any, num_chains: int, batched: bool) -> tuple[Any, Params]:
    """The start as it will be used, and parameters of the same shapes."""
    if not is_function(init):
        init = checks.as_params(init)
        return init, init
    try:
        shapes = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
        fine = all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(shapes))
    except Exception:
        fine, shapes = False, ()
    if not fine or not jax.tree.leaves(shapes):  # to start there says what is wrong, in words
        starts = start_positions(init, chain_roots(key, num_chains).start, batched)
        return init, jax.tree.map(lambda leaf: leaf[0], starts)
    return init, jax.tree.map(lambda leaf: jnp.asarray(np.zeros(leaf.shape, leaf.dtype)), shapes)


def start_positions(init: Any, words: Any, batched: bool) -> Params:
    """Where the chains start: leaves [chain, ...]."""
    count = words.shape[0]
    if not is_function(init):
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), init)
    try:
        if batched:
            return checks.as_params(starts_of(init, words), "init(key)")
        each = [checks.as_params(init(compiled.unlocked(w)), "init(key)") for w in words]
    except TypeError as error:
        raise TypeError(
            f"init(key) failed: {error}. It gets one key and returns the start."
        ) from error
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


@partial(jax.jit, static_argnums=0)
def starts_of(init: Callable[[PRNGKey], Params], words: Any) -> Params:
    return jax.vmap(lambda w: init(compiled.unlocked(w)))(words)


def start_state(program: Program, setting: Setting, words: Any, params: Params) -> State:
    return compiled.bind(program, setting).init(compiled.unlocked(words), params)
