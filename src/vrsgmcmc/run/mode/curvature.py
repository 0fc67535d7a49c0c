"""Solve H s = g, and say whether H is positive: by Cholesky's factor, or by conjugate gradients.

A dense H is scaled to unit diagonal first, S^-1 H S^-1 = C C^T, so that parameters of any scales lose
no digits; then L = S^-1 C^-T has L L^T = H^-1. Where H is not positive, the step takes the sizes of its
eigenvalues, so that it climbs in every direction, and leaves a saddle.
"""

from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from .target import Matrix, Target, Vector

SINGULAR = (
    1e-14  # times d: an eigenvalue of a matrix with unit diagonal that float64 does not resolve
)
FLOOR = 1e-6  # of the sizes of eigenvalues where some are negative
MOST_PRODUCTS = 30  # of one solution by conjugate gradients
SMALL = 0.1  # the residual of a solution, of the gradient, in the preconditioner's norm


class Solution(NamedTuple):
    """s = H^-1 g."""

    step: Vector
    square: float  # g^T H^-1 g
    positive: bool  # H, as far as was looked


class Curvature(Protocol):
    """A model of H around a point."""

    def solve(self, gradient: Vector) -> Solution: ...


class Factor:
    """A positive matrix as S C C^T S, C lower triangular; `LinAlgError` if it is not positive."""

    def __init__(self, matrix: Matrix) -> None:
        self.scale = unit_scale(matrix)
        scaled = matrix / np.outer(self.scale, self.scale)
        self.lower = np.linalg.cholesky(scaled)
        if not np.min(np.diagonal(self.lower)) ** 2 > SINGULAR * len(scaled):
            raise np.linalg.LinAlgError("singular")

    def half_solve(self, vector: Vector) -> Vector:
        """C^-1 S^-1 v = L^T v: its square is v^T H^-1 v."""
        return solve_triangular(self.lower, vector / self.scale, lower=True)

    def solve(self, gradient: Vector) -> Solution:
        half = self.half_solve(gradient)
        step = solve_triangular(self.lower, half, lower=True, trans=1) / self.scale
        return Solution(step, float(half @ half), True)

    @property
    def root(self) -> Matrix:
        """L = S^-1 C^-T."""
        inverse = solve_triangular(self.lower, np.eye(len(self.scale)), lower=True)
        return inverse.T / self.scale[:, None]

    def flattest(self) -> Vector:
        """The direction of least curvature of the scaled matrix, one sd long: by inverse iteration."""
        u = np.random.default_rng(0).normal(size=len(self.scale))
        for _ in range(50):
            u = solve_triangular(self.lower, u / np.linalg.norm(u), lower=True)
            u = solve_triangular(self.lower, u, lower=True, trans=1)
        u = u / self.scale
        return u / np.sqrt(self.square(u))

    def square(self, vector: Vector) -> float:
        """v^T H v."""
        half = self.lower.T @ (vector * self.scale)
        return float(half @ half)


class Diagonal:
    """H = diag(values), values > 0."""

    def __init__(self, values: Vector) -> None:
        self.values = values

    def solve(self, gradient: Vector) -> Solution:
        step = gradient / self.values
        return Solution(step, float(gradient @ step), True)


class Indefinite:
    """A dense H that is not positive."""

    def __init__(self, matrix: Matrix) -> None:
        self.scale = unit_scale(matrix)
        scaled = matrix / np.outer(self.scale, self.scale)
        self.values, self.vectors = np.linalg.eigh(scaled)

    def solve(self, gradient: Vector) -> Solution:
        along = (gradient / self.scale) @ self.vectors
        sizes = np.maximum(np.abs(self.values), FLOOR)
        move, square = along / sizes, float(np.sum(along**2 / sizes))
        if self.values[0] < -FLOOR:  # away from a saddle, where the gradient does not say where to
            least = 1 / np.sqrt(sizes[0])
            move[0] = np.copysign(max(abs(move[0]), least), along[0])
            square += sizes[0] * move[0] ** 2
        return Solution(self.vectors @ move / self.scale, square, False)


class Products:
    """H of a target at x, by conjugate gradients (Steihaug) with a preconditioner."""

    def __init__(
        self,
        target: Target,
        x: Vector,
        preconditioner: Curvature,
        most: int = MOST_PRODUCTS,
        excess: Matrix | float = 0.0,
    ) -> None:
        self.target, self.x, self.preconditioner = target, x, preconditioner
        self.excess = excess if np.any(excess) else None  # a matrix to add to H
        self.most = min(most, MOST_PRODUCTS)

    def solve(self, gradient: Vector) -> Solution:
        step, residual = np.zeros_like(gradient), gradient.copy()
        direction, left, _ = self.preconditioner.solve(residual)
        enough, square = SMALL**2 * left, 0.0
        for _ in range(min(len(gradient) + 1, self.most)):
            if not enough < left < np.inf:
                break
            product = self.target.product(self.x, direction)
            if self.excess is not None:
                product = product + self.excess @ direction
            curvature = float(direction @ product)
            if not curvature > 0:
                away = direction * np.sqrt(left) / max(np.sqrt(abs(curvature)), 1e-300)
                long = step + (direction if curvature == 0 else away)
                return Solution(long, max(float(gradient @ long), 0.0), False)
            length = left / curvature
            step, square = step + length * direction, square + length * left
            residual = residual - length * product
            next_direction, after, _ = self.preconditioner.solve(residual)
            direction, left = next_direction + after / left * direction, after
        return Solution(step, square, True)


def dense(matrix: Matrix) -> Factor | Indefinite:
    try:
        return Factor(matrix)
    except np.linalg.LinAlgError:
        return Indefinite(matrix)


def unit_scale(matrix: Matrix) -> Vector:
    """Square roots of the diagonal's sizes; where that is zero, of the largest one."""
    diagonal = np.abs(np.diagonal(matrix))
    return np.sqrt(np.where(diagonal > 0, diagonal, diagonal.max(initial=0.0) or 1.0))
