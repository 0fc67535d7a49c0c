"""Rows of another table as a design, with their targets if these are asked for."""

from collections.abc import Collection
from typing import Any

import numpy as np

from .cells import is_missing
from .columns import list_names
from .design import Design
from .frame import Cells, Frame, Text
from .readings import number_text_cells, read_again
from .recipe import group_codes
from .schema import Source
from .source import read_frame


def new_rows(design: Design, table: Any, target: bool = False) -> Design:
    """The rows of `table`, treated as those of `design` were; `y` is empty without `target`.

    With it, rows without a target are left out.
    """
    recipe = design.recipe
    names = [*(s.name for s in recipe.sources), *(g.name for g in recipe.groups)]
    if target:
        names.append(recipe.target.name)
    frame = read_frame(table, tuple(dict.fromkeys(names)))
    again = recipe.apply(frame)
    y, notes, present = np.empty(0), [*again.notes], np.isin(frame.rows, again.rows)
    full = np.ones(len(again.rows), bool)
    if target:
        y = read_targets(design, frame)[present]
        full = ~np.isnan(y)
        if not full.any():
            raise ValueError(f"{frame.source}: no row has a target {recipe.target.name!r}.")
        if not full.all():
            notes.append(f"{(~full).sum()} rows without a target were left out.")
        y = y[full] if design.target.kind == "number" else y[full].astype(np.int32)
    groups = []
    for group, codes in zip(design.groups, again.groups, strict=True):
        groups.append(group._replace(codes=codes[full]))
        new = np.flatnonzero(present)[full & (codes < 0)]
        if names := level_names(frame.columns[group.name], new, recipe.na):
            notes.append(f"New levels of {group.name!r}: {list_names(names, 10)}.")
    return design._replace(
        x=again.x[full],
        y=y,
        groups=tuple(groups),
        rows=again.rows[full],
        place=again.place,
        notes=tuple(notes),
        test=None,
    )


def level_names(cells: Cells, rows: np.ndarray, na: Collection[str]) -> list[str]:
    """The different cells of some rows, as text, without those that are missing."""
    text = cells if isinstance(cells, Text) else number_text_cells(cells)
    values = {text.values[code] for code in text.codes[rows] if code >= 0}
    return sorted(value for value in values if not is_missing(value, na))


def read_targets(design: Design, frame: Frame) -> np.ndarray:
    """The targets of a frame as a design has them, in float64, NaN where there is none."""
    target, na = design.target, design.recipe.na
    if target.kind != "classes":
        source = Source(key=target.name, name=target.name, kind="number")
        values = read_again(source, frame, na, [])
        if target.kind == "number":
            return (values - target.center) / target.scale
        wrong = np.flatnonzero((values < 0) | (values != np.round(values)) & ~np.isnan(values))
        if wrong.size:
            raise ValueError(
                f"{frame.source}: target {target.name!r} is {values[wrong[0]]:g} in {frame.place} "
                f"{frame.rows[wrong[0]]}, and it needs counts."
            )
        return values
    source = Source(key=target.name, name=target.name, kind="level", levels=target.labels)
    cells = frame.columns[target.name]
    codes = group_codes(source, cells, na)
    if names := level_names(cells, np.flatnonzero(codes < 0), na):
        raise ValueError(
            f"{frame.source}: target {target.name!r} has classes that the training rows do not have: "
            f"{list_names(names, 10)}. Leave those rows out."
        )
    return np.where(codes < 0, np.nan, codes)
