"""Stochastic gradient Langevin dynamics (Welling & Teh 2011).

x' = x + h g(x) + sqrt(2 h T) xi,   xi ~ N(0, I)
"""

import jax
import jax.numpy as jnp

from ..arguments import non_negative
from ..rng import normal_like
from ..tree import cast
from ..types import Integrator, description


@description
class SGLD(Integrator):
    name = "sgld"

    temperature: float

    def step(self, key, position, dynamics, gradient, step_size, size):
        h, scale = step_size, jnp.sqrt(2 * step_size * self.temperature)
        g, xi = gradient(position), normal_like(key, position)
        moved = jax.tree.map(lambda x, g, xi: x + h * g + scale * xi, position, g, xi)
        return cast(moved, position), dynamics


def sgld(temperature: float = 1.0) -> SGLD:
    """Langevin dynamics, Euler's scheme: weak order 1. Temperature 0 is gradient ascent."""
    return SGLD(non_negative("sgld", "temperature", temperature))
