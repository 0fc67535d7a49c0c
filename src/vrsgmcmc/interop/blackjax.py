"""BlackJAX, both ways: our sampler in its loops, and our estimators in its kernels.

`to_blackjax` makes a `SamplingAlgorithm`, whose step l with key k_l is

    refresh at x_l, when l mod m = 0;   x_{l+1} = NextS(x_l, g(x_l), h_l) on a minibatch drawn for l,

with the keys of `feed.py`. `gradient_estimator` makes the function g(position, minibatch) that
BlackJAX's stochastic gradient kernels take. They know no memory, so the minibatch carries it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

from vrsgmcmc import core
from vrsgmcmc.core import compiled
from vrsgmcmc.core.integrators import sgld

from .feed import NOISE, Feed, make_feed

if TYPE_CHECKING:
    from blackjax.base import SamplingAlgorithm

StepSize = float | Callable[[Int[Array, ""]], Any]


class ChainState(NamedTuple):
    """The state of one chain, in BlackJAX's sense."""

    position: core.Params
    dynamics: Any  # the integrator's own variables, such as momenta
    memory: Any  # the estimator's
    step: Int[Array, ""]  # l
    order_words: UInt32[Array, " 2"]  # of the key of the order of minibatches


def to_blackjax(
    posterior: core.Posterior,
    data: Any,
    estimator: core.Estimator,
    integrator: core.Integrator,
    step_size: StepSize,
    batch_size: int = 10,
    *,
    order: str = "without_replacement",
    clip: float | None = None,
    metric: core.Metric | None = None,
) -> SamplingAlgorithm:
    """A BlackJAX `SamplingAlgorithm`: `init(position, rng_key)` and `step(rng_key, state)`.

    It runs in `blackjax.util.run_inference_algorithm`, under `vmap` over chains, and in loops of your
    own. Refreshes of anchors are inside: once in `init`, or in every m-th `step`.

    - `step_size`: h, a number, or a function of the number of the step.
    - `order`: of the minibatches, as in `vr.sample`. `clip`, `metric`: as in `vr.kernel`.

    The states of a run hold the estimator's memory, so let a run store positions alone:
    `transform=lambda state, info: state.position`.
    """
    from blackjax.base import SamplingAlgorithm

    options = {"clip": clip, "metric": metric}
    feed = make_feed(
        "to_blackjax", posterior, data, estimator, integrator, batch_size, order, **options
    )
    schedule = as_schedule("to_blackjax", step_size)

    def init(position: core.Params, rng_key: core.PRNGKey | None = None) -> ChainState:
        state = feed.begin(_needed("init(position, rng_key)", rng_key), position)
        return ChainState(*state, jnp.zeros(2, jnp.uint32))

    def step(rng_key: core.PRNGKey, state: Any) -> tuple[Any, core.Info]:
        key = _needed("step(rng_key, state)", rng_key)
        *parts, order_words = state
        refreshed = feed.refresh(key, core.State(*parts))
        batch, order_words = feed.batch(key, refreshed.step, order_words)
        h = schedule(refreshed.step)
        moved, info = feed.kernel.step(core.fold(key, NOISE), refreshed, batch, h)
        return ChainState(*moved, order_words), info

    return SamplingAlgorithm(init, step)


class Memory(NamedTuple):
    """What a gradient estimator remembers between the steps of a BlackJAX kernel."""

    estimator: Any  # the estimator's own memory
    step: Int[Array, ""]  # l
    order_words: UInt32[Array, " 2"]  # of the key of the order of minibatches


class Minibatch(NamedTuple):
    """What a BlackJAX kernel hands on to the gradient estimator as its minibatch."""

    batch: core.Batch
    memory: Memory
    augment_words: UInt32[Array, " 2"]


class GradientEstimator:
    """`gradient(position, minibatch)` for a BlackJAX kernel, and the memory around it.

    One step of a chain is `minibatch`, the kernel's step, `update`. All three are pure functions.
    """

    def __init__(self, feed: Feed):
        self._feed = feed

    def init(self, key: core.PRNGKey, position: core.Params) -> Memory:
        """The memory before the first step; an estimator that refreshes once does it here."""
        state = self._feed.begin(_needed("init(key, position)", key), position)
        return Memory(state.memory, state.step, jnp.zeros(2, jnp.uint32))

    def minibatch(self, key: core.PRNGKey, position: core.Params, memory: Memory) -> Minibatch:
        """The data of the next step, after a refresh at `position` where one is due."""
        key, feed = _needed("minibatch(key, position, memory)", key), self._feed
        state = core.State(position, (), memory.estimator, memory.step)
        own = feed.refresh(key, state).memory
        batch, order_words = feed.batch(key, memory.step, memory.order_words)
        augment_key = core.fold(core.fold(key, NOISE), 1)  # that of `Kernel.step`
        return Minibatch(
            batch, Memory(own, memory.step, order_words), jax.random.key_data(augment_key)
        )

    def __call__(self, position: core.Params, minibatch: Minibatch) -> core.Params:
        """The estimate of the gradient of the log posterior at `position`."""
        return self._estimate(position, minibatch)[0]

    def update(
        self, minibatch: Minibatch, position: core.Params, new_position: core.Params
    ) -> Memory:
        """The memory after a step from `position` to `new_position`.

        A table (SAGA) takes the gradients at `position`: compiled together with the step, they are
        those that the step computed.
        """
        _, own = self._estimate(position, minibatch)
        memory = minibatch.memory
        own = self._feed.kernel.estimator.update(own, new_position)
        return memory._replace(estimator=own, step=memory.step + 1)

    def _estimate(self, position: core.Params, minibatch: Minibatch) -> tuple[core.Params, Any]:
        kernel, augment_key = self._feed.kernel, compiled.wrap_keys(minibatch.augment_words)
        gradient, memory = kernel.estimator.estimate(
            kernel.posterior,
            minibatch.memory.estimator,
            position,
            minibatch.batch,
            augment_key,
            kernel.size,
        )
        return core.tree.cast(gradient, position), memory


def gradient_estimator(
    posterior: core.Posterior,
    data: Any,
    estimator: core.Estimator,
    batch_size: int = 10,
    *,
    order: str = "without_replacement",
) -> GradientEstimator:
    """An estimator of ours as the `grad_estimator` of BlackJAX's `sgld`, `sghmc`, `sgnht` and `csgld`.

        gradient = vr.gradient_estimator(posterior, data, vr.svrg(), batch_size=10)
        sampler = blackjax.sgld(gradient)
        memory = gradient.init(first_key, position)

        minibatch = gradient.minibatch(batch_key, position, memory)  # one step
        new_position = sampler.step(noise_key, position, minibatch, step_size)
        memory = gradient.update(minibatch, position, new_position)

    A kernel that takes several gradients in a step, such as `blackjax.sghmc`, takes all of them on one
    minibatch and with one memory.
    """
    feed = make_feed("gradient_estimator", posterior, data, estimator, sgld(), batch_size, order)
    return GradientEstimator(feed)


def as_schedule(where: str, step_size: StepSize) -> Callable[[Int[Array, ""]], Any]:
    """Step sizes as a function of the number of the step."""
    if callable(step_size):
        return step_size
    h = core.positive(where, "step_size", step_size)
    return lambda step: h


def _needed(call: str, key: Any) -> core.PRNGKey:
    if key is None:
        raise ValueError(f"{call}: a key is needed. Pass jax.random.key(seed).")
    return core.as_key(key)
