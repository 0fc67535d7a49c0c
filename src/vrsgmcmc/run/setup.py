"""Validate and resolve all arguments of `sample`: a user's mistake is found here, before compiling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core
from vrsgmcmc.core import compiled, tree

from . import checks
from .memory import check_run_memory
from .start import start_like
from .step_sizes import in_dtype, resolve

DRAW_BYTES = 2**24  # draws of one chunk, all chains together
MOST_STEPS = 2**30
MOST_CHAINS = 2**20


@dataclass(frozen=True)
class Setup:
    """A run with every argument checked and resolved."""

    program: core.Program
    setting: core.Setting
    key: core.PRNGKey
    init: Any
    shapes: core.Params  # of the parameters of one chain
    fresh: bool  # the chains start here, rather than continue
    step_sizes: np.ndarray  # [chain]: h_l of a chain is its step size times the schedule
    schedule: np.ndarray  # [1], or [num_steps]
    names: tuple[str, ...]  # of the observables
    first: int  # the step that the run starts from
    num_steps: int
    num_chains: int
    burn_in: int
    thin: int
    batched: bool
    settings: dict[str, Any]
    search_cost: int = 0  # evaluations that the search for a mode took

    @property
    def sampler(self) -> core.Sampler:
        return self.setting.sampler

    @property
    def num_draws(self) -> int:
        """How many draws of a chain the whole run gives."""
        return self.draws_before(self.first + self.num_steps)

    @property
    def longest_chunk(self) -> int:
        """Units that one chunk can take: its draws must fit their slots."""
        if not (slots := self.program.slots):
            return compiled.LONGEST_CHUNK
        return min(compiled.LONGEST_CHUNK, (slots - 1) * self.thin)

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

    def visits(self, parts: Iterable[int]) -> int:
        """The data that these parts of refreshes visit."""
        anchor, part = self.sampler.estimator.refresh_size(self.program.size), self.program.part
        return sum(min(part, anchor - number * part) for number in parts)

    def evaluations(self, steps: int, visits: int, states: Sequence[core.State]) -> int:
        """Per-datum gradient evaluations of all chains, which are in these states."""
        sampler, size = self.sampler, self.program.size
        if isinstance(integrator := sampler.integrator, core.DensityIntegrator):
            before = [] if self.fresh else [self.init]

            def count(states: Sequence[core.State]) -> int:
                counts = (integrator.gradient_counts(sampler.own_dynamics(each)) for each in states)
                return int(sum(map(np.sum, counts)))

            return size * (count(states) - count(before))
        return self.num_chains * (steps * sampler.estimator.cost(size, sampler.batch_size) + visits)

    def at_mode(self, mode: core.Params, search_cost: int) -> Setup:
        """This run with its estimator centred at a mode."""
        sampler = replace(self.sampler, estimator=self.sampler.estimator.at_mode(mode))
        setting = self.setting._replace(sampler=sampler)
        return replace(self, setting=setting, search_cost=search_cost)


def set_up(
    key: Any,
    posterior: core.Posterior,
    data: Any,
    init: Any,
    sampler: core.Sampler,
    *,
    num_steps: int,
    num_chains: int,
    burn_in: int = 0,
    thin: int = 1,
    observables: Mapping[str, Callable | core.Observable] | None = None,
    weights: str = "step_size",
    chain_method: str = "vmap",
    keep: str = "draws",
    draws_in_memory: bool = True,
) -> Setup:
    """Check every argument of `sample`, and resolve what the compiled program needs."""
    key = core.as_key(key)
    estimator, integrator = sampler.estimator, sampler.integrator
    core.check_pair(posterior, estimator, integrator)
    core.check_density(posterior, estimator, integrator, sampler.clip)
    core.check_metric(integrator, sampler.metric)
    num_steps = core.whole("sample", "num_steps", num_steps)
    num_chains = core.whole("sample", "num_chains", num_chains)
    thin = core.whole("sample", "thin", thin)
    batch_size = core.whole("sample", "batch_size", sampler.batch_size)
    burn_in = core.whole("sample", "burn_in", burn_in, least=0)
    check_lengths(num_steps, burn_in, thin, keep)
    if num_chains > MOST_CHAINS:
        raise ValueError(
            f"sample(num_chains={num_chains}): at most {MOST_CHAINS} chains in one call."
        )
    for name in ("order", "anchor_order"):
        core.one_of("sample", name, getattr(sampler, name), core.ORDERS)
    estimator.check_order(sampler.order)
    core.one_of("sample", "weights", weights, ("step_size", "equal"))
    core.one_of("sample", "chain_method", chain_method, ("vmap", "sequential"))
    clip = None if sampler.clip is None else core.positive("sample", "clip", sampler.clip)
    fresh = not isinstance(init, core.State)
    if not fresh:
        checks.check_chains(init, num_chains)
    first = 0 if fresh else int(init.step.max())  # a chain that diverged stays behind
    step_sizes, schedule = resolve(sampler.step_size, first, num_steps, num_chains)

    data, size = checks.as_data(data)
    batch_size = core.used_batch_size(estimator, size, batch_size)
    core.check_sizes("sample", estimator, size, batch_size)
    period = estimator.refresh_period(size, batch_size)
    batched = chain_method == "vmap"
    if fresh:
        init, some = start_like(key, init, num_chains, batched)
    else:
        some = jax.tree.map(lambda leaf: leaf[0], init.position)
    dtype = jnp.result_type(*(leaf.dtype for leaf in jax.tree.leaves(some)))
    step_sizes, schedule = (in_dtype(values, dtype) for values in (step_sizes, schedule))
    checks.check_model(posterior, some, data)
    if not fresh:
        checks.check_continuation(init, estimator, sampler.dynamics, size)
        if period is None:
            checks.check_refreshed(init, estimator)
    if isinstance(integrator, core.DensityIntegrator):
        before = None if fresh else sampler.own_dynamics(init)
        integrator.check_steps(burn_in, callable(sampler.step_size), before)
    estimator.check_params(some)
    if sampler.metric is not None:
        core.check_metric_shapes(sampler.metric, some)
    draws = (num_steps - burn_in) // thin if keep == "draws" and draws_in_memory else 0
    check_run_memory(estimator, some, size, num_chains, draws)
    by_name = check_observables(observables, num_steps - burn_in, some)
    checks.warn_of_few_bits(some)

    anchor = estimator.refresh_size(size)
    parts, part = core.cut(anchor, core.part_size(posterior, some, data))
    slots = 0
    if keep == "draws":
        slots = int(
            np.clip(DRAW_BYTES // (tree.nbytes(some) * num_chains), 2, compiled.LONGEST_CHUNK)
        )
    program = core.Program(
        posterior=posterior,
        methods=(type(estimator), type(integrator), type(sampler.metric)),
        size=size,
        cycle=period or compiled.LONGEST_BLOCK,
        part=part,
        parts=parts if period else 0,
        weights=weights,
        slots=slots,
        every_step=thin == 1,
    )
    sampler = replace(sampler, batch_size=batch_size, clip=clip)
    lengths = dict(num_steps=num_steps, num_chains=num_chains, burn_in=burn_in, thin=thin)
    words = dict(weights=weights, chain_method=chain_method)
    return Setup(
        program=program,
        setting=core.Setting(
            sampler=replace(sampler, step_size=None),
            data=data,
            observables=tuple(by_name.values()),
            burn_in_end=jnp.asarray(first + burn_in, jnp.int32),
            thin=jnp.asarray(thin, jnp.int32),
        ),
        key=key,
        init=init,
        shapes=jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), some),
        fresh=fresh,
        step_sizes=step_sizes,
        schedule=schedule,
        names=tuple(by_name),
        first=first,
        batched=batched,
        settings={**vars(sampler), **lengths, **words, "data_size": size},
        **lengths,
    )


def check_lengths(num_steps: int, burn_in: int, thin: int, keep: str) -> None:
    """Some steps follow burn-in, and some draws come out."""
    core.one_of("sample", "keep", keep, ("draws", "averages"))
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
    if keep == "draws" and thin > num_steps - burn_in:
        raise ValueError(
            f"sample(thin={thin}): only {num_steps - burn_in} steps follow burn_in, so no draw "
            'would be kept. Take a smaller thin, more steps, or keep="averages".'
        )


def check_observables(
    observables: Mapping[str, Callable | core.Observable] | None,
    num_steps: int,
    params: core.Params,
) -> dict[str, core.Observable]:
    """The observables by name, each evaluated at least once during `num_steps` steps."""
    if not isinstance(observables or {}, Mapping):
        raise TypeError(
            f"observables must be a dict of functions, got {type(observables).__name__}. Give each a "
            'name: observables={"square": lambda x: x**2}.'
        )
    by_name = {}
    for name, value in (observables or {}).items():
        one = value if isinstance(value, core.Observable) else core.observable(value)
        by_name[name] = one = replace(one, data=jax.tree.map(jnp.asarray, one.data))
        if one.every > num_steps:
            raise ValueError(
                f"observable {name!r} is evaluated every {one.every} steps, but only {num_steps} "
                "steps follow burn_in."
            )
        try:
            jax.eval_shape(one, params)
        except Exception as error:
            raise ValueError(
                f"observable {name!r} failed at the start: {type(error).__name__}: {error}"
            ) from error
    return by_name
