"""An integrator as a gradient transformation of optax.

optax minimises a loss U and adds updates to parameters. With U minus the log posterior, its gradient
-g(x), and a key k, update l is

    u = NextS(x, g(x), h_l) - x,   xi from fold(fold(k, 1), l),   momenta from fold(k, 0),

so `optax.apply_updates` makes the step of `vr.kernel` with key fold(fold(k, 1), l). optax takes its
gradients at the parameters: an integrator that wants one elsewhere cannot be written so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

from vrsgmcmc import core
from vrsgmcmc.core import compiled

if TYPE_CHECKING:
    import optax

FIRST, STEPS = 0, 1


class OptaxState(NamedTuple):
    """The state of the transformation: words in the place of a key, so that it can be stored."""

    count: Int[Array, ""]  # l
    key_words: UInt32[Array, " 2"]
    dynamics: Any  # the integrator's own variables, such as momenta


def to_optax(
    integrator: core.Integrator,
    step_size: float | Callable[[Int[Array, ""]], Any],
    size: int,
    key: Any,
) -> optax.GradientTransformation:
    """Sampling as an optax optimizer: `update(gradients, state, params)` returns what to add.

    - `integrator`: one that takes its gradient at the current position, such as `vr.sgld()`.
    - `step_size`: h, a number, or a schedule (a function of the count of updates). Larger gradients
      take smaller steps: h multiplies the gradient of the SUM over the data, not of the mean.
    - `size`: N, the number of data behind the gradient.
    - `key`: all noise comes from it. Chains need keys of their own:
      `jax.vmap(lambda key: vr.to_optax(..., key=key).init(params))(keys)`.

    The gradients are those of minus the log posterior, -logprior(x) - sum_i loglik(x, d_i), exact or
    estimated: for a mean loss over a minibatch, N times it, minus the log prior.
    """
    import optax

    if not isinstance(integrator, core.Integrator):
        raise TypeError(
            f"to_optax: integrator must be a description such as vr.sgld(), got {integrator!r}."
        )
    if isinstance(integrator, core.DensityIntegrator):
        raise ValueError(
            f"to_optax: {integrator.name}() takes as many exact gradients as it likes, and optax "
            "gives one. Use vr.sample(..., integrator=vr.nuts()), or an integrator such as vr.sgld()."
        )
    size = core.whole("to_optax", "size", size)
    h = step_size if callable(step_size) else core.positive("to_optax", "step_size", step_size)
    key = core.as_key(key)

    def init(params: core.Params) -> OptaxState:
        _check_place_of_gradient(integrator, params, size)
        dynamics = integrator.init(core.fold(key, FIRST), jax.tree.map(jnp.asarray, params))
        words = jax.random.key_data(core.fold(key, STEPS))
        return OptaxState(jnp.zeros((), jnp.int32), words, dynamics)

    def update(
        updates: core.Params, state: Any, params: core.Params | None = None
    ) -> tuple[core.Params, OptaxState]:
        if params is None:
            raise ValueError(
                "to_optax: the update needs the parameters. Call update(gradients, state, params)."
            )
        ascent = jax.tree.map(lambda g, x: -g.astype(x.dtype), updates, params)
        step_key = core.fold(compiled.wrap_keys(state.key_words), state.count)
        moved, dynamics = integrator.step(
            core.fold(step_key, 0),
            params,
            state.dynamics,
            lambda point: ascent,
            jnp.asarray(h(state.count) if callable(h) else h),
            size,
        )
        change = jax.tree.map(jnp.subtract, moved, params)
        return change, OptaxState(state.count + 1, state.key_words, dynamics)

    return optax.GradientTransformation(init, update)


def _check_place_of_gradient(integrator: core.Integrator, params: core.Params, size: int) -> None:
    """The integrator's program takes its one gradient at the position that it gets."""
    places = []

    def trace(position: core.Params, key: core.PRNGKey) -> core.Params:
        def gradient(point: core.Params) -> core.Params:
            places.append(point)
            return point

        integrator.step(key, position, integrator.init(key, position), gradient, h, size)
        return places[0]

    h = jnp.asarray(1.0)
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), params)
    key = jax.eval_shape(lambda: jax.random.key(0))
    program = jax.make_jaxpr(trace)(shapes, key).jaxpr
    count = len(program.outvars)
    if len(places) != 1 or program.outvars != program.invars[:count]:
        name, word = integrator.name, getattr(integrator, "word", None)
        call = name + (f"({word!r}, ...)" if word else "()")
        raise ValueError(
            f"to_optax: {call} takes its gradient at a place on the way, and optax takes gradients at "
            'the parameters. Use one that begins there: vr.splitting("BAOAB", friction), vr.sgld(), '
            "vr.sghmc(friction); or run this one by vr.kernel."
        )
