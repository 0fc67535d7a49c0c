"""The scalars of a run that a page shows, with their names and numbers."""

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int, PyTree

from vrsgmcmc.core import named_leaves
from vrsgmcmc.run import Result

MOST_SCALARS = 50
FEWEST_DRAWS = 4  # of a chain: what R-hat of half chains needs
COLUMNS = ("mean", "sd", "mcse_mean", "ess_bulk", "ess_tail", "r_hat")

Names: TypeAlias = Sequence[str] | Mapping[str, Sequence[str]] | None


class Summary(NamedTuple):
    """Scalars of the chains that stayed finite."""

    names: list[str]
    total: int  # scalars that the model has; more than are named, for a large one
    chains: Int[np.ndarray, " chain"]
    draws: Float[np.ndarray, "chain draw d"]
    numbers: dict[str, Float[np.ndarray, " d"]]  # a column of COLUMNS -> its numbers


def summarise(result: Result, names: Names = None) -> Summary | None:
    """The summary; None with too few draws, or if every chain became non-finite."""
    alive = np.flatnonzero(~result.diverged)
    if result.draws is None or alive.size == 0 or result.draw_steps.size < FEWEST_DRAWS:
        return None
    labels, draws, total = pick(result.draws, leading=2, names=names)
    with warnings.catch_warnings():  # a constant parameter, or more chains than draws, gives NaN
        warnings.simplefilter("ignore")
        table = result.with_draws(draws).summary()
    numbers = {column: table[column].to_numpy(np.float64) for column in COLUMNS}
    return Summary(labels, total, alive, draws[alive], numbers)


def pick(
    tree: PyTree, *, leading: int, names: Names = None, most: int = MOST_SCALARS
) -> tuple[list[str], np.ndarray, int]:
    """At most `most` scalars behind `leading` axes, evenly from every leaf.

    Returns their names, their values [..., d], and how many scalars there are in all.
    """
    leaves = named_leaves(tree)
    shapes = [leaf.shape[leading:] for _, leaf in leaves]
    total = sum(int(np.prod(shape)) for shape in shapes)
    names_of = check_names(names, dict(zip((name for name, _ in leaves), shapes, strict=True)))
    labels, values = [], []
    for (name, leaf), shape, share in zip(leaves, shapes, shares(shapes, most), strict=True):
        numbers = np.linspace(0, max(0, np.prod(shape) - 1), share).round().astype(int)
        place = np.unravel_index(numbers, shape or (1,))
        rows = leaf if shape else leaf[..., None]
        values.append(np.asarray(rows[(*[slice(None)] * leading, *place)], np.float64))
        for number, index in zip(numbers, zip(*place, strict=True), strict=True):
            own = f"{name}[{', '.join(map(str, index))}]" if shape else name
            labels.append(str(names_of[name][number]) if name in names_of else own)
    return labels, np.concatenate(values, axis=-1), total


def shares(shapes: Sequence[tuple[int, ...]], most: int) -> list[int]:
    """The number of scalars from each leaf: all of a small one, an even share of the others."""
    sizes, left = [int(np.prod(shape)) for shape in shapes], most
    counts = [0] * len(sizes)
    for place, leaf in enumerate(np.argsort(sizes, kind="stable")):
        counts[leaf] = min(sizes[leaf], left // (len(sizes) - place) or min(1, left))
        left -= counts[leaf]
    return counts


def check_names(names: Names, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, Sequence[str]]:
    """Names of scalars by leaf."""
    if names is None:
        return {}
    names_of = names if isinstance(names, Mapping) else {next(iter(shapes)): names}
    if not isinstance(names, Mapping) and len(shapes) != 1:
        raise ValueError(
            f"of_result(names=...): the parameters have {len(shapes)} leaves ({', '.join(shapes)}). "
            "Give a dict from leaves to the names of their scalars."
        )
    for leaf, labels in names_of.items():
        if leaf not in shapes or len(labels) != int(np.prod(shapes[leaf])):
            raise ValueError(
                f"of_result(names=...): {len(labels)} names for {leaf!r}, and the parameters have "
                f"{ {name: int(np.prod(shape)) for name, shape in shapes.items()} } scalars. Give one "
                "name for each."
            )
    return names_of
