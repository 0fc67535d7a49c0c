"""Splitting schemes for underdamped Langevin dynamics: a word of exact flows.

    dx = p dt,   dp = (g(x) - f p) dt + sqrt(2 f T) dW,   p_0 ~ N(0, T I)

    A(t): x' = x + t p
    B(t): p' = p + t g(x)
    O(t): p' = c p + sqrt(T (1 - c^2)) xi,   c = exp(-f t)
    U(t): A and O together, exactly: p' = c p + s,   x' = x + (1 - c)/f p + r,   (r, s) Gaussian with
          Var s = T (1 - c^2),   Cov(r, s) = T (1 - c)^2 / f,
          Var r = T (2 f t - 3 + 4 c - c^2) / f^2

Each letter gets 1/(its count) of the step h: "BAOAB" is B(h/2) A(h/2) O(h) A(h/2) B(h/2). One gradient
per step serves all B of a step, so they must see one position: flows after the word's last A or U
wait, and open the next step, whose gradient is taken at the same place (Leimkuhler & Matthews 2013).
"""

import math
from dataclasses import field
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..rng import fold, normal_like
from ..tree import cast
from ..types import STATIC, Params, PRNGKey, Scalar, description
from .underdamped import Underdamped, heat_bath

WORDS = ("BAOAB", "ABOBA", "OBABO", "BAOA", "UBU")


class Kinetic(NamedTuple):
    momentum: Params
    waiting: Scalar  # the step size for which the flows after the last A or U still have to run


@description
class Splitting(Underdamped):
    name = "splitting"

    word: str = field(metadata=STATIC)
    friction: float
    temperature: float

    def init(self, key, params):
        kind = jnp.result_type(*jax.tree.leaves(params))
        return Kinetic(super().init(key, params), jnp.zeros((), kind))

    def step(self, key, position, dynamics: Kinetic, gradient, step_size, size):
        body = 1 + max(self.word.rfind("A"), self.word.rfind("U"))
        flows = [(letter, dynamics.waiting) for letter in self.word[body:]]
        flows += [(letter, step_size) for letter in self.word[:body]]
        x, p, g = position, dynamics.momentum, None
        for number, (letter, h) in enumerate(flows):
            t = h / self.word.count(letter)
            if letter == "A":
                x = jax.tree.map(lambda x, p, t=t: x + t * p, x, p)
            elif letter == "B":
                g = gradient(cast(x, position)) if g is None else g
                p = jax.tree.map(lambda p, g, t=t: p + t * g, p, g)
            elif letter == "O":
                p = self._fluctuate(fold(key, number), p, t)
            else:
                x, p = self._drift_and_fluctuate(fold(key, number), x, p, t)
        waiting = jnp.asarray(step_size, dynamics.waiting.dtype)
        return cast(x, position), Kinetic(cast(p, position), waiting)

    def _fluctuate(self, key: PRNGKey, p: Params, t: Scalar) -> Params:
        """The flow O."""
        c = jnp.exp(-self.friction * t)
        scale = jnp.sqrt(self.temperature * -jnp.expm1(-2 * self.friction * t))
        return jax.tree.map(lambda p, xi: c * p + scale * xi, p, normal_like(key, p))

    def _drift_and_fluctuate(
        self, key: PRNGKey, x: Params, p: Params, t: Scalar
    ) -> tuple[Params, Params]:
        """The flow U."""
        f, temperature = self.friction, self.temperature
        c, reach = jnp.exp(-f * t), -jnp.expm1(-f * t) / f
        variance_p = temperature * -jnp.expm1(-2 * f * t)
        covariance = temperature * f * reach**2
        variance_x = temperature * _diffusion(f * t) / f**2
        scale = jnp.sqrt(variance_p)
        slope = jnp.where(variance_p > 0, covariance / jnp.where(scale > 0, scale, 1), 0)
        rest = jnp.sqrt(jnp.maximum(variance_x - slope**2, 0))
        first, second = normal_like(fold(key, 0), x), normal_like(fold(key, 1), x)
        x = jax.tree.map(
            lambda x, p, a, b: x + reach * p + slope * a + rest * b, x, p, first, second
        )
        return x, jax.tree.map(lambda p, a: c * p + scale * a, p, first)


def _diffusion(u: Scalar) -> Scalar:
    """2u - 3 + 4 exp(-u) - exp(-2u), by its Taylor series where these terms would cancel."""
    small = jnp.minimum(u, 0.5)
    series = jnp.zeros_like(small)
    for k in reversed(range(3, 20)):
        series = series * small + (-1) ** k * (4 - 2**k) / math.factorial(k)
    closed = 2 * u - 3 + 4 * jnp.exp(-u) - jnp.exp(-2 * u)
    return jnp.where(u < 0.5, series * small**3, closed)


def splitting(word: str, friction: float, temperature: float = 1.0) -> Splitting:
    """A splitting scheme with one gradient per step; unit mass, h is the time step.

    - `word`: of A, B, O, or of U, B: "BAOAB" (the best default), "ABOBA", "OBABO", "BAOA", "UBU".
      `position` is the one after the word's last A or U.
    - `friction`: f > 0.
    """
    _check_word(word)
    return Splitting(word, *heat_bath("splitting", friction, temperature))


def _check_word(word: object) -> None:
    """One gradient per step, every flow there, none there twice."""
    repair = f"Words that work: {', '.join(WORDS)}."
    if not isinstance(word, str) or not word or set(word) - set("ABOU"):
        raise ValueError(f"splitting(word={word!r}): a word consists of A, B, O and U. {repair}")
    if "U" in word and set(word) & set("AO"):
        raise ValueError(
            f"splitting(word={word!r}): U is A and O together, so it cannot stand beside them. {repair}"
        )
    needed = "B" if "U" in word else "ABO"
    if missing := [letter for letter in needed if letter not in word]:
        lacking = " and ".join(missing) + (" is" if len(missing) == 1 else " are")
        raise ValueError(f"splitting(word={word!r}): {lacking} missing. {repair}")
    # B flows separated by a move see two positions; what ends a word joins the next word's beginning
    groups = word.replace("U", "A").replace("O", "").split("A")
    kicks = sum(1 for group in groups[1:-1] if group) + (1 if groups[0] or groups[-1] else 0)
    if kicks > 1:
        raise ValueError(
            f"splitting(word={word!r}): this word needs {kicks} gradients per step, because its B see "
            f"{kicks} positions; only one gradient per step is offered. {repair}"
        )
