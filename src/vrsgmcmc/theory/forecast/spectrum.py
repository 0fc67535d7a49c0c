"""How the error of a gradient estimate at one step goes with its error k steps later.

Write the covariance of the error k steps apart as V r(k), averaged over the phase, with r(0) = 1. A
linear filter with the impulse response mu^s turns such an error into the variance

    V / (1 - mu^2) * (1 + 2 mu f(mu)),    f(mu) = sum_{k >= 1} r(k) mu^(k-1)

and all that an order does to a chain is in f. At mu = 1 it is the noise at zero frequency, which is
what a chain of small steps feels: 1 + 2 f(1) is 1 for independent draws, m for an anchor's error
held over m steps, and 0 for sweeps, whose errors cancel.

    independent              r(k) = 0
    blocks of a permutation  r(k) = -rho (1 - k/R)+,    rho = n / (N - n),  R = N // n blocks
    there and back again     r(k) = -rho (1 - k/2R)+  and (1 + rho)/2R more for odd k < 2R
    held for m steps         r(k) = sum_j r_b(j) (1 - |k - jm|/m)+ with the blocks' own r_b
"""

from __future__ import annotations

from typing import Any

import numpy as np

Modes = Any  # decay factors mu, real or complex, |mu| <= 1

SWEEPS = ("shuffled", "symmetric")


def independent(mu: Modes) -> Modes:
    return np.zeros_like(mu)


def ordered(order: str, size: int, count: int, mu: Modes, memory: float | int = np.inf) -> Modes:
    """f of the error of `count` out of `size` data, drawn in this order at each step.

    `memory`: the error is a difference to an anchor, which changes every so many steps; errors of
    two anchors do not cancel, nor does one soon after a refresh cancel a later, larger one. With
    E(x_l - x~)(x_k - x~) as of a random walk that is (1 - k/m)^2, here a triangle of the same area.
    """
    if order not in SWEEPS or count >= size:
        return independent(mu)
    rho, blocks = count / (size - count), size // count
    length = blocks if order == "shuffled" else 2 * blocks
    alike = min(length, memory)
    cancelled = rho * _triangle(max(1, round(alike * (1 - alike / (3 * memory)))), mu)
    if order == "shuffled":
        return -cancelled
    back = max(0.0, 1 - blocks / memory) * (1 + rho) / (2 * blocks)
    return back * geometric(blocks, mu**2) - cancelled


def held(order: str, size: int, count: int, period: int, mu: Modes) -> Modes:
    """f of the error of an anchor of `count` out of `size` data, held for `period` steps."""
    later = ordered(order, size, count, mu**period)
    return _triangle(period, mu) + geometric(period, mu) ** 2 / period * later


def geometric(count: int, mu: Modes) -> Modes:
    """1 + mu + ... + mu^(count-1)."""
    near = np.abs(1 - mu) * count < 1e-5
    series = count * (1 - (count - 1) / 2 * (1 - mu))
    return np.where(near, series, (1 - mu**count) / np.where(near, 1.0, 1 - mu))


def _triangle(length: int, mu: Modes) -> Modes:
    """sum_{k >= 1} (1 - k/length)+ mu^(k-1)."""
    near = np.abs(1 - mu) * length < 1e-4
    rest = np.where(near, 1.0, 1 - mu)
    series = (length - 1) / 2 * (1 - (length - 2) / 3 * (1 - mu))
    return np.where(near, series, (1 - geometric(length, mu) / length) / rest)
