"""The scheme of Leimkuhler and Matthews (2013): the noise of a step is the mean of two normals.

    x' = x + h g(x) + sqrt(h T / 2) (xi + xi'),   xi, xi' ~ N(0, I),   xi_0 ~ N(0, I)

The next step takes xi' for its xi. The stationary law has an error of second order in h, and none on a
Gaussian, at one gradient per step and without a friction: the limit of BAOAB for large friction.
"""

import jax
import jax.numpy as jnp

from ..arguments import non_negative
from ..rng import normal_like
from ..tree import cast
from ..types import Integrator, description


@description
class LeimkuhlerMatthews(Integrator):
    name = "leimkuhler_matthews"

    temperature: float

    def init(self, key, params):
        return normal_like(key, params)

    def step(self, key, position, dynamics, gradient, step_size, size):
        h, scale = step_size, jnp.sqrt(step_size * self.temperature / 2)
        g, xi = gradient(position), normal_like(key, position)
        moved = jax.tree.map(
            lambda x, g, old, new: x + h * g + scale * (old + new), position, g, dynamics, xi
        )
        return cast(moved, position), xi


def leimkuhler_matthews(temperature: float = 1.0) -> LeimkuhlerMatthews:
    """Langevin dynamics, second order in the stationary law. Temperature 0 is gradient ascent."""
    return LeimkuhlerMatthews(non_negative("leimkuhler_matthews", "temperature", temperature))
