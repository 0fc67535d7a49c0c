"""Stochastic gradient Nose-Hoover thermostat (Ding et al. 2014).

    p' = (1 - h z) p + h g(x) + sqrt(2 A T h) xi,   xi ~ N(0, I)
    x' = x + h p'
    z' = z + h (|p'|^2 / d - T),                    p_0 ~ N(0, T I),   z_0 = A

The thermostat z adapts to gradient noise of unknown size: it rises until the kinetic energy fits T.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .. import tree
from ..rng import normal_like
from ..tree import cast
from ..types import Params, Scalar, description
from .underdamped import Underdamped, heat_bath


class Thermostat(NamedTuple):
    momentum: Params  # p
    friction: Scalar  # z


@description
class SGNHT(Underdamped):
    name = "sgnht"

    friction: float
    temperature: float

    def init(self, key, params):
        kind = jnp.result_type(*jax.tree.leaves(params))
        return Thermostat(super().init(key, params), jnp.asarray(self.friction, kind))

    def step(self, key, position, dynamics: Thermostat, gradient, step_size, size):
        h, z = step_size, dynamics.friction
        scale = jnp.sqrt(2 * self.friction * self.temperature * h)
        p, g, xi = dynamics.momentum, gradient(position), normal_like(key, position)
        momentum = jax.tree.map(lambda p, g, xi: (1 - h * z) * p + h * g + scale * xi, p, g, xi)
        moved = jax.tree.map(lambda x, p: x + h * p, position, momentum)
        kinetic = tree.square_norm(momentum) / tree.size(position)
        thermostat = z + h * (kinetic - self.temperature)
        momentum = cast(momentum, position)
        return cast(moved, position), Thermostat(momentum, thermostat.astype(z.dtype))


def sgnht(friction: float, temperature: float = 1.0) -> SGNHT:
    """Underdamped Langevin dynamics whose friction adapts.

    - `friction`: A > 0, the injected noise and the thermostat's first value.
    """
    return SGNHT(*heat_bath("sgnht", friction, temperature))
