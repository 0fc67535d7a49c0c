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

Where draws depend on each other, moments are kept given the permutations in force: M has the shape
[..., permutations of the anchors, permutations of the minibatches, D, D], mostly with lengths 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray


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
    """z' = A z + xi: what E[A M A^T] + Q needs to know about A and xi."""

    mean: Float[Array, "*permutations D D"]  # E[A], given the permutations if A depends on them
    noise: Float[Array, "D D"]  # Q
    right: Float[Array, "N D"]  # w_i
    outer: Float[Array, "N D D"]  # sum_kl spread_kl U_ki U_li^T
    sums: Float[Array, "K D D"]  # sum_i U_ki w_i^T
    common: Float[Array, "K K"]

    def linear(self, moment: Float[Array, "*b D D"]) -> Float[Array, "*c D D"]:
        result = self.expected(moment)
        result[..., :, self._moved] = result @ np.swapaxes(self._rows, -1, -2)  # E[A] M E[A]^T
        if len(self.right):
            squares = np.einsum("...ia,ia->...i", self.right @ moment, self.right)  # w_i^T M w_i
            result += np.tensordot(squares, self.outer, axes=1)
        for k, row in enumerate(self.common):
            for j, covariance in enumerate(row):
                result += covariance * (self.sums[k] @ moment @ self.sums[j].T)
        return result

    def __call__(self, moment: Float[Array, "*b D D"]) -> Float[Array, "*c D D"]:
        result = self.linear(moment)
        result += self.noise
        return result

    def expected(self, columns: Float[Array, "*b D r"]) -> Float[Array, "*c D r"]:
        """E[z' y^T] from the columns E[z y^T], for any y of the past."""
        shared = np.broadcast_shapes(self.mean.shape[:-2], columns.shape[:-2])
        result = np.broadcast_to(columns, shared + columns.shape[-2:]).copy()
        result[..., self._moved, :] = self._rows @ columns
        return result

    @cached_property
    def _moved(self) -> Int[Array, " rows"]:
        """The rows in which E[A] is not the identity: few, so products are made of them alone."""
        size = self.mean.shape[-1]
        differs = (self.mean != np.eye(size)).any(-1).reshape(-1, size).any(0)
        return np.flatnonzero(differs)

    @cached_property
    def _rows(self) -> Float[Array, "*permutations rows D"]:
        return self.mean[..., self._moved, :]


@dataclass(frozen=True)
class Reshuffle:
    """A new permutation, independent of the past: moments given the old one are averaged."""

    axis: int

    def linear(self, moment: Float[Array, "*b D r"]) -> Float[Array, "*c D r"]:
        return moment.mean(self.axis, keepdims=True)

    __call__ = expected = linear


MomentMap: TypeAlias = RandomMap | Reshuffle


def deterministic(mean: Float[Array, "*p D D"], noise: Float[Array, "D D"]) -> RandomMap:
    """z' = mean z + xi: nothing is drawn but xi."""
    size = mean.shape[-1]
    none = np.zeros((0, size, size))
    return RandomMap(mean, noise, none[:, :, 0], none, none, np.zeros((0, 0)))


def averaged(
    fixed: Float[Array, "D D"],
    left: Float[Array, "2 D N"],
    right: Float[Array, "N D"],
    noise: Float[Array, "D D"],
    drawn: Weights,
) -> RandomMap:
    """A = fixed + sum_i (c_i left_0i + r_i left_1i) right_i, averaged over the draws."""
    sums = left @ right
    mean = fixed + np.einsum("k,kab->ab", drawn.mean, sums)
    outer = np.einsum("kl,kai,lbi->iab", drawn.spread, left, left, optimize=True)
    return RandomMap(mean, noise, right, outer, sums, drawn.common)


def pack(moment: Float[Array, "*b p q D D"], carried: Float[Array, "C D"]) -> Float[Array, "*b K"]:
    """The second moments between two cycles: the upper triangle of a symmetric matrix.

    `carried` selects the coordinates that a cycle takes over from the one before (all others are
    overwritten before they are read); its last row is the coordinate 1, so E[1 * 1] = 1 is last.
    """
    inner = carried @ moment.mean((-4, -3)) @ carried.T
    return inner[..., *np.triu_indices(len(carried))]


def unpack(
    packed: Float[Array, "*b K"], carried: Float[Array, "C D"]
) -> Float[Array, "*b 1 1 D D"]:
    """The moments of z; no permutation is in force between two cycles."""
    row, column = np.triu_indices(len(carried))
    inner = np.zeros((*packed.shape[:-1], len(carried), len(carried)))
    inner[..., row, column] = inner[..., column, row] = packed
    return (carried.T @ inner @ carried)[..., None, None, :, :]


def unit_moments(carried: Float[Array, "C D"]) -> Float[Array, "K 1 1 D D"]:
    return unpack(np.eye(len(carried) * (len(carried) + 1) // 2), carried)


def advance(each: MomentMap, units: Float[Array, "K p q D D"]) -> Float[Array, "K _ _ D D"]:
    """A map applied to unit moments; its noise comes with the last, which is E[1 * 1]."""
    return np.concatenate([each.linear(units[:-1]), each(units[-1:])])


def cycle_matrix(maps: Sequence[MomentMap], carried: Float[Array, "C D"]) -> Float[Array, "K K"]:
    """What a cycle of maps does to the packed moments."""
    units = unit_moments(carried)
    for each in maps:
        units = advance(each, units)
    return pack(units, carried).T


def fixed_point(maps: Sequence[MomentMap], carried: Float[Array, "C D"]) -> Float[Array, "D D"]:
    """The second moments, before the first map, of a chain that repeats `maps` for ever.

    On the packed moments a cycle is a linear operator L plus a source: one linear equation. The
    chain is stable if and only if X = L X + 1 has a positive definite solution: such an X bounds
    the sum of all L^k 1. So knowing it costs one more right-hand side.
    """
    matrix = cycle_matrix(maps, carried)
    operator, source = matrix[:-1, :-1], matrix[:-1, -1]
    identity = pack((carried.T @ carried)[None, None], carried)[:-1]
    try:
        solution, bound = np.linalg.solve(
            np.eye(len(operator)) - operator, np.stack([source, identity], axis=1)
        ).T
        bound = carried @ unpack(np.append(bound, 1.0), carried)[0, 0] @ carried.T
        bound = np.linalg.eigvalsh(bound[:-1, :-1])
        stable = bool(bound[0] > 0.5 and bound[-1] < 1e12)  # 1 <= X < infinity, up to rounding
    except np.linalg.LinAlgError:
        solution, stable = source, False
    if not stable:
        raise ValueError(
            "the chain has no stationary law: its second moments grow without bound; "
            "take a smaller step_size and a positive friction"
        )
    return unpack(np.append(solution, 1.0), carried)[0, 0]


class Powers:
    """matrix^k vector for large k, by repeated squaring; the squares are kept for the next k."""

    def __init__(self, matrix: Float[Array, "K K"]):
        self._squares = [matrix]

    def __call__(self, vector: Float[Array, " K"], k: int) -> Float[Array, " K"]:
        for bit in range(k.bit_length()):
            if bit == len(self._squares):
                self._squares.append(self._squares[-1] @ self._squares[-1])
            if k >> bit & 1:
                vector = self._squares[bit] @ vector
        return vector
