"""Priors of standardised coefficients.

The coefficients w [d] of standard columns have a scale s that is a parameter, w | s ~ N(0, s^2 I), and
is integrated out, so that there is no funnel to sample and a linear model keeps its exact Hessian:

    1 / s^2 = 1 / (d WIDE^2) + g,   p(g) ~ g^((d - 3) / 2) exp(-g FLOOR^2 / 2) s^d,
    log p(w) = -(d - 1)/2 log(1 + |w|^2 / FLOOR^2) - |w|^2 / (2 d WIDE^2) + constant.

For s this is nearly the half-normal prior with sd WIDE, pushed off zero:
p(s) ~ exp(-s^2 / (2 WIDE^2) - FLOOR^2 / (2 s^2)). Given w, g is a draw of the gamma distribution with
shape (d - 1) / 2 and rate (FLOOR^2 + |w|^2) / 2.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vrsgmcmc.core import Scalar

WIDE, FLOOR = 1.0, 0.2  # between them lies the scale of the coefficients
INTERCEPT = 10.0  # prior sd of an intercept


@dataclass(frozen=True)
class Normal:
    """Every number is N(0, 1): fixed scales are in the columns of the data."""

    concave: ClassVar = True

    def __call__(self, w: Float[Array, "p ..."]) -> Scalar:
        return -0.5 * jnp.sum(jnp.square(w))


@dataclass(frozen=True)
class SampledScale:
    """Coefficients with a common scale, integrated out; an intercept, the last of w, is N(0, 1)."""

    intercept: bool

    def __call__(self, w: Float[Array, "p ..."]) -> Scalar:
        slopes = w[:-1] if self.intercept else w
        square, d = jnp.sum(jnp.square(slopes)), slopes.size
        height = -0.5 * (d - 1) * jnp.log1p(square / FLOOR**2) - square / (2 * d * WIDE**2)
        return height - 0.5 * jnp.sum(jnp.square(w[-1:])) if self.intercept else height


def draw_scales(slopes: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """A draw of s for each draw [draw, ...] of the coefficients."""
    rows = slopes.reshape(len(slopes), -1)
    d, rate = rows.shape[1], (FLOOR**2 + np.sum(rows**2, axis=1)) / 2
    g = random.standard_gamma((d - 1) / 2, len(rows)) / rate if d > 1 else 0.0
    return np.broadcast_to(1 / np.sqrt(1 / (d * WIDE**2) + g), len(rows))
