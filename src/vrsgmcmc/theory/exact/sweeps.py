"""Which data a random affine map sees, in which order: independent draws and sweeps.

Independent draws, with or without replacement, give one averaged map. A sweep (shuffled, symmetric)
takes consecutive blocks of a uniformly random permutation, N // n of them, and drops the rest; a
symmetric sweep then uses the same blocks in reverse. Its maps depend on each other:

- Where the map's error does not depend on the state, only its second moments matter. With
  e_b = (N/n) sum_{i in block b} d_i and d_i the constant that sets datum i apart,

      Var e_b = N (N - n)/n S2(d),    Cov(e_b, e_b') = -N S2(d),

  so the errors of one sweep are coordinates of z, drawn when the sweep begins.
- Elsewhere nothing closes, and for a handful of data all permutations are spelled out.
"""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vrsgmcmc.theory.exact.affine import (
    MomentMap,
    RandomMap,
    Reshuffle,
    averaged,
    deterministic,
    weights,
)

Array = np.ndarray

ORDERS = ("with_replacement", "without_replacement", "shuffled", "symmetric")
SPELLED_OUT = 5  # the most data whose permutations are enumerated


class Draws(NamedTuple):
    """How many data, in which order; `axis` is where moments keep this stream's permutations."""

    count: int
    order: str
    axis: int

    def sweeps(self, size: int) -> bool:
        """Does one draw depend on another? A draw of all data does not."""
        return self.order in ("shuffled", "symmetric") and self.count < size


class Stream(NamedTuple):
    """The maps of one sweep, block after block, and what is drawn when a sweep begins."""

    begin: list[MomentMap]
    maps: list[RandomMap]


def stream(
    draws: Draws,
    *,
    fixed: Float[Array, "D D"],
    left: Float[Array, "2 D N"],
    right: Float[Array, "N D"],
    noise: Float[Array, "D D"],
    one: Float[Array, "1 D"],
    errors: Float[Array, "B D"],
    what: str,
) -> Stream:
    """The maps A = fixed + sum_i (c_i left_0i + r_i left_1i) right_i for these draws.

    `one` and `errors` select the coordinate 1 and those of the sweep's errors.
    """
    size = right.shape[0]
    if not draws.sweeps(size):
        replace = draws.order == "with_replacement"
        return Stream(
            [], [averaged(fixed, left, right, noise, weights(size, draws.count, replace=replace))]
        )

    visits = list(range(size // draws.count))
    visits += visits[::-1] if draws.order == "symmetric" else []
    apart = right - right[0]
    apart[np.abs(apart) < 1e-12 * np.abs(right).max()] = 0.0  # equal data, up to rounding
    alike = np.all(left[0] == left[0, :, :1]) and not left[1].any()
    if alike and np.all(apart @ (np.eye(len(fixed)) - one.T @ one) == 0):
        mean = fixed + left[0] @ right
        if not apart.any():
            return Stream([], [deterministic(mean, noise)])
        maps = [deterministic(mean + np.outer(left[0, :, 0], errors[b]), noise) for b in visits]
        forget = np.eye(len(fixed)) - errors.T @ errors
        drawn = block_covariance(np.ravel(apart @ one.T), draws.count)
        return Stream([deterministic(forget, errors.T @ drawn @ errors)], maps)

    if size > SPELLED_OUT:
        raise ValueError(
            f"{what} has no closed law on this problem: its errors depend on the position and on "
            "each other. Use 'without_replacement' or 'with_replacement', or at most "
            f"{SPELLED_OUT} data (got {size}), whose permutations can all be spelled out"
        )
    used = np.array(list(permutations(range(size))))[:, : size // draws.count * draws.count]
    blocks = np.sort(used.reshape(len(used), -1, draws.count))
    blocks = np.unique(blocks, axis=0)  # each sequence of blocks comes equally often
    maps = []
    for b in visits:
        drawn = (blocks[:, b, :, None] == np.arange(size)).sum(1)  # [sequences, N]
        mean = np.einsum("pi,ai,ib->pab", size / draws.count * drawn, left[0], right)
        mean = fixed + mean + np.einsum("pi,ai,ib->pab", drawn, left[1], right)
        maps.append(deterministic(np.expand_dims(mean, -3 if draws.axis == -4 else -4), noise))
    return Stream([Reshuffle(draws.axis)], maps)


def block_covariance(apart: Float[Array, " N"], count: int) -> Float[Array, "B B"]:
    """Covariance of (N/n) sum_{i in block} apart_i over the blocks of a random permutation."""
    size, spread = len(apart), np.var(apart, ddof=1)
    blocks = size // count
    return size * spread * (size / count * np.eye(blocks) - np.ones((blocks, blocks)))
