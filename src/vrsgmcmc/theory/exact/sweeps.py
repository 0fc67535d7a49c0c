"""The random affine maps of a stream of draws: independent draws and sweeps.

Independent draws, with or without replacement, give one average map. A sweep (shuffled, symmetric)
takes consecutive blocks of a uniformly random permutation, N // n of them, and drops the rest; a
symmetric sweep then uses the same blocks in reverse. Its maps depend on each other:

- Where the map's error does not depend on the state, only its second moments matter. With
  e_b = (N/n) sum_{i in block b} d_i and d_i the constant by which datum i differs,

      Var e_b = N (N - n)/n S2(d),    Cov(e_b, e_b') = -N S2(d),

  so the errors of one sweep are coordinates of z, drawn when the sweep begins.
- Elsewhere there is no closed form, and for a few data all permutations are enumerated.
"""

from itertools import permutations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from . import affine
from .affine import AffineMap, Array, MomentMap, RandomMap, Reshuffle, deterministic_map
from .draws import Draws

Select = dict[str, Float[Array, "_ D"]]  # select["x"] @ z is x

MOST_DATA = 5  # whose permutations are enumerated


class Stream(NamedTuple):
    """The maps of one sweep, block after block, and the maps that begin a sweep."""

    begin: list[MomentMap]
    maps: list[RandomMap]

    def visit(self, number: int) -> list[MomentMap]:
        """The maps of visit 0, 1, 2, ... of a run."""
        block = number % len(self.maps)
        return [*(self.begin if block == 0 else []), self.maps[block]]


def stream(draws: Draws, affine_map: AffineMap, z: Select, label: str) -> Stream:
    """An affine map as a stream of these draws; `label` names it in an error."""
    fixed, left, right, noise = affine_map
    size, one, errors = len(right), z["one"], z["errors"]
    if not draws.is_sweep(size):
        chances = affine.weights(size, draws.count, replace=draws.order == "with_replacement")
        return Stream([], [affine.average_map(affine_map, chances)])

    visits = list(range(size // draws.count))
    visits += visits[::-1] if draws.order == "symmetric" else []
    offsets = right - right[0]
    offsets[np.abs(offsets) < 1e-12 * np.abs(right).max()] = 0.0  # equal data, up to rounding
    same_left = np.all(left[0] == left[0, :, :1]) and not left[1].any()
    if same_left and np.all(offsets @ (np.eye(len(fixed)) - one.T @ one) == 0):
        mean = fixed + left[0] @ right
        if not offsets.any():
            return Stream([], [deterministic_map(mean, noise)])
        maps = [deterministic_map(mean + np.outer(left[0, :, 0], errors[b]), noise) for b in visits]
        forget = np.eye(len(fixed)) - errors.T @ errors
        spread, blocks = np.var(offsets @ one.T, ddof=1), size // draws.count
        covariance = size * spread * (size / draws.count * np.eye(blocks) - 1)
        return Stream([deterministic_map(forget, errors.T @ covariance @ errors)], maps)

    if size > MOST_DATA:
        raise ValueError(
            f"{label} has no closed law on this problem: its errors depend on the position and on "
            "each other. Use 'without_replacement' or 'with_replacement', or at most "
            f"{MOST_DATA} data (got {size}), whose permutations can all be spelled out"
        )
    orders = np.array(list(permutations(range(size))))[:, : size // draws.count * draws.count]
    blocks = np.sort(orders.reshape(len(orders), -1, draws.count))
    blocks = np.unique(blocks, axis=0)  # each sequence of blocks comes equally often
    maps = []
    for b in visits:
        counts = (blocks[:, b, :, None] == np.arange(size)).sum(1)  # [sequences, N]
        mean = np.einsum("pi,ai,ib->pab", size / draws.count * counts, left[0], right)
        mean = fixed + mean + np.einsum("pi,ai,ib->pab", counts, left[1], right)
        mean = np.expand_dims(mean, -3 if draws.axis == -4 else -4)
        maps.append(deterministic_map(mean, noise))
    return Stream([Reshuffle(draws.axis)], maps)
