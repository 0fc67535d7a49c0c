"""The No-U-Turn Sampler (Hoffman & Gelman 2014), as BlackJAX has it.

A step draws a momentum p ~ N(0, I) and follows Hamilton's equations by leapfrogs of length h, forward
and back in time, in 1, 2, 4, ... of them, until the trajectory turns; the next position is one of its
points, drawn with weights exp(log p(x | D) - |p|^2 / 2). So the posterior is exact for every h, and
each leapfrog takes a gradient of all N data. During the first `warm_up` steps dual averaging moves
log h until the mean acceptance is the target t:

    e_k = (1 - 1/(k + 10)) e_{k-1} + (t - accept_k)/(k + 10)
    log h_{k+1} = log(10 h_1) - 20 sqrt(k) e_k

From then on h is fixed, at a mean of log h_k in which the last ones weigh most. h_1 is the step size of
the call, doubled or halved until one leapfrog has a middling acceptance.

BlackJAX is imported here alone, and when a run starts.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, UInt32

from vrsgmcmc import core

MANY = 0.01  # of the steps after warm-up: more divergent trajectories than this are reported


class Tuning(NamedTuple):
    """Dual averaging: the numbers of BlackJAX's `DualAveragingAdaptationState`."""

    log_step_size: Float[Array, ""]
    log_step_size_avg: Float[Array, ""]
    step: Int[Array, ""]  # k, from 1; 0: the chain has not begun
    avg_error: Float[Array, ""]
    mu: Float[Array, ""]


class NutsDynamics(NamedTuple):
    """What a chain of NUTS carries besides its position."""

    log_density: Float[Array, ""]  # at the position
    gradient: Float[Array, " d"]
    step_size: Float[Array, ""]  # h of the next step, while it is tuned and after
    tuning: Tuning
    gradients: UInt32[Array, "2"]  # of all data, taken so far: low and high word
    draws: Int[Array, ""]  # steps after warm-up
    divergences: Int[Array, ""]  # of those: the energy error of their trajectory was over 1000


@core.description
class Nuts(core.DensityIntegrator):
    name = "nuts"

    target_accept: float
    warm_up: int = field(metadata=core.STATIC)
    max_doublings: int = field(metadata=core.STATIC)

    def init(self, key, params):
        row, _ = as_row(params)
        nan, none = jnp.full((), jnp.nan, row.dtype), jnp.zeros((), jnp.int32)
        tuning = Tuning(nan, nan, none.astype(int), nan, nan)
        words = jnp.zeros(2, jnp.uint32)
        return NutsDynamics(nan, jnp.full_like(row, jnp.nan), nan, tuning, words, none, none)

    @jax.default_prng_impl("threefry2x32")  # what BlackJAX takes the words of a key for
    def step(self, key, position, dynamics, gradient, step_size, size):
        from blackjax.mcmc import hmc, nuts

        row, unravel = as_row(position)

        def log_density(row: Float[Array, " d"]) -> Float[Array, ""]:
            return gradient(unravel(row)).astype(row.dtype)

        def begin(dynamics: NutsDynamics) -> NutsDynamics:
            return self._begin(plain_key(key, 1), row, log_density, dynamics, step_size)

        # A loop, because under vmap a condition would take both of its branches at every step.
        dynamics = jax.lax.while_loop(lambda now: now.tuning.step == 0, begin, dynamics)
        h: Any = dynamics.step_size if self.warm_up else step_size.astype(row.dtype)
        now: Any = dynamics.log_density, dynamics.gradient
        step: Any = nuts.build_kernel()
        options = h, jnp.ones_like(row), self.max_doublings
        state, info = step(plain_key(key, 0), hmc.HMCState(row, *now), log_density, *options)
        h, tuning = self._tune(h, dynamics.tuning, info.acceptance_rate)
        after = dynamics.tuning.step > self.warm_up
        dynamics = NutsDynamics(
            state.logdensity,
            state.logdensity_grad,
            h,
            tuning,
            add_count(dynamics.gradients, info.num_integration_steps),
            dynamics.draws + after,
            dynamics.divergences + (after & info.is_divergent),
        )
        return unravel(state.position), dynamics

    def _begin(self, key, row, log_density, dynamics: NutsDynamics, step_size) -> NutsDynamics:
        """The density at the start, and the first step size."""
        from blackjax.adaptation import step_size as adaptation
        from blackjax.mcmc import hmc

        state, first = hmc.init(row, log_density), step_size.astype(row.dtype)
        h, count = first, jnp.ones((), jnp.int32)
        if self.warm_up:

            def leapfrog(h):
                def step(key, state):
                    return hmc.build_kernel()(key, state, log_density, h, jnp.ones_like(row), 1)

                return step

            h = adaptation.find_reasonable_step_size(key, leapfrog, state, first)
            count += 1 + jnp.round(jnp.abs(jnp.log2(h) - jnp.log2(first))).astype(jnp.int32)
        start, _, _ = adaptation.dual_averaging_adaptation(self.target_accept)
        return dynamics._replace(
            log_density=state.logdensity,
            gradient=state.logdensity_grad,
            step_size=h,
            tuning=as_arrays(start(h), dynamics.tuning),
            gradients=add_count(dynamics.gradients, count),
        )

    def _tune(self, h: Any, tuning: Any, acceptance: Any) -> tuple[Float[Array, ""], Tuning]:
        """The step size of the next step."""
        from blackjax.adaptation import step_size as adaptation

        _, update, final = adaptation.dual_averaging_adaptation(self.target_accept)
        adaptation_state = adaptation.DualAveragingAdaptationState(*tuning)
        new = as_arrays(update(adaptation_state, acceptance), tuning)
        during = tuning.step <= self.warm_up
        new_h = jnp.where(new.step <= self.warm_up, jnp.exp(new.log_step_size), final(new))
        return jnp.where(during, new_h, h), core.tree.select(during, new, tuning)

    def gradient_counts(self, dynamics: NutsDynamics):
        words = np.asarray(dynamics.gradients).astype(np.int64)
        return words[..., 0] + (words[..., 1] << 32)

    def check_steps(self, burn_in, varies, dynamics: NutsDynamics | None):
        done = 0 if dynamics is None else max(0, int(np.min(dynamics.tuning.step)) - 1)
        if burn_in < self.warm_up - done:
            raise ValueError(
                f"sample(burn_in={burn_in}): nuts() tunes its step size during its first "
                f"{self.warm_up} steps, whose positions are no draws. Pass burn_in="
                f"{self.warm_up - done} or more (num_steps includes it), or nuts(warm_up=...)."
            )
        if varies and self.warm_up:
            raise ValueError(
                "step_size: nuts() tunes its step size itself, so a schedule would have no effect. "
                "Pass a number to begin with, or nuts(warm_up=0)."
            )

    def complaint(self, dynamics: NutsDynamics):
        count, draws = (int(np.sum(n)) for n in (dynamics.divergences, dynamics.draws))
        if count <= MANY * draws:
            return None
        return (
            f"nuts(): {count} of {draws} trajectories after warm-up diverged, so there are places that "
            "the chains cannot reach and the draws leave out. Raise target_accept (it is "
            f"{float(self.target_accept):.2g}), or write the model in parameters of similar scales."
        )


def as_row(params: core.Params) -> tuple[Float[Array, " d"], Callable[[Array], core.Params]]:
    """The parameters in one row, and the way back. BlackJAX needs JAX's default dtype: in another one
    its loops change theirs."""
    row, unravel = ravel_pytree(params)
    return row.astype(float), lambda values: unravel(values.astype(row.dtype))


def plain_key(key: core.PRNGKey, tag: int) -> UInt32[Array, "2"]:
    """A key as its words. BlackJAX carries keys through loops, and a loop under vmap copies a typed
    one that is used up, which `jax_debug_key_reuse` takes for a mistake."""
    return jax.random.key_data(core.fold(key, tag))


def as_arrays(values: Any, like: Tuning) -> Tuning:
    """BlackJAX's numbers with the dtypes of `like`."""
    return Tuning(*(jnp.asarray(v, a.dtype) for v, a in zip(values, like, strict=True)))


def add_count(words: UInt32[Array, "2"], count: Int[Array, ""]) -> UInt32[Array, "2"]:
    """A count of 64 bits, with its carry, where JAX has 32."""
    low = words[0] + count.astype(jnp.uint32)
    return jnp.stack([low, words[1] + (low < words[0])])


def nuts(target_accept: float = 0.8, *, warm_up: int = 100, max_doublings: int = 10) -> Nuts:
    """The No-U-Turn Sampler with exact gradients: right at every step size, N evaluations a leapfrog.

    - `target_accept`: mean acceptance, between 0 and 1, that the step size is tuned for. Higher means
      smaller steps, and fewer divergent trajectories where the density has narrow places.
    - `warm_up`: steps that tune the step size, a part of burn_in. The search for it begins with
      `step_size`, and any will do. With 0 steps, `step_size` is used as it is.
    - `max_doublings`: a trajectory has less than 2^max_doublings leapfrogs.

    `result.state.dynamics` (with a metric, `result.state.dynamics.dynamics`) has `step_size`,
    `divergences` and `draws`, all [chain].
    """
    accept = core.number("nuts", "target_accept", target_accept)
    if not 0 < accept < 1:
        raise ValueError(
            f"nuts(target_accept={target_accept!r}): target_accept must be between 0 and 1; 0.8 suits "
            "most posteriors."
        )
    warm_up = core.whole("nuts", "warm_up", warm_up, least=0)
    max_doublings = core.whole("nuts", "max_doublings", max_doublings)
    return Nuts(accept, warm_up, max_doublings)
