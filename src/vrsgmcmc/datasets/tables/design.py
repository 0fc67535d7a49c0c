"""Design: the rows of a table as numbers, ready for a model, and what each number means."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .recipe import Recipe


class Column(NamedTuple):
    """A column of the design: `(value - center) / scale`, of values in the table's own units."""

    name: str  # "carat", "cut[Ideal]", "carat:x"
    sources: tuple[str, ...]  # columns of the table that it is made of
    center: float
    scale: float  # 1.0 for a level, which is 0 or 1 in the table
    kind: str  # "number", "level", "date", "missing" or "interaction"
    level: str = ""
    reference: str = ""  # the level whose rows have 0 in all columns of the levels


class Group(NamedTuple):
    """A column whose levels have effects of their own, `(1 | g)` in a formula."""

    name: str
    levels: tuple[str, ...]
    codes: Int[np.ndarray, " n"]  # -1: a level that the training rows do not have


class Target(NamedTuple):
    """What is predicted, and the model that suits it."""

    name: str
    kind: str  # "classes", "count" or "number"
    labels: tuple[str, ...]  # of classes; the event of a binary target is labels[1]
    center: float  # of a number: design value = (y - center) / scale
    scale: float
    model: str  # linear, robust, logistic, softmax, poisson or negative_binomial
    note: str  # why


class Design(NamedTuple):
    """Rows ready for a model."""

    x: Float[np.ndarray, "n p"]  # standardised, without a column of ones
    y: np.ndarray  # [n]: codes or counts as int32, or standardised numbers
    columns: tuple[Column, ...]
    target: Target
    groups: tuple[Group, ...]
    rows: Int[np.ndarray, " n"]
    place: str  # what `rows` counts: "line" or "row"
    recipe: Recipe
    notes: tuple[str, ...]  # what was done, in sentences
    test: "Design | None" = None  # rows that the recipe has not used


def design_columns(recipe: Recipe) -> tuple[Column, ...]:
    """The columns of the design that a recipe makes."""
    return tuple(
        Column(s.name, s.sources, s.center, s.scale, s.kind, s.level, s.reference)
        for s in recipe.steps
    )


def design_target(recipe: Recipe) -> Target:
    """The target of the design that a recipe makes."""
    goal = recipe.target
    return Target(goal.name, goal.kind, goal.labels, goal.center, goal.scale, goal.model, "")
