"""Draws in parts: evenly spaced ones of the chains that stayed finite, from memory or from disk.

What walks over all draws takes one part after another, so its memory is that of a part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int, PyTree

from vrsgmcmc.core import nbytes, whole

from . import store
from .memory import check_memory

if TYPE_CHECKING:
    from .result import Result

PART_BYTES = 2**24  # of draws, all chains together
MOST_IN_PART = 1024  # draws of a chain


class Part(NamedTuple):
    """Which draws: the same ones of each of these chains."""

    chains: Int[np.ndarray, " chain"]
    draws: Int[np.ndarray, " draw"]

    @property
    def count(self) -> int:
        return self.chains.size * self.draws.size


@dataclass(frozen=True)
class StoredDraws:
    """The draws of a run directory: all when it is called, or some of every chain."""

    run: store.Run
    rebuild: Callable[[list[Any]], PyTree]  # of leaves
    what: str
    instead: str

    def __call__(self) -> PyTree:
        check_memory(self.nbytes, self.what, self.instead)
        return self.rebuild([np.asarray(leaf) for leaf in self.run.leaves.values()])

    @property
    def nbytes(self) -> int:
        leaves = self.run.leaves.values()
        return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)

    def take(self, draws: Int[np.ndarray, " draw"]) -> PyTree:
        """Leaves [chain, draw, ...]."""
        return self.rebuild([take(leaf, draws) for leaf in self.run.leaves.values()])


def take(stored: Any, draws: Int[np.ndarray, " draw"]) -> np.ndarray:
    """Some draws of a leaf on disk, in rising order: each of its chunks is read once."""
    shape = stored.shape[0], draws.size, *stored.shape[2:]
    result, done = np.empty(shape, stored.dtype), 0
    while done < draws.size:
        start, stop, block = stored.block(int(draws[done]))
        end = int(np.searchsorted(draws, stop))
        result[:, done:end] = block[:, draws[done:end] - start]
        done = end
    return result


def need_model(result: Result, where: str) -> None:
    """`ValueError` for a result that was read from disk without its model."""
    if result.context is None:
        again = "" if result.run_dir is None else f", run_dir={str(result.run_dir)!r}"
        raise ValueError(
            f"{where} needs the model and its data, and this result was read from disk without "
            f"them. Repeat the call that made it, vr.sample(key, posterior, data, init, ...{again}): "
            "a finished run is loaded, with its model."
        )


def chains_alive(result: Result) -> Int[np.ndarray, " chain"]:
    """The chains that stayed finite; `ValueError` where there is nothing to look at."""
    if not has_draws(result):
        raise ValueError(
            'no draws were kept (keep="averages"). result.averages holds the averages; run with '
            'keep="draws" for a table of draws.'
        )
    alive = np.flatnonzero(~result.diverged)
    if alive.size == 0:
        raise ValueError(
            "every chain became non-finite, so there is nothing to summarise. "
            + str(result.divergences[0])
        )
    return alive


def has_draws(result: Result) -> bool:
    return isinstance(result.load_draws, StoredDraws) or result.draws is not None


def on_disk(result: Result) -> StoredDraws | None:
    """Where the draws are, unless they are in memory."""
    loader = result.load_draws
    return loader if isinstance(loader, StoredDraws) and "draws" not in vars(result) else None


def select(result: Result, where: str, most: int | None) -> Part:
    """At most so many evenly spaced draws, of all chains that stayed finite together."""
    alive, length = chains_alive(result), result.draw_steps.size
    if length == 0:
        raise ValueError(f"{where}: the run has no draws yet. Take more num_steps or less burn_in.")
    most = alive.size * length if most is None else whole(where, "most", most)
    alive = alive[:most]
    count = min(length, most // alive.size)
    return Part(alive, (2 * np.arange(count) + 1) * length // (2 * count))


def one_draw(result: Result) -> PyTree:
    """The first draw of the first chain that stayed finite."""
    alive, first = chains_alive(result)[0], np.arange(min(1, result.draw_steps.size))
    if not first.size:
        select(result, "draws", None)  # says that there are none
    stored = on_disk(result)
    tree = result.draws if stored is None else stored.take(first)
    return jax.tree.map(lambda leaf: np.asarray(leaf[alive])[0], tree)


def part_length(result: Result, part: Part) -> int:
    """How many draws of each chain a part has: all parts have as many, but the last."""
    size = nbytes(one_draw(result)) * len(result.diverged)
    return int(min(part.draws.size, np.clip(PART_BYTES // max(1, size), 1, MOST_IN_PART)))


def parts(result: Result, part: Part) -> Iterator[tuple[slice, PyTree]]:
    """Draws after draws: their places in `part.draws`, and leaves [chain, draw, ...]."""
    stored, length = on_disk(result), part_length(result, part)
    for start in range(0, part.draws.size, length):
        draws = part.draws[start : start + length]
        tree = result.draws if stored is None else stored.take(draws)
        index = draws if stored is None else np.arange(draws.size)
        yield (
            slice(start, start + draws.size),
            jax.tree.map(lambda leaf, i=index: np.asarray(leaf)[np.ix_(part.chains, i)], tree),
        )
