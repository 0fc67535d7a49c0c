"""The parts of a recipe, as they are in its JSON: each says what is done with a column of a table.

A design column is a product of atoms, then centred and scaled: `(atom * ... * atom - center) /
scale`. An atom is the value of an expression (a column of the table, or a call of a formula such as
`log(x)`), whether a row has one level of it, or whether its cell is missing. Reading a recipe runs
no code of it.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints

Name = Annotated[str, StringConstraints(max_length=4000)]
Text = Annotated[str, StringConstraints(max_length=1000)]
Many = Field(default=(), max_length=100_000)
Few = Field(default=(), max_length=100)


class Part(BaseModel):
    """A part of a recipe: unknown keys, other types and numbers that are not finite are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Source(Part):
    """A column of the table: how its cells are read, and what stands for a missing one."""

    key: Name  # what atoms call it: its name, or C(name) where its numbers are levels
    name: Name
    kind: Literal["number", "date", "level"]
    levels: tuple[Text, ...] = Many  # in the order of their codes
    fill: FiniteFloat | Text | None = None  # None: rows with a missing cell are left out
    origin: FiniteFloat = 0.0  # of a date: day 0, in days since 1970
    form: Text = "iso"  # of dates that are text


class Call(Part):
    """A function call of a formula, and the numbers that it learned from the training rows."""

    text: Name
    state: tuple[tuple[FiniteFloat, ...], ...] = Few


class Atom(Part):
    """One factor of a design column."""

    expression: Name
    kind: Literal["value", "level", "missing"] = "value"
    part: Annotated[int, Field(ge=0, le=1000)] = 0  # of a call with several columns
    level: Text = ""


class Step(Part):
    """One column of the design: see `Column`."""

    name: Name
    sources: tuple[Name, ...] = Few
    center: FiniteFloat
    scale: Annotated[FiniteFloat, Field(gt=0)]
    kind: Name
    level: Text = ""
    reference: Text = ""
    atoms: tuple[Atom, ...] = Few


class Grouping(Part):
    """A column whose levels have effects of their own, and the levels of the training rows."""

    name: Name
    levels: tuple[Text, ...] = Many


class Goal(Part):
    """The target: see `Target`."""

    name: Name
    kind: Literal["classes", "count", "number"]
    labels: tuple[Text, ...] = Many
    center: FiniteFloat = 0.0
    scale: Annotated[FiniteFloat, Field(gt=0)] = 1.0
    model: Name
