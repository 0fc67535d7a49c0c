"""Second moments of random affine maps, exactly.

A step of stochastic gradient MCMC on a linear-Gaussian problem is affine given its minibatch. Write
the state in homogeneous coordinates, z = (..., 1), so that affine is linear. One map is then

    z' = A z + xi,    A = fixed + sum_i (c_i u_i + r_i v_i) w_i^T,    xi ~ N(0, Q)

with c_i = (N/n) * (how often datum i was drawn) and r_i = 1 if it was drawn at all. With the
weights a = (c, r) and the columns U = (u, v) the second moments M = E[z z^T] obey

    M' = E[A] M E[A]^T + Q + sum_kl sum_ij Cov(a_ki, a_lj) U_ki (w_i^T M w_j) U_lj^T

and, the data being exchangeable, Cov(a_ki, a_lj) = common_kl + spread_kl [i = j]. The mean is the
column of M that belongs to the coordinate 1. Nothing is approximated: the stationary law is the
solution of a linear equation.

Where draws depend on each other, M is conditional on the current permutations. It has the shape
[..., permutations of the anchors, permutations of the minibatches, D, D], mostly with lengths 1.

`carry` selects the coordinates that a cycle takes over from the cycle before; it overwrites all
others before it reads them. The last row of `carry` is the coordinate 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray


class AffineMap(NamedTuple):
    """z' = A z + xi, A = fixed + sum_i (c_i left_0i + r_i left_1i) right_i, for any draw."""

    fixed: Float[Array, "D D"]
    left: Float[Array, "2 D N"]  # u_i and v_i
    right: Float[Array, "N D"]  # w_i
    noise: Float[Array, "D D"]  # Q


class Weights(NamedTuple):
    """Mean and covariance of a_i = (c_i, r_i): Cov(a_i, a_j) = common + spread [i = j]."""

    mean: Float[Array, "2"]
    spread: Float[Array, "2 2"]
    common: Float[Array, "2 2"]


def weights(size: int, draws: int, *, replace: bool) -> Weights:
    """The weights of `draws` data out of `size`, drawn uniformly with or without replacement."""
    if draws == size and not replace:
        return Weights(np.ones(2), np.zeros((2, 2)), np.zeros((2, 2)))
    each = draws / size
    if replace:
        absent = (1 - 1 / size) ** draws
        both_absent = (1 - 2 / size) ** draws
        squared = draws * (draws - 1) / size**2
        cross = each - absent * draws / max(size - 1, 1)  # E[count_i r_j], i != j
        mean = np.array([each, 1 - absent])
        same = np.array([[each + squared, each], [each, 1 - absent]])
        pair = np.array([[squared, cross], [cross, 1 - 2 * absent + both_absent]])
    else:
        mean = np.full(2, each)
        same = np.full((2, 2), each)
        pair = np.full((2, 2), draws * (draws - 1) / (size * (size - 1)))
    scale = np.array([size / draws, 1.0])
    square = np.outer(scale, scale)
    return Weights(scale * mean, square * (same - pair), square * (pair - np.outer(mean, mean)))


@dataclass(frozen=True, eq=False)
class RandomMap:
    """z' = A z + xi: the parts of E[A M A^T] + Q."""

    mean: Float[Array, "*permutations D D"]  # E[A], for each permutation if A depends on it
    noise: Float[Array, "D D"]  # Q
    right: Float[Array, "N D"]  # w_i
    outer: Float[Array, "N D D"]  # sum_kl spread_kl U_ki U_li^T
    sums: Float[Array, "K D D"]  # sum_i U_ki w_i^T
    common: Float[Array, "K K"]

    def apply_linear(self, moment: Float[Array, "*b D D"]) -> Float[Array, "*c D D"]:
        """E[A M A^T], without the noise Q."""
        result = self.apply_mean(moment)
        result[..., :, self._active] = result @ np.swapaxes(self._rows, -1, -2)  # E[A] M E[A]^T
        if len(self.right):
            squares = np.einsum("...ia,ia->...i", self.right @ moment, self.right)  # w_i^T M w_i
            result += np.tensordot(squares, self.outer, axes=1)
        for k, row in enumerate(self.common):
            for j, covariance in enumerate(row):
                result += covariance * (self.sums[k] @ moment @ self.sums[j].T)
        return result

    def __call__(self, moment: Float[Array, "*b D D"]) -> Float[Array, "*c D D"]:
        return self.apply_linear(moment) + self.noise

    def apply_mean(self, columns: Float[Array, "*b D r"]) -> Float[Array, "*c D r"]:
        """E[z' y^T] from the columns E[z y^T], for any y of the past."""
        shared = np.broadcast_shapes(self.mean.shape[:-2], columns.shape[:-2])
        result = np.broadcast_to(columns, shared + columns.shape[-2:]).copy()
        result[..., self._active, :] = self._rows @ columns
        return result

    @cached_property
    def _active(self) -> Int[Array, " rows"]:
        """The rows in which E[A] is not the identity. They are few: only they are multiplied."""
        size = self.mean.shape[-1]
        return np.flatnonzero((self.mean != np.eye(size)).any(-1).reshape(-1, size).any(0))

    @cached_property
    def _rows(self) -> Float[Array, "*permutations rows D"]:
        return self.mean[..., self._active, :]


@dataclass(frozen=True)
class Reshuffle:
    """A new permutation, independent of the past: the mean of the moments over the old ones."""

    axis: int

    def apply_linear(self, moment: Float[Array, "*b D r"]) -> Float[Array, "*c D r"]:
        return moment.mean(self.axis, keepdims=True)

    __call__ = apply_mean = apply_linear


MomentMap: TypeAlias = RandomMap | Reshuffle


def deterministic_map(mean: Float[Array, "*p D D"], noise: Float[Array, "D D"]) -> RandomMap:
    """z' = mean z + xi: A is not random."""
    size = mean.shape[-1]
    empty = np.zeros((0, size, size))
    return RandomMap(mean, noise, empty[:, :, 0], empty, empty, np.zeros((0, 0)))


def average_map(affine: AffineMap, weights: Weights) -> RandomMap:
    """The moments of an affine map over the draws."""
    fixed, left, right, noise = affine
    sums = left @ right
    mean = fixed + np.einsum("k,kab->ab", weights.mean, sums)
    outer = np.einsum("kl,kai,lbi->iab", weights.spread, left, left, optimize=True)
    return RandomMap(mean, noise, right, outer, sums, weights.common)


def pack(moment: Float[Array, "*b p q D D"], carry: Float[Array, "C D"]) -> Float[Array, "*b K"]:
    """The second moments between two cycles: an upper triangle, whose last is E[1 * 1] = 1."""
    inner = carry @ moment.mean((-4, -3)) @ carry.T
    return inner[..., *np.triu_indices(len(carry))]


def unpack(
    triangle: Float[Array, "*b K"], carry: Float[Array, "C D"]
) -> Float[Array, "*b 1 1 D D"]:
    """The moments of z between two cycles, where they depend on no permutation."""
    row, column = np.triu_indices(len(carry))
    inner = np.zeros((*triangle.shape[:-1], len(carry), len(carry)))
    inner[..., row, column] = inner[..., column, row] = triangle
    return (carry.T @ inner @ carry)[..., None, None, :, :]


def unit_moments(carry: Float[Array, "C D"]) -> Float[Array, "K 1 1 D D"]:
    return unpack(np.eye(len(carry) * (len(carry) + 1) // 2), carry)


def advance(each: MomentMap, units: Float[Array, "K p q D D"]) -> Float[Array, "K _ _ D D"]:
    """Apply a map to unit moments; its noise is added to the last, which is E[1 * 1]."""
    return np.concatenate([each.apply_linear(units[:-1]), each(units[-1:])])


def cycle_matrix(maps: Sequence[MomentMap], carry: Float[Array, "C D"]) -> Float[Array, "K K"]:
    """The matrix by which a cycle of maps multiplies the packed moments."""
    units = unit_moments(carry)
    for each in maps:
        units = advance(each, units)
    return pack(units, carry).T


def fixed_point(maps: Sequence[MomentMap], carry: Float[Array, "C D"]) -> Float[Array, "1 1 D D"]:
    """The second moments, before the first map, of a chain that repeats `maps` for ever.

    On the packed moments a cycle is a linear operator L plus a source: one linear equation. The
    chain is stable if and only if X = L X + 1 has a positive definite solution: such an X bounds
    the sum of all L^k 1. This is one more right-hand side of the same equation.
    """
    matrix = cycle_matrix(maps, carry)
    operator, source = matrix[:-1, :-1], matrix[:-1, -1]
    identity = pack((carry.T @ carry)[None, None], carry)[:-1]
    try:
        solution, bound = np.linalg.solve(
            np.eye(len(operator)) - operator, np.stack([source, identity], axis=1)
        ).T
        bound = carry @ unpack(np.append(bound, 1.0), carry)[0, 0] @ carry.T
        bound = np.linalg.eigvalsh(bound[:-1, :-1])
        stable = bool(bound[0] > 0.5 and bound[-1] < 1e12)  # 1 <= X < infinity, up to rounding
    except np.linalg.LinAlgError:
        solution, stable = source, False
    if not stable:
        raise ValueError(
            "the chain has no stationary law: its second moments grow without bound; "
            "take a smaller step_size and a positive friction"
        )
    return unpack(np.append(solution, 1.0), carry)


class Powers:
    """matrix^k vector for large k, by repeated squaring; it stores the squares for the next k."""

    def __init__(self, matrix: Float[Array, "K K"]):
        self._squares = [matrix]

    def __call__(self, vector: Float[Array, " K"], k: int) -> Float[Array, " K"]:
        for bit in range(k.bit_length()):
            if bit == len(self._squares):
                self._squares.append(self._squares[-1] @ self._squares[-1])
            if k >> bit & 1:
                vector = self._squares[bit] @ vector
        return vector
