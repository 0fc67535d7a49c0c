"""Fourth moments on the Gaussian mean model: the error of an average of squares, exactly.

In one dimension and with equal features a gradient's error e does not depend on the position.
Measured from the posterior mean mu, with the posterior variance v,

    g = -x / v + e,      (x, p) <- affine in (x, p, g) + Gaussian noise,
    S <- S + (mu + x)^2 - (mu^2 + v),      so that S / n is the error of an average over n steps,

where e is drawn for every step (minibatch), for `period` steps (practical) or is 0 (full, svrg,
control_variate). Each substitution is linear in (x, p, e, w), where w is a new draw, or adds a
polynomial of degree 2 to S. So the moments

    E[x^a p^b e^c w^d S^k],    a + b + c + d + 2 k <= 4,

86 of them, obey a linear recursion, in which e enters by its first four moments. There is no
approximation: E[S] and E[S^2] are exact.
"""

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from operator import add, sub
from typing import NoReturn

import numpy as np
from jaxtyping import Float

from vrsgmcmc.core import Sampler

from .affine import Powers
from .draws import drawing
from .problems import Array, LinearGaussian, has_equal_features
from .schemes import Flow, scheme

Exponents = tuple[int, ...]
Polynomial = dict[Exponents, float]  # exponents of the variables -> coefficient

VARIABLES = ("x", "p", "e", "w", "S")
MONOMIALS: list[Exponents] = [  # S is of degree 2
    powers for powers in product(range(5), repeat=len(VARIABLES)) if sum(powers) + powers[-1] <= 4
]
PLACE = {monomial: place for place, monomial in enumerate(MONOMIALS)}
ONE = MONOMIALS[0]
UNITS = {name: tuple(int(other == name) for other in VARIABLES) for name in VARIABLES}
NORMAL = np.array([1.0, 0.0, 1.0, 0.0, 3.0])


def linear(**coefficients: float) -> Polynomial:
    """linear(x=2, e=1) is 2 x + e."""
    return {UNITS[name]: float(value) for name, value in coefficients.items() if value != 0}


def times(first: Polynomial, second: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for one, a in first.items():
        for other, b in second.items():
            monomial = tuple(map(add, one, other))
            result[monomial] = result.get(monomial, 0.0) + a * b
    return result


def substitute(**images: Polynomial) -> Float[Array, "K K"]:
    """The matrix of the moments when each named variable becomes a polynomial in the old ones."""
    images = {name: linear(**{name: 1.0}) for name in VARIABLES} | images
    expansions: dict[Exponents, Polynomial] = {ONE: {ONE: 1.0}}
    matrix = np.zeros((len(MONOMIALS), len(MONOMIALS)))
    for row, monomial in enumerate(MONOMIALS):  # each after those that divide it
        if monomial != ONE:
            name = next(name for name, power in zip(VARIABLES, monomial, strict=True) if power)
            divisor = tuple(map(sub, monomial, UNITS[name]))
            expansions[monomial] = times(expansions[divisor], images[name])
        for other, coefficient in expansions[monomial].items():
            matrix[row, PLACE[other]] = coefficient
    return matrix


def redraw(name: str, moments: Float[Array, "5"]) -> Float[Array, "K K"]:
    """The matrix of the moments when a variable is drawn again, independent of the past."""
    matrix, variable = np.zeros((len(MONOMIALS), len(MONOMIALS))), VARIABLES.index(name)
    for row, monomial in enumerate(MONOMIALS):
        rest = (*monomial[:variable], 0, *monomial[variable + 1 :])
        matrix[row, PLACE[rest]] = moments[monomial[variable]]
    return matrix


def error_moments(values: Float[Array, " N"], count: int, *, replace: bool) -> Float[Array, "5"]:
    """Moments 0 to 4 of (N/n) sum_{i in the draw} d_i, where d_i = values_i - their mean.

    Without replacement, with s_k = sum_i d_i^k and P_k the probability that a draw contains k given
    data, sums over distinct data follow from s_1 = 0.
    """
    size = len(values)
    d = values - values.mean()
    s2, s3, s4 = ((d**k).sum() for k in (2, 3, 4))
    if replace:
        m2, m3, m4 = s2 / size, s3 / size, s4 / size
        second, third, fourth = count * np.array([m2, m3, m4 + 3 * (count - 1) * m2**2])
    else:
        ratios = [(count - k) / max(size - k, 1) for k in range(4)]
        P1, P2, P3, P4 = np.cumprod(np.maximum(ratios, 0.0))
        second, third = (P1 - P2) * s2, (P1 - 3 * P2 + 2 * P3) * s3
        fourth = (P1 - 7 * P2 + 12 * P3 - 6 * P4) * s4 + 3 * (P2 - 2 * P3 + P4) * s2**2
    return np.array([1.0, 0.0, second, third, fourth]) * (size / count) ** np.arange(5.0)


@dataclass(frozen=True, eq=False)
class Squares:
    """The recursion of the moments: one matrix for each step of the opening and of a cycle."""

    opening: list[Float[Array, "K K"]]
    steps: list[Float[Array, "K K"]]

    @property
    def length(self) -> int:
        return len(self.steps)

    @property
    def opening_length(self) -> int:
        return len(self.opening)

    def step(self, moments: Float[Array, " K"], l: int) -> Float[Array, " K"]:
        matrices = self.opening if l < len(self.opening) else self.steps
        return matrices[l % len(matrices)] @ moments

    def jump(self, moments: Float[Array, " K"], cycles: int) -> Float[Array, " K"]:
        return self._powers(moments, cycles)

    def reset(self, moments: Float[Array, " K"]) -> Float[Array, " K"]:
        return substitute(S={}) @ moments

    def read(self, moments: Float[Array, " K"]) -> tuple[Float[Array, "1"], Float[Array, "1"]]:
        """Mean and variance of S."""
        first = np.array([moments[PLACE[0, 0, 0, 0, 1]]])
        second = np.array([moments[PLACE[0, 0, 0, 0, 2]]])
        return first, second - first**2

    def start(self, position: float, temperature: float) -> Float[Array, " K"]:
        """The moments at a point, with p ~ N(0, T); all else is 0."""
        return np.array(
            [
                position**a * temperature ** (b / 2) * NORMAL[b] * (not any(rest))
                for a, b, *rest in MONOMIALS
            ]
        )

    def stationary(self) -> Float[Array, " K"]:
        """The moments that a cycle does not change; S = 0."""
        without_S = [place for place, monomial in enumerate(MONOMIALS) if monomial[-1] == 0]
        matrix = self._cycle[np.ix_(without_S, without_S)]
        moments = np.zeros(len(MONOMIALS))
        moments[without_S[0]] = 1.0
        moments[without_S[1:]] = np.linalg.solve(
            np.eye(len(without_S) - 1) - matrix[1:, 1:], matrix[1:, 0]
        )
        return moments

    @cached_property
    def _cycle(self) -> Float[Array, "K K"]:
        return reduce(np.matmul, self.steps[::-1])

    @cached_property
    def _powers(self) -> Powers:
        return Powers(self._cycle)


def squares(problem: LinearGaussian, sampler: Sampler) -> Squares:
    """The recursion of a sampler that `resolve` returned."""
    size, name = len(problem.targets), sampler.estimator.name
    draws = drawing(sampler, size)
    if problem.features.shape[1] != 1 or not has_equal_features(problem):
        _refuse(f"{name} on this problem", "its errors depend on the position")
    if name == "saga":
        _refuse(name, "its errors depend on past positions")
    if draws.error.is_sweep(size):
        _refuse(f"{name} with data drawn {draws.error.order!r}", "its errors depend on each other")

    (mean,), ((variance,),) = problem.posterior()
    values = problem.features[:, 0] * problem.targets / problem.noise_variance
    replace = draws.error.order == "with_replacement"
    draw = redraw("e", error_moments(values, draws.error.count, replace=replace))
    count = substitute(S=linear(S=1.0, x=2 * mean) | {(2, 0, 0, 0, 0): 1.0, ONE: -variance})
    dynamics = scheme(sampler.integrator, sampler.step_size)
    before = _flow(dynamics.before)

    def step(kick: Float[Array, " k"]) -> Float[Array, "K K"]:
        return count @ _flow(dynamics.after, kick, variance) @ before

    late = dynamics.late_kick
    opening = [step(dynamics.kick - late) @ draw] if late.any() else []
    same_error = step(dynamics.kick)
    repeats = draws.period - 1 if name == "practical" else 0
    return Squares(opening, [same_error @ draw] + [same_error] * repeats)


def _flow(
    flow: Flow, kick: Float[Array, " k"] | None = None, variance: float = 1.0
) -> Float[Array, "K K"]:
    """(x, p) <- matrix (x, p) + kick (e - x / v) + N(0, covariance); without momentum p is 0."""
    absent = (0, 2 - len(flow.matrix))
    matrix, noise = np.pad(flow.matrix, absent), np.pad(flow.covariance, absent)
    push = np.zeros(2) if kick is None else np.pad(kick, absent)
    matrix[:, 0] -= push / variance
    images = [linear(x=row[0], p=row[1], e=c) for row, c in zip(matrix, push, strict=True)]
    result = substitute(x=images[0], p=images[1])
    scales, directions = np.linalg.eigh(noise)
    for scale, (a, b) in zip(np.sqrt(np.maximum(scales, 0.0)), directions.T, strict=True):
        if scale > 0:
            shake = substitute(x=linear(x=1.0, w=scale * a), p=linear(p=1.0, w=scale * b))
            result = shake @ redraw("w", NORMAL) @ result
    return result


def _refuse(what: str, why: str) -> NoReturn:
    raise ValueError(
        f"{what} has no exact law for averages of squares: {why}. Exact fourth moments exist on "
        "the Gaussian mean model with independent draws, for full, minibatch, practical, svrg and "
        'control_variate; pass closure="gaussian" for an approximation'
    )
