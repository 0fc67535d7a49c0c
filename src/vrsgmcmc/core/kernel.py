"""Estimator x integrator: one step of a chain, as pure functions.

The integrator is the paper's NextS(x, g, h), the estimator its g. `init`, then `refresh` every
`period` steps, and `step`; jit, vmap and scan them as you like, or let `vr.sample` do it.
"""

import inspect
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .arguments import positive, whole
from .gradients import cut_batch, log_posterior, split_part
from .metric import Metric, as_metric
from .rng import as_key, common, fold
from .sampler import Sampler
from .tree import cast, square_norm
from .types import (
    Batch,
    DensityIntegrator,
    Estimator,
    Info,
    Integrator,
    Params,
    Posterior,
    PRNGKey,
    Scalar,
    State,
)


@dataclass(frozen=True)
class Kernel:
    """What a chain does, bound to a posterior and to the number of its data."""

    posterior: Posterior
    sampler: Sampler
    size: int

    @property
    def estimator(self) -> Estimator:
        return self.sampler.estimator

    @property
    def period(self) -> int | None:
        """Steps between two refreshes; None: refresh once, before the first step, or as you like."""
        return self.estimator.refresh_period(self.size, self.sampler.batch_size)

    @property
    def anchor_size(self) -> int:
        """How many data a refresh visits; 0: there is nothing to refresh."""
        return self.estimator.refresh_size(self.size)

    def init(self, key: PRNGKey, params: Params) -> State:
        """The start. Memory is NaN until the first refresh, so a forgotten one cannot be missed."""
        key = as_key(key)
        params = jax.tree.map(jnp.asarray, params)
        return State(
            position=params,
            dynamics=self.sampler.dynamics.init(key, params),
            memory=self.estimator.init(params, self.size),
            step=jnp.zeros((), jnp.int32),
        )

    def refresh(self, key: PRNGKey, state: State, anchor: Batch) -> State:
        """Move the anchor to the current position and sum the gradient over the anchor's data."""
        count = anchor.index.shape[0]
        if self.anchor_size == self.size != count:
            raise ValueError(
                f"{self.estimator.name}() refreshes on all {self.size} data, got an anchor of {count}. "
                "Pass Batch(arange(N), data), or accumulate() parts, add them and renew()."
            )
        return self.renew(key, state, self.accumulate(key, state, anchor))

    def accumulate(self, key: PRNGKey, state: State, part: Batch) -> Any:
        """The contribution of some of the anchor's data to a refresh. Contributions add."""
        key = as_key(key)
        if not self.anchor_size:
            return ()
        parts, rows = cut_batch(self.posterior, state.position, part)

        def one_part(number, partial_sum):
            some, fresh = split_part(number, rows, part)
            return self.collect(key, state, partial_sum, some, fresh)

        empty = self.estimator.empty_sum(state.memory)
        if parts == 1:
            return self.collect(key, state, empty, part)
        return jax.lax.fori_loop(0, parts, one_part, empty)

    def collect(
        self, key: PRNGKey, state: State, partial_sum: Any, part: Batch, present=None
    ) -> Any:
        """The partial sum with one more part: what `accumulate` and `+` do, in place."""
        return self.estimator.collect(
            self.posterior, partial_sum, state.memory, state.position, part, common(key), present
        )

    def renew(self, key: PRNGKey, state: State, partial_sum: Any) -> State:
        """Finish a refresh with the sum of all contributions, under the key they were made with."""
        key, position = common(as_key(key)), state.position
        memory = self.estimator.renew(partial_sum, state.memory, position, key, self.size)
        return state._replace(memory=memory)

    def step(
        self, key: PRNGKey, state: State, batch: Batch, step_size: Scalar | float
    ) -> tuple[State, Info]:
        """x_l -> x_{l+1}, with one call of the estimator wherever the integrator wants it."""
        if batch.index.shape[0] == 0:
            raise ValueError("step: the batch is empty; it must hold at least one datum.")
        key = as_key(key)
        if isinstance(self.sampler.integrator, DensityIntegrator):
            return self._step_by_density(key, state, batch, jnp.asarray(step_size))
        calls = []

        def gradient(point: Params) -> Params:
            estimate, memory = self.estimator.estimate(
                self.posterior, state.memory, point, batch, fold(key, 1), self.size
            )
            estimate = cast(self._clipped(estimate), point)
            calls.append((estimate, memory))
            return estimate

        h, integrator = jnp.asarray(step_size), self.sampler.integrator
        position, dynamics = self.sampler.dynamics.step(
            fold(key, 0), state.position, state.dynamics, gradient, h, self.size
        )
        if len(calls) != 1:
            raise ValueError(
                f"{integrator.name}: an integrator calls gradient(x) exactly once per "
                f"step; this one called it {len(calls)} times."
            )
        ((estimate, memory),) = calls
        memory = self.estimator.update(memory, position)
        return State(position, dynamics, memory, state.step + 1), Info(estimate)

    def _step_by_density(
        self, key: PRNGKey, state: State, batch: Batch, step_size: Scalar
    ) -> tuple[State, Info]:
        if (count := batch.index.shape[0]) != self.size:
            raise ValueError(
                f"{self.sampler.integrator.name}() needs all {self.size} data in its batch, got "
                f"{count}. Pass Batch(arange(N), data)."
            )

        def log_density(point: Params) -> Scalar:
            return log_posterior(self.posterior, point, batch)

        position, dynamics = self.sampler.dynamics.step(
            fold(key, 0), state.position, state.dynamics, log_density, step_size, self.size
        )
        return State(position, dynamics, state.memory, state.step + 1), Info(None)

    def _clipped(self, gradient: Params) -> Params:
        """At most `clip` long, on the scale of the mean over data."""
        if self.sampler.clip is None:
            return gradient
        length = jnp.sqrt(square_norm(gradient)) / self.size
        factor = jnp.minimum(1.0, self.sampler.clip / jnp.where(length > 0, length, 1.0))
        return jax.tree.map(lambda g: factor * g, gradient)


def kernel(
    posterior: Posterior,
    estimator: Estimator,
    integrator: Integrator,
    *,
    size: int,
    batch_size: int | None = None,
    clip: float | None = None,
    metric: Metric | None = None,
) -> Kernel:
    """Bind an estimator and an integrator to a posterior with `size` data.

    - `batch_size`: only resolves the period of `svrg()`, which is ceil(N / batch_size) by default.
    - `clip`: shorten gradient estimates to this norm, on the per-datum-mean scale; biases the chain.
    - `metric`: x = c + L z, and the chain moves in z: (center, L), L a matrix or its diagonal.
    """
    check_pair(posterior, estimator, integrator)
    check_density(posterior, estimator, integrator, clip)
    metric = as_metric(metric)
    check_metric(integrator, metric)
    size = whole("kernel", "size", size)
    batch_size = 0 if batch_size is None else whole("kernel", "batch_size", batch_size)
    batch_size = used_batch_size(estimator, size, batch_size)
    check_sizes("kernel", estimator, size, batch_size)
    clip = clip if clip is None else positive("kernel", "clip", clip)
    sampler = Sampler(estimator, integrator, None, batch_size, clip=clip, metric=metric)
    return Kernel(posterior, sampler, size)


def check_pair(posterior: object, estimator: object, integrator: object) -> None:
    """The three things are what they should be, and fit."""
    if not isinstance(posterior, Posterior):
        raise TypeError(
            f"posterior must be a vr.Posterior(logprior, loglik), got {type(posterior).__name__}."
        )
    for name in ("logprior", "loglik", "augment"):
        value = getattr(posterior, name)
        if not callable(value) and not (name == "augment" and value is None):
            raise TypeError(f"posterior.{name} must be a function, got {value!r}.")
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"estimator must be a description such as vr.practical() or vr.minibatch(), got "
            f"{_call_hint(estimator)}. A class of your own inherits from vrsgmcmc.core.Estimator."
        )
    if not isinstance(integrator, Integrator):
        raise TypeError(
            f"integrator must be a description such as vr.sgld() or vr.sghmc(friction), got "
            f"{_call_hint(integrator)}. A class of your own inherits from vrsgmcmc.core.Integrator."
        )
    estimator.check_posterior(posterior)


def check_density(
    posterior: Posterior, estimator: Estimator, integrator: Integrator, clip: object
) -> None:
    """What an integrator that takes the density of all data itself cannot be used with."""
    if not isinstance(integrator, DensityIntegrator):
        return
    name = integrator.name
    if not estimator.uses_all_data:
        raise ValueError(
            f"{name}() takes exact gradients of all data, so {estimator.name}() has no part in it. "
            "Pass estimator=vr.full(), or an integrator for stochastic gradients such as "
            'vr.splitting("BAOAB", friction).'
        )
    if posterior.augment is not None:
        raise ValueError(
            f"{name}() needs a log density that is the same at each call, and augment changes the "
            "data at random. Use a posterior without augment, or an integrator such as vr.sgld()."
        )
    if clip is not None:
        raise ValueError(
            f"clip={clip!r}: {name}() takes gradients of the log density itself, and a clipped one is "
            "the gradient of no density. Leave clip out."
        )


def check_metric(integrator: Integrator, metric: Metric | None) -> None:
    """The integrator can move in the variables of the metric; one that cannot says why."""
    why = getattr(integrator, "why_no_metric", None)
    if metric is not None and why:
        raise ValueError(
            f"{integrator.name}() cannot be used with a metric: {why}. Leave the metric out, or use "
            "sgld(), sghmc() or splitting()."
        )


def used_batch_size(estimator: Estimator, size: int, batch_size: int) -> int:
    """At most N for an estimator that uses all data anyway: then no default is too large."""
    return min(batch_size, size) if estimator.uses_all_data else batch_size


def check_sizes(where: str, estimator: Estimator, size: int, batch_size: int) -> None:
    """The batch and the anchor are no larger than the data, and fit each other."""
    if batch_size > size:
        raise ValueError(
            f"{where}(batch_size={batch_size}): batch_size is larger than the data, which have "
            f"{size} rows."
        )
    if (anchor := estimator.refresh_size(size)) > size:
        raise ValueError(
            f"{estimator.name}(anchor_size={anchor}): anchor_size is larger than the data, which "
            f"have {size} rows. Use svrg() for an anchor that sees all of them."
        )
    if 0 < anchor < size and estimator.refresh_period(size, batch_size or size) is None:
        raise ValueError(
            f"{estimator.name}(): its one refresh visits {anchor} of {size} data, but an estimator "
            "that refreshes once visits all of them. Return the size from refresh_size, or a period."
        )
    estimator.check_sizes(size, batch_size)


def _call_hint(value: object) -> str:
    if not callable(value):
        return repr(value)
    parameters = inspect.signature(value).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty]
    name = getattr(value, "__name__", value)
    return f"the function itself; call it: {name}({', '.join(needed)})"
