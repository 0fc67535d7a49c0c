"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014).

p' = (1 - h f) p + h g(x) + sqrt(2 f T h) xi,   xi ~ N(0, I)
x' = x + h p',                                  p_0 ~ N(0, T I)
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..arguments import non_negative, positive
from ..rng import normal_like
from ..tree import cast
from ..types import Integrator


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SGHMC(Integrator):
    name = "sghmc"

    friction: float
    temperature: float

    def init(self, key, params):
        scale = jnp.sqrt(self.temperature)
        return cast(jax.tree.map(lambda xi: scale * xi, normal_like(key, params)), params)

    def step(self, key, position, dynamics, gradient, step_size, size):
        h, f = step_size, self.friction
        scale = jnp.sqrt(2 * f * self.temperature * h)
        momentum = jax.tree.map(
            lambda p, g, xi: (1 - h * f) * p + h * g + scale * xi,
            dynamics,
            gradient(position),
            normal_like(key, position),
        )
        moved = jax.tree.map(lambda x, p: x + h * p, position, momentum)
        return cast(moved, position), cast(momentum, dynamics)


def sghmc(friction: float, temperature: float = 1.0) -> SGHMC:
    """Underdamped Langevin dynamics, semi-implicit Euler; unit mass, h is the time step.

    - `friction`: f > 0; the best is near twice the root of the posterior's smallest curvature.
    """
    return SGHMC(
        positive("sghmc", "friction", friction), non_negative("sghmc", "temperature", temperature)
    )
