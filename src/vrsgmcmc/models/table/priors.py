"""Priors by name, for coefficients of standardised columns.

    weak                   N(0, 2.5^2)
    normal(m, s)           N(m, s^2)
    student_t(k, m, s)     m + s t_k
    laplace(s)             density exp(-|w| / s) / (2 s), with a kink at 0
    flat                   density 1: only where the likelihood alone makes the posterior proper

Each is a value, equal by its numbers, so that equal priors share their compiled programs. `concave`
says that the log density is smooth and concave.
"""

import math
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from vrsgmcmc.core import Scalar, did_you_mean

FORMS = ("weak", "normal(0, 1)", "student_t(4, 0, 1)", "laplace(1)", "flat")
CALL = re.compile(r"(\w+)\s*\(([^()]*)\)")
WEAK = 2.5


@dataclass(frozen=True)
class Normal:
    mean: float
    sd: float
    concave: ClassVar = True

    def __call__(self, w: Float[Array, "..."]) -> Scalar:
        constant = math.log(self.sd * math.sqrt(2 * math.pi))
        return jnp.sum(-0.5 * jnp.square((w - self.mean) / self.sd) - constant)

    def __str__(self) -> str:
        return f"N({self.mean:g}, {self.sd:g}²)"


@dataclass(frozen=True)
class StudentT:
    dof: float
    mean: float
    scale: float
    concave: ClassVar = False

    def __call__(self, w: Float[Array, "..."]) -> Scalar:
        half = (self.dof + 1) / 2
        constant = math.lgamma(half) - math.lgamma(self.dof / 2)
        constant -= math.log(self.scale * math.sqrt(self.dof * math.pi))
        square = jnp.square((w - self.mean) / self.scale)
        return jnp.sum(constant - half * jnp.log1p(square / self.dof))

    def __str__(self) -> str:
        return f"Student-t({self.dof:g}, {self.mean:g}, {self.scale:g})"


@dataclass(frozen=True)
class Laplace:
    scale: float
    concave: ClassVar = False  # it is concave, but has a kink

    def __call__(self, w: Float[Array, "..."]) -> Scalar:
        return jnp.sum(-jnp.abs(w) / self.scale - math.log(2 * self.scale))

    def __str__(self) -> str:
        return f"Laplace(0, {self.scale:g})"


@dataclass(frozen=True)
class Flat:
    concave: ClassVar = True

    def __call__(self, w: Float[Array, "..."]) -> Scalar:
        return 0.0 * jnp.sum(w)

    def __str__(self) -> str:
        return "flat"


WeightPrior = Normal | StudentT | Laplace | Flat
# name -> class, and what its numbers are; those that are scales come last
KINDS = {
    "normal": (Normal, ("mean", "sd")),
    "student_t": (StudentT, ("degrees of freedom", "mean", "scale")),
    "laplace": (Laplace, ("scale",)),
}


def parse_prior(text: Any) -> WeightPrior:
    """The prior that a name stands for, such as "weak" or "normal(0, 1)"."""
    forms = ", ".join(f'"{form}"' for form in FORMS)
    if isinstance(text, WeightPrior):
        return text
    if not isinstance(text, str):
        raise TypeError(f"prior must be a name ({forms}), got {type(text).__name__}.")
    plain = text.strip().lower()
    if plain in ("weak", "flat"):
        return Normal(0.0, WEAK) if plain == "weak" else Flat()
    match = CALL.fullmatch(plain)
    if match is None or match[1] not in KINDS:
        word = plain.split("(")[0].strip()
        hint = did_you_mean(word, [form.split("(")[0] for form in FORMS])
        raise ValueError(f"prior={text!r}: known are {forms}.{hint}")
    kind, fields = KINDS[match[1]]
    try:
        numbers = [float(part) for part in match[2].split(",")]
    except ValueError:
        numbers = []
    finite = len(numbers) == len(fields) and all(map(math.isfinite, numbers))
    if not finite or any(
        not number > 0 for number, field in zip(numbers, fields, strict=True) if field != "mean"
    ):
        raise ValueError(
            f"prior={text!r}: {match[1]} takes {len(fields)} numbers ({', '.join(fields)}); all but "
            f'a mean are above zero. For example "{example_of(match[1])}".'
        )
    return kind(*numbers)


def example_of(word: str) -> str:
    return next(form for form in FORMS if form.startswith(word))
