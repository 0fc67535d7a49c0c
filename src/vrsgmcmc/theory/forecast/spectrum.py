"""The correlation of the error of a gradient estimate with its error k steps later.

Write the covariance of the error k steps apart as V r(k), averaged over the phase, with r(0) = 1. A
linear filter with the impulse response mu^s turns such an error into the variance

    V / (1 - mu^2) * (1 + 2 mu f(mu)),    f(mu) = sum_{k >= 1} r(k) mu^(k-1)

so f is the whole effect of an order on a chain. At mu = 1 it gives the noise at zero frequency, the
effect on a chain of small steps: 1 + 2 f(1) is 1 for independent draws, m for an anchor's error
that stays for m steps, and 0 for sweeps, whose errors cancel.

    independent draws        r(k) = 0
    blocks of a permutation  r(k) = -rho (1 - k/R)+,    rho = n / (N - n),  R = N // n blocks
    forward and backward     r(k) = -rho (1 - k/2R)+  and (1 + rho)/2R more for odd k < 2R
    constant for m steps     r(k) = sum_j r_b(j) (1 - |k - jm|/m)+ with the blocks' own r_b
"""

from typing import Any

import numpy as np

from ..exact.draws import SWEEPS

Modes = Any  # decay factors mu, real or complex, |mu| <= 1


def draw_correlation(
    order: str, size: int, count: int, mu: Modes, memory: float | int = np.inf
) -> Modes:
    """f of the error of `count` out of `size` data, drawn in this order at each step.

    `memory`: the error is a difference to an anchor, which changes every `memory` steps. Errors of
    two anchors do not cancel, nor does one soon after a refresh cancel a later, larger one. With
    E(x_l - x~)(x_k - x~) as of a random walk that is (1 - k/m)^2, here a triangle of the same area.
    """
    if order not in SWEEPS or count >= size:
        return np.zeros_like(mu)
    rho, blocks = count / (size - count), size // count
    length = min(blocks if order == "shuffled" else 2 * blocks, memory)
    area = max(1, round(length * (1 - length / (3 * memory))))
    cancellation = rho * _triangle_sum(area, mu)
    if order == "shuffled":
        return -cancellation
    repetition = max(0.0, 1 - blocks / memory) * (1 + rho) / (2 * blocks)
    return repetition * geometric_sum(blocks, mu**2) - cancellation


def anchor_correlation(order: str, size: int, count: int, period: int, mu: Modes) -> Modes:
    """f of the error of an anchor on `count` out of `size` data, constant for `period` steps."""
    later = draw_correlation(order, size, count, mu**period)
    return _triangle_sum(period, mu) + geometric_sum(period, mu) ** 2 / period * later


def geometric_sum(count: int, mu: Modes) -> Modes:
    """1 + mu + ... + mu^(count-1)."""
    near = np.abs(1 - mu) * count < 1e-5
    series = count * (1 - (count - 1) / 2 * (1 - mu))
    return np.where(near, series, (1 - mu**count) / np.where(near, 1.0, 1 - mu))


def _triangle_sum(length: int, mu: Modes) -> Modes:
    """sum_{k >= 1} (1 - k/length)+ mu^(k-1)."""
    near = np.abs(1 - mu) * length < 1e-4
    rest = np.where(near, 1.0, 1 - mu)
    series = (length - 1) / 2 * (1 - (length - 2) / 3 * (1 - mu))
    return np.where(near, series, (1 - geometric_sum(length, mu) / length) / rest)
