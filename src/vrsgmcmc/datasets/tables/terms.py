"""Columns of a design from terms: products of numbers and of levels, without repeating themselves.

A factor of levels is coded without its reference level if the term without the factor is in the
model, and with all levels otherwise: in `z + C(g):z` the slope of the reference is the term z.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import product

from .columns import MOST_COLUMNS
from .expressions import quote
from .schema import Atom, Source, Step

Piece = tuple[Atom, str]  # a factor of a column, and its part of the column's name


def build_steps(
    terms: Iterable[tuple[str, ...]],
    sources: Mapping[str, Source],
    calls: Mapping[str, tuple[int, tuple[str, ...]]],
    every_level: bool,
) -> list[Step]:
    """The columns of `terms`, not yet centred; `calls` has the width and the names of each call."""
    terms = list(terms)
    present = {frozenset(), *map(frozenset, terms)}
    widths = {key: len(source.levels) or 1 for key, source in sources.items()}
    widths |= {key: width for key, (width, _) in calls.items()}
    if sum(math.prod(max(1, widths[key] - 1) for key in term) for term in terms) > MOST_COLUMNS:
        raise ValueError(
            f"the design has more than {MOST_COLUMNS:,} columns. Choose fewer columns of the table, or "
            "ones with fewer levels."
        )
    steps: list[Step] = []
    for term in terms:
        pieces = []
        for key in term:
            full = every_level or frozenset(term) - {key} not in present
            pieces.append(factor_pieces(key, sources.get(key), calls, full))
        names = tuple(dict.fromkeys(name for key in term for name in names_of(key, sources, calls)))
        for column in product(*pieces):
            steps.append(build_step(column, names, sources))
    return steps


def names_of(
    key: str, sources: Mapping[str, Source], calls: Mapping[str, tuple[int, tuple[str, ...]]]
) -> tuple[str, ...]:
    return (sources[key].name,) if key in sources else calls[key][1]


def factor_pieces(
    key: str,
    source: Source | None,
    calls: Mapping[str, tuple[int, tuple[str, ...]]],
    full: bool,
) -> list[Piece]:
    if source is None:
        width, _ = calls[key]
        names = [key] if width == 1 else [f"{key}[{part + 1}]" for part in range(width)]
        return [(Atom(expression=key, part=part), name) for part, name in enumerate(names)]
    label = source.name if key == quote(source.name) else key
    if source.kind != "level":
        return [(Atom(expression=key), label)]
    levels = source.levels if full else source.levels[1:]
    return [(Atom(expression=key, kind="level", level=v), f"{label}[{v}]") for v in levels]


def build_step(
    column: tuple[Piece, ...], names: tuple[str, ...], sources: Mapping[str, Source]
) -> Step:
    atoms = tuple(atom for atom, _ in column)
    name = ":".join(part for _, part in column)
    kind, level, reference = "interaction", "", ""
    if len(atoms) == 1:
        source = sources.get(atoms[0].expression)
        kind = source.kind if source else "number"
        if source and source.kind == "level":
            level, reference = atoms[0].level, source.levels[0]
    return Step(
        name=name, sources=names, center=0.0, scale=1.0, kind=kind, level=level,
        reference=reference, atoms=atoms,
    )  # fmt: skip


def missing_step(source: Source) -> Step:
    """The column that is 1 where the cell of a number is missing."""
    atom = Atom(expression=source.key, kind="missing")
    return Step(
        name=f"{source.name}[missing]", sources=(source.name,), center=0.0, scale=1.0,
        kind="missing", atoms=(atom,),
    )  # fmt: skip
