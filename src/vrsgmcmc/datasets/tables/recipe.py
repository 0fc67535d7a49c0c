"""Recipe: everything that turned a table into a design, as numbers and names, to repeat it on new
rows.

A design column is a product of atoms, then centred and scaled: `(atom * ... * atom - center) /
scale`. An atom is the value of an expression (a column of the table, or a call of a formula such as
`log(x)`), whether a row has one level of it, or whether its cell is missing. All numbers are from
the training rows. A recipe is JSON; reading it runs no code of it.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from pydantic import ValidationError, model_validator

from .readings import level_codes
from .replay import call_columns, fill, missing_note, parse_calls, raw_columns, read_values
from .schema import Call, Few, Goal, Grouping, Many, Name, Part, Source, Step, Text
from .source import read_frame

LONGEST = 2**26  # characters of a recipe


class NewRows(NamedTuple):
    """Rows of another table, as the design has them."""

    x: Float[np.ndarray, "n p"]
    groups: tuple[
        Int[np.ndarray, " n"], ...
    ]  # codes; -1 is a level that the training rows do not have
    notes: tuple[str, ...]
    rows: Int[np.ndarray, " n"]
    place: str


class Recipe(Part):
    """What `treat` did with the training rows."""

    version: Literal[1] = 1
    sources: tuple[Source, ...] = Many
    calls: tuple[Call, ...] = Few
    steps: tuple[Step, ...] = Many
    groups: tuple[Grouping, ...] = Few
    target: Goal
    formula: Name = ""
    na: tuple[Text, ...] = Few  # more codes of missing cells than the usual ones

    @model_validator(mode="after")
    def check_references(self) -> "Recipe":
        """Refuse atoms of sources and levels that the recipe does not have."""
        sources = {source.key: source for source in self.sources}
        calls = parse_calls(call.text for call in self.calls)
        for source in self.sources:
            if (source.kind == "level") != bool(source.levels):
                raise ValueError(f"source {source.key!r} has levels, or is of another kind")
            right = str if source.kind == "level" else float | int
            if source.fill is not None and not isinstance(source.fill, right):
                raise ValueError(f"the fill of {source.key!r} is of another type")
            if isinstance(source.fill, str) and source.fill not in source.levels:
                raise ValueError(f"the fill of {source.key!r} is not among its levels")
        for step in self.steps:
            if not step.atoms:
                raise ValueError(f"column {step.name!r} has no atoms")
            for atom in step.atoms:
                source = sources.get(atom.expression)
                if source is None and (atom.kind != "value" or atom.expression not in calls):
                    raise ValueError(f"{atom.expression!r} is not among the sources")
                if (
                    source
                    and (atom.kind == "level") != bool(source.levels)
                    and atom.kind != "missing"
                ):
                    raise ValueError(f"{atom.expression!r} is of another kind")
                if source and atom.kind == "level" and atom.level not in source.levels:
                    raise ValueError(f"{atom.level!r} is not a level of {atom.expression!r}")
        return self

    def apply(self, table: Any) -> NewRows:
        """The rows of another table as a model of the design needs them.

        Levels that the training rows do not have count as the rest, or as the reference, and a note
        says so. Rows with a missing cell are left out if the training rows were. Other columns are
        ignored.
        """
        names = dict.fromkeys([*(s.name for s in self.sources), *(g.name for g in self.groups)])
        frame = read_frame(table, tuple(names))
        notes = list(frame.notes)
        values = read_values(self.sources, frame, self.na, notes)
        filled = fill(self.sources, values)
        lacking = [s for s in self.sources if s.fill is None and values.missing[s.key].any()]
        full = np.ones(len(frame.rows), bool)
        for source in lacking:
            full &= ~values.missing[source.key]
        if lacking:
            where = missing_note(lacking, values, frame)
            if not full.any():
                raise ValueError(f"{frame.source}: every row has a missing cell: {where}.")
            notes.append(f"{(~full).sum()} rows with missing cells were left out: {where}.")
        chosen_rows = np.flatnonzero(full)
        rows, chosen = frame.rows[chosen_rows], filled.take(chosen_rows)
        calls = call_columns(self.calls, chosen, frame, rows)
        sources = {source.key: source for source in self.sources}
        x = self.standardise(raw_columns(self.steps, sources, chosen, calls, len(rows)))
        wrong = np.argwhere(~np.isfinite(x))
        if len(wrong):
            row, column = wrong[0]
            raise ValueError(
                f"{frame.source}: {self.steps[column].name!r} is no finite number in {frame.place} "
                f"{rows[row]}. Correct the cell."
            )
        codes = []
        for group in self.groups:
            plain = Source(key=group.name, name=group.name, kind="level", levels=group.levels)
            codes.append(group_codes(plain, frame.columns[group.name], self.na)[chosen_rows])
            if count := int((codes[-1] < 0).sum()):
                notes.append(
                    f"{group.name!r} has a level that the training rows do not have in {count} rows."
                )
        return NewRows(x, tuple(codes), tuple(notes), rows, frame.place)

    def standardise(self, raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """(value - center) / scale, in place."""
        raw -= np.array([step.center for step in self.steps])
        raw /= np.array([step.scale for step in self.steps])
        return raw

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Recipe":
        """Read a recipe; ValueError if anything in it is not as `to_json` writes it."""
        if len(text) > LONGEST:
            raise ValueError(
                f"the recipe has {len(text):,} characters, and at most {LONGEST:,} are read."
            )
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part)[:40] for part in first["loc"]) or "recipe"
            why = str(first["msg"])[:200]
            raise ValueError(
                f"the recipe cannot be read: {place}: {why}. Make it again."
            ) from error


def group_codes(source: Source, cells: Any, na: tuple[str, ...]) -> np.ndarray:
    """Codes of group levels, -1 where there is none."""
    marker = source.model_copy(update={"levels": ("", *source.levels)})
    return np.maximum(level_codes(marker, cells, na, []), 0) - 1
