"""Any Ito diffusion, by Euler-Maruyama: the paper's Eq. (1).

    dx = F(x) dt + G(x) dW      ->      x' = x + h F(x) + sqrt(h) G(x) xi,   xi ~ N(0, I)

x is the parameters, or (parameters, auxiliary variables).
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..rng import normal_like
from ..tree import cast
from ..types import STATIC, Gradient, Integrator, Params, description


@description
class Ito(Integrator):
    name = "ito"
    why_no_metric = "its drift and diffusion are functions of x"

    drift: Callable = field(metadata=STATIC)
    diffusion: Callable = field(metadata=STATIC)
    auxiliary: Callable | None = field(metadata=STATIC)

    def init(self, key, params):
        return () if self.auxiliary is None else self.auxiliary(key, params)

    def step(self, key, position, dynamics, gradient, step_size, size):
        x = position if self.auxiliary is None else (position, dynamics)
        velocity = self._velocity(x, position, gradient)
        noise = _spread(self.diffusion(x), normal_like(key, x))
        h, root = step_size, jnp.sqrt(step_size)
        moved = jax.tree.map(lambda x, f, s: x + h * f + root * s, x, velocity, noise)
        moved = cast(moved, x)
        return (moved, dynamics) if self.auxiliary is None else moved

    def _velocity(self, x: Any, position: Params, gradient: Gradient) -> Any:
        """F(x), for a drift that calls `gradient` and for one that takes its value."""
        like = jax.tree.map(jnp.shape, x)

        def shapes(gradient):
            drift = jax.eval_shape(lambda x: self.drift(x, gradient), x)
            return jax.tree.map(jnp.shape, drift)

        try:
            calls = shapes(lambda params: params) == like
        except Exception:
            calls = False
        if calls:
            return self.drift(x, gradient)
        value = gradient(position)
        if (got := shapes(value)) != like:
            raise ValueError(
                f"ito: drift(x, gradient) must return a pytree like x, of shapes {like}; got {got}."
            )
        return self.drift(x, value)


def _spread(diffusion: Any, z: Any) -> Any:
    """G(x) z, for G a function, a pytree like x (a diagonal), or a number."""
    if callable(diffusion):
        spread = diffusion(z)
        _check_shapes(jax.tree.map(jnp.shape, spread), z)
        return spread
    if jax.tree.structure(diffusion) != jax.tree.structure(z):
        diffusion = jax.tree.map(lambda _: diffusion, z)
    _check_shapes(jax.tree.map(_product_shape, diffusion, z), z)
    return jax.tree.map(lambda g, z: g * z, diffusion, z)


def _product_shape(g: Any, z: Any) -> tuple[int, ...]:
    """The shape of g z; that of g where they do not fit at all."""
    try:
        return np.broadcast_shapes(jnp.shape(g), jnp.shape(z))
    except ValueError:
        return jnp.shape(g)


def _check_shapes(got: Any, z: Any) -> None:
    """A diagonal that is a matrix would broadcast, and change the shape of the parameters."""
    if got != (like := jax.tree.map(jnp.shape, z)):
        raise ValueError(
            f"ito: diffusion(x) must give noise like x, of shapes {like}; got {got}. Return a number, "
            "a pytree like x (a diagonal), or for a matrix G the function lambda z: G @ z."
        )


def ito(drift: Callable, diffusion: Callable, auxiliary: Callable | None = None) -> Ito:
    """The diffusion with drift F and diffusion G, Euler-Maruyama: weak order 1.

    - `drift(x, gradient)`: F(x), a pytree like x. `gradient` is a function: call it once, at the
      parameters, for the estimate of the gradient of the log posterior there. A drift that uses
      `gradient` as a value gets the estimate at the current parameters.
    - `diffusion(x)`: G(x): a number, a pytree like x (a diagonal), or a function z -> G(x) z.
    - `auxiliary(key, params)`: the first auxiliary variables; then x is (params, auxiliary).
    """
    for name, value in (("drift", drift), ("diffusion", diffusion)):
        if not callable(value):
            raise ValueError(f"ito({name}={value!r}): {name} must be a function of x.")
    if auxiliary is not None and not callable(auxiliary):
        raise ValueError(
            f"ito(auxiliary={auxiliary!r}): auxiliary must be a function of (key, params), or None."
        )
    return Ito(drift, diffusion, auxiliary)
