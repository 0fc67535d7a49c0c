"""The scalars of the draws by the names that `Result.summary` has for them: `layer.weight[0, 1]`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int, PyTree

from vrsgmcmc.core import did_you_mean, distinct, named_leaves

from .parts import Part, one_draw, parts, select

if TYPE_CHECKING:
    from .result import Result

COLUMNS = ("chain", "draw")


def variables(tree: PyTree) -> list[tuple[str, Any]]:
    """The leaves by their names in a table, where `chain` and `draw` are taken."""
    names, leaves = zip(*named_leaves(tree), strict=True)
    names = distinct([name.replace("/", "_") for name in names], COLUMNS)
    return list(zip(names, leaves, strict=True))


def labels(name: str, shape: tuple[int, ...], numbers: Iterable[int]) -> Iterator[str]:
    """The names of some scalars of a leaf."""
    for number in numbers:
        index = np.unravel_index(number, shape) if shape else ()
        yield f"{name}[{', '.join(map(str, index))}]" if shape else name


@dataclass(frozen=True)
class Scalars:
    """Some scalars of the draws of the chains that stayed finite; `values` reads them."""

    result: Result
    part: Part
    places: tuple[tuple[int, np.ndarray], ...]  # a leaf, and scalars of it
    names: tuple[str, ...]
    total: int  # scalars that the model has

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def chains(self) -> Int[np.ndarray, " chain"]:
        return self.part.chains

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.part.chains.size, self.part.draws.size, self.count

    @property
    def note(self) -> str:
        """What is not among them; empty: nothing."""
        return f"{self.count} of {self.total:,} parameters" if self.count < self.total else ""

    def values(self) -> Float[np.ndarray, "chain draw d"]:
        """Read part by part, so that what is not chosen is never in memory as a whole."""
        values = np.empty(self.shape)
        for where, tree in parts(self.result, self.part):
            leaves = [leaf for _, leaf in variables(tree)]
            columns = [
                np.asarray(leaves[leaf]).reshape(*leaves[leaf].shape[:2], -1)[..., numbers]
                for leaf, numbers in self.places
            ]
            values[:, where] = np.concatenate(columns, axis=-1, dtype=np.float64)
        return values


def scalars(
    result: Result, where: str, names: str | Sequence[str] | None = None, first: int | None = None
) -> Scalars:
    """The scalars with these names, or of the leaves with these names; None: the `first` ones."""
    leaves = [(name, leaf.shape) for name, leaf in variables(one_draw(result))]
    sizes = [math.prod(shape) for _, shape in leaves]
    total = sum(sizes)
    if names is None:
        before = np.cumsum([0, *sizes[:-1]])
        left = np.clip((total if first is None else first) - before, 0, sizes)
        places = tuple((leaf, np.arange(count)) for leaf, count in enumerate(left) if count)
    else:
        choice = [names] if isinstance(names, str) else list(names)
        places = tuple(find(where, leaves, name) for name in choice)
    chosen = [
        label
        for leaf, numbers in places
        for label in labels(leaves[leaf][0], leaves[leaf][1], numbers)
    ]
    if not chosen:
        raise ValueError(f"{where}: no parameter is chosen. The model has {total:,} scalars.")
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"{where}(names={names!r}): names choose a parameter twice.")
    return Scalars(result, select(result, where, None), places, tuple(chosen), total)


def find(where: str, leaves: Sequence[tuple[str, tuple[int, ...]]], name: str) -> Any:
    """The leaf and the scalars in it that have this name."""
    for number, (leaf, shape) in enumerate(leaves):
        if name == leaf:
            return number, np.arange(math.prod(shape))
        if shape and isinstance(name, str) and name.startswith(f"{leaf}[") and name.endswith("]"):
            words = name[len(leaf) + 1 : -1].split(",")
            index = [int(word) if word.strip().isdigit() else -1 for word in words]
            if len(index) == len(shape) and all(
                0 <= i < n for i, n in zip(index, shape, strict=True)
            ):
                return number, np.array([np.ravel_multi_index(index, shape)])
    has = ", ".join(f"{leaf}{list(shape) if shape else ''}" for leaf, shape in leaves[:20])
    more = ", ..." if len(leaves) > 20 else ""
    hint = did_you_mean(str(name), [leaf for leaf, _ in leaves])
    raise ValueError(f"{where}(names=...): there is no parameter {name!r} in {has}{more}.{hint}")
