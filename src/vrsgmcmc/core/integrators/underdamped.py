"""What underdamped integrators share: a heat bath, and a momentum of unit mass, p_0 ~ N(0, T I)."""

from typing import Any

import jax.numpy as jnp

from ..arguments import non_negative, positive
from ..rng import normal_like
from ..types import Integrator


class Underdamped(Integrator):
    """An integrator with a momentum; its own file has the dynamics."""

    friction: float
    temperature: float

    def init(self, key, params) -> Any:
        return normal_like(key, params, jnp.sqrt(self.temperature))


def heat_bath(where: str, friction: float, temperature: float) -> tuple[float, float]:
    """Friction and temperature, or `ValueError`."""
    return positive(where, "friction", friction), non_negative(where, "temperature", temperature)
