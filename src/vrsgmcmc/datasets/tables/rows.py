"""Rows of another table as a design, with their targets if these are asked for."""

from typing import Any

import numpy as np

from .columns import list_names
from .design import Design
from .frame import Cells, Frame, Text
from .readings import number_text_cells, read_again
from .recipe import group_codes
from .schema import Source
from .source import read_frame


def new_rows(design: Design, table: Any, target: bool = False) -> Design:
    """The rows of `table` as those of `design` were treated; `y` is empty without `target`.

    With it, rows without a target are left out, and a class that the training rows do not have is refused.
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
        if names := level_names(frame.columns[group.name], np.flatnonzero(present)[codes < 0]):
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


def level_names(cells: Cells, rows: np.ndarray) -> list[str]:
    """The different cells of some rows, as text."""
    text = cells if isinstance(cells, Text) else number_text_cells(cells)
    return sorted({text.values[code] for code in text.codes[rows] if code >= 0})


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
    codes = group_codes(source, frame.columns[target.name], na)
    return np.where(codes < 0, np.nan, codes)
