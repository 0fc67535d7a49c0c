"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014).

p' = (1 - h f) p + h g(x) + sqrt(2 f T h) xi,   xi ~ N(0, I)
x' = x + h p',                                  p_0 ~ N(0, T I)
"""

import jax
import jax.numpy as jnp

from ..arguments import non_negative, positive
from ..rng import normal_like
from ..tree import cast
from ..types import Integrator, description


@description
class SGHMC(Integrator):
    name = "sghmc"

    friction: float
    temperature: float

    def init(self, key, params):
        return normal_like(key, params, jnp.sqrt(self.temperature))

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
    return SGHMC(
        positive("sghmc", "friction", friction), non_negative("sghmc", "temperature", temperature)
    )
