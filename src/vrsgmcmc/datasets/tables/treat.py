"""Turn a table as it comes into a design: everything that a person would do first, and said.

    design = treat("patients.csv", "outcome", test_fraction=0.2)
    design.x, design.y, design.target.model, design.notes; design.test; design.recipe.apply(new_rows)

Text becomes levels, dates become days, money becomes numbers; names and ids are left out; rows with
missing cells are left out, or their cells are filled in; columns that repeat others are left out.
What is learned (means, levels, fills) is learned from the training rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from .. import transforms
from .design import Design, Group, design_columns, design_target
from .expressions import quote
from .plan import Plan, choose_rows, read_plan
from .recipe import Recipe
from .replay import call_columns, fill, learn_calls, raw_columns, read_values
from .scaling import drop_repeats, scale_steps
from .schema import Goal, Grouping, Source
from .select import fit_source, rows_of
from .target import KINDS, Choice, choose_target, dispersion
from .terms import build_steps, missing_step

OVERDISPERSED = 1.2
CHOICES = {
    "model": ("", *KINDS, "mlp"),  # mlp: for classes and numbers
    "levels": ("drop_first", "all"),
    "missing": ("", "drop", "impute", "refuse"),
    "collinear": ("drop", "keep"),
}


def treat(
    table: Any,
    target: str = "",
    *,
    formula: str = "",
    features: Sequence[str] = (),
    groups: Sequence[str] = (),
    model: str = "",
    levels: str = "drop_first",
    missing: str = "",
    na: Sequence[str] = (),
    collinear: str = "drop",
    scale_levels: bool = False,
    test_fraction: float = 0.0,
    seed: int = 0,
) -> Design:
    """The design of a table: a file, a frame, or a dict of arrays (see `read_frame`).

    Args:
        target: the column to predict. The left side of a formula says it, too.
        formula: `y ~ x + C(z) + x:z + (1 | g)`; without it all columns, or `features`, are used.
        groups: columns whose levels have effects of their own, like `(1 | g)`.
        model: linear, robust, logistic, softmax, ordinal, poisson, negative_binomial or mlp; ""
            chooses one from the target.
        levels: "drop_first" leaves the reference level of each column out; "all" does not.
        missing: "drop" rows with missing cells, "impute" medians and say which were missing, or
            "refuse". "" drops them if they are at most 5 % of all rows, and imputes otherwise.
        na: more codes of missing cells, such as "-999".
        collinear: "drop" columns that follow from earlier ones, or "keep" them.
        scale_levels: scale the columns of levels to standard deviation 1, too.
        test_fraction: part of the rows, drawn with `seed`, that becomes `design.test`.
    """
    for name, value in zip(CHOICES, (model, levels, missing, collinear), strict=True):
        if value not in CHOICES[name]:
            listed = ", ".join(repr(choice) for choice in CHOICES[name])
            raise ValueError(f"{name} is one of {listed}, got {value!r}.")
    notes: list[str] = []
    plan = read_plan(table, target, formula, features, groups, na, notes)
    choice = choose_target(plan.target, plan.response, model)
    rows, impute = choose_rows(plan, missing, notes)
    train, test = split_rows(rows, test_fraction, seed)
    sources = {
        key: fit_source(
            key, plan.names[key], reading, train, impute, notes, plan.listed.get(key, ())
        )
        for key, reading in plan.readings.items()
    }
    frame = rows_of(plan.frame, train)
    values = read_values(sources.values(), frame, na, [])
    filled = fill(sources.values(), values)
    calls = learn_calls(plan.calls, filled)
    results = call_columns(calls, filled, frame, frame.rows)
    widths = {text: (column.shape[1], plan.calls[text].names) for text, column in results.items()}
    steps = build_steps(plan.terms, sources, widths, levels == "all")
    if impute:
        holes = [s for s in sources.values() if s.kind != "level" and values.missing[s.key].any()]
        steps += [missing_step(source) for source in holes]
    raw = raw_columns(steps, sources, filled, results, len(train))
    steps, x = scale_steps(steps, raw, scale_levels, notes)
    steps, x = drop_repeats(steps, x, collinear == "drop", levels == "all", notes)
    if not steps and not plan.groups:
        raise ValueError("every column is constant, so there is nothing to predict from.")
    goal, y, note = fit_target(choice, plan.target, x, train)
    used = used_sources(sources, calls, steps)
    recipe = Recipe(
        sources=used, calls=calls, steps=tuple(steps), groups=fit_groups(plan, train), target=goal,
        formula=formula, na=tuple(na),
    )  # fmt: skip
    members = tuple(
        Group(group.name, group.levels, group_codes(plan, group, train)) for group in recipe.groups
    )
    about = design_target(recipe)._replace(note=note)
    design = Design(
        x, y[train], design_columns(recipe), about, members, frame.rows, frame.place, recipe,
        (note, *notes),
    )  # fmt: skip
    return add_test(design, plan, y, test) if len(test) else design


def split_rows(rows: np.ndarray, test_fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if not test_fraction:
        return rows, rows[:0]
    (train, _), (test, _) = transforms.split(rows, rows, test_fraction, seed)
    return train, test


def used_sources(sources: dict[str, Source], calls: Any, steps: list[Any]) -> tuple[Source, ...]:
    """The sources that some column needs; new rows need no others."""
    needed = {atom.expression for step in steps for atom in step.atoms}
    if calls:
        needed |= {quote(name) for step in steps for name in step.sources}
    return tuple(source for key, source in sources.items() if key in needed)


def fit_target(
    choice: Choice, name: str, x: Float[np.ndarray, "n p"], train: np.ndarray
) -> tuple[Goal, np.ndarray, str]:
    """The stored target, its values for a model, and a sentence."""
    kind, model, labels, y, note = choice
    if kind == "classes":
        return (
            Goal(name=name, kind="classes", labels=labels, model=model),
            y,
            f"{note} Model: {model}.",
        )
    if kind == "count":
        counts = np.where(np.isnan(y), 0, y).astype(np.int32)
        if model == "":
            spread = dispersion(x, counts[train])
            model = "negative_binomial" if spread > OVERDISPERSED else "poisson"
            note += f" Its variance is {spread:.2g} times that of a Poisson regression."
        return Goal(name=name, kind="count", model=model), counts, f"{note} Model: {model}."
    center, scale = float(y[train].mean()), float(y[train].std())
    if not 0 < scale < np.inf:
        raise ValueError(
            f"target {name!r} is constant in the training rows, or too large to compute with."
        )
    goal = Goal(name=name, kind="number", center=center, scale=scale, model=model)
    return goal, (y - center) / scale, f"{note} Model: {model}."


def fit_groups(plan: Plan, train: np.ndarray) -> tuple[Grouping, ...]:
    """Groups, and the levels of them that training rows have."""
    groups = []
    for name, reading in plan.groups.items():
        if reading.kind != "level":
            raise ValueError(f"{name!r} holds dates, which are no groups.")
        present = np.unique(reading.values[train])
        groups.append(Grouping(name=name, levels=tuple(reading.levels[i] for i in present)))
    return tuple(groups)


def group_codes(plan: Plan, group: Grouping, train: np.ndarray) -> np.ndarray:
    _, codes = np.unique(plan.groups[group.name].values[train], return_inverse=True)
    return codes.astype(np.int32)


def add_test(design: Design, plan: Plan, y: np.ndarray, test: np.ndarray) -> Design:
    """The design with its test rows."""
    again = design.recipe.apply(rows_of(plan.frame, test))
    sizes = f"{len(design.y)} rows are for training and {len(test)}, drawn at random, for testing."
    notes = (*design.notes, sizes, *(f"In the test rows: {note}" for note in again.notes))
    members = tuple(
        group._replace(codes=codes)
        for group, codes in zip(design.groups, again.groups, strict=True)
    )
    design = design._replace(notes=notes)
    return design._replace(
        test=design._replace(x=again.x, y=y[test], rows=again.rows, groups=members)
    )
