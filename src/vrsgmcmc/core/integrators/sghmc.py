"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014).

p' = (1 - h f) p + h g(x) + sqrt(2 f T h) xi,   xi ~ N(0, I)
x' = x + h p',                                  p_0 ~ N(0, T I)
"""

import jax
import jax.numpy as jnp

from ..rng import normal_like
from ..tree import cast
from ..types import description
from .underdamped import Underdamped, heat_bath


@description
class SGHMC(Underdamped):
    name = "sghmc"

    friction: float
    temperature: float

    def step(self, key, position, dynamics, gradient, step_size, size):
        h, f = step_size, self.friction
        scale = jnp.sqrt(2 * f * self.temperature * h)
        p, g, xi = dynamics, gradient(position), normal_like(key, position)
        momentum = jax.tree.map(lambda p, g, xi: (1 - h * f) * p + h * g + scale * xi, p, g, xi)
        moved = jax.tree.map(lambda x, p: x + h * p, position, momentum)
        return cast(moved, position), cast(momentum, dynamics)


def sghmc(friction: float, temperature: float = 1.0) -> SGHMC:
    """Underdamped Langevin dynamics, semi-implicit Euler; unit mass, h is the time step.

    - `friction`: f > 0; the best is near twice the root of the posterior's smallest curvature.
    """
    return SGHMC(*heat_bath("sghmc", friction, temperature))
