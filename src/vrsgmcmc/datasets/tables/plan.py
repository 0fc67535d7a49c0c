"""Plan: the columns of a table that a design uses, what their cells mean, and the terms made of
them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .columns import printable
from .expressions import Expression, evaluate, quote
from .formula import Factor, Formula, names_every_column, parse_formula
from .frame import Frame
from .readings import Reading, read_column
from .replay import is_empty
from .select import drop_useless, refuse_useless
from .source import read_frame

FEW_ROWS = 0.05  # of the rows have missing cells: they are left out


class Plan(NamedTuple):
    frame: Frame
    target: str
    response: Reading
    readings: dict[str, Reading]  # of each source, by its key
    names: dict[str, str]  # and its column
    listed: dict[str, tuple[str, ...]]  # and its levels, if a formula lists them
    terms: tuple[tuple[str, ...], ...]
    calls: dict[str, Expression]
    groups: dict[str, Reading]


def read_plan(
    table: Any,
    target: str,
    formula: str,
    features: Sequence[str],
    groups: Sequence[str],
    na: Sequence[str],
    notes: list[str],
) -> Plan:
    if isinstance(features, str) or isinstance(groups, str) or isinstance(na, str):
        raise TypeError("features, groups and na are lists of names, not one text.")
    if formula and features:
        raise ValueError("a formula names its columns: give formula or features, not both.")
    if formula:
        frame, parsed = read_with_formula(table, target, formula, groups, na, notes)
    else:
        if not target:
            raise ValueError("target is missing: name the column to predict, or give a formula.")
        wanted = (target, *features, *groups) if features else ()
        frame = read_frame(table, wanted, (target, *groups))
        parsed = every_column(frame, target, groups)
    notes += frame.notes
    key = parsed.response or quote(target)
    factor = parsed.factors.pop(key, Factor("column", (target,)))
    response = read_response(key, factor, frame, na)
    sources = {
        k: f.names[0] for k, f in parsed.factors.items() if f.kind != "call"
    }  # and the columns inside calls
    calls = {k: f.expression for k, f in parsed.factors.items() if f.expression is not None}
    for expression in calls.values():
        sources |= {quote(name): name for name in expression.names}
    readings = {}
    for key_, name in sources.items():
        as_levels = key_ in parsed.factors and parsed.factors[key_].kind == "levels"
        readings[key_] = read_column(name, frame, na, as_levels)
    named = {key_: sources[key_] for key_ in readings}
    terms, useless = parsed.terms, []
    if formula or features:
        refuse_useless(named, readings, frame)
    else:
        useless = drop_useless(named, readings)
        notes += useless
        terms = tuple(term for term in terms if term[0] in readings)
    group_readings = {name: read_column(name, frame, na, True) for name in parsed.groups}
    if not terms and not group_readings:
        problem = f"{frame.source} has no column to predict {display(key)!r} from."
        raise ValueError(" ".join([problem, *useless]))
    notes += dict.fromkeys(reading.note for reading in readings.values() if reading.note)
    listed = {key_: factor.levels for key_, factor in parsed.factors.items() if factor.levels}
    return Plan(
        frame, display(key), response, readings, named, listed, terms, calls, group_readings
    )


def display(key: str) -> str:
    return key[1:-1] if key.startswith("`") and key.count("`") == 2 and key.endswith("`") else key


def read_with_formula(
    table: Any,
    target: str,
    formula: str,
    groups: Sequence[str],
    na: Sequence[str],
    notes: list[str],
) -> tuple[Frame, Formula]:
    """The columns that a formula needs, and its terms."""
    parsed = parse_formula(formula)
    required = tuple(dict.fromkeys(filter(None, (target, *groups, *parsed.names))))
    every = names_every_column(formula)
    frame = read_frame(table, () if every else required, required)
    if every:
        response = parsed.factors.get(parsed.response)
        taken = {target, *parsed.groups, *groups, *(response.names if response else ())}
        names = {quote(name): name for name in frame.columns if name not in taken}
        notes += drop_useless(
            names, {key: read_column(name, frame, na) for key, name in names.items()}
        )
        parsed = parse_formula(formula, tuple(names.values()))
    if target and parsed.response and parsed.response != quote(target):
        raise ValueError(
            f"the formula predicts {printable(parsed.response)}, and target is {target!r}. Say one."
        )
    if not target and not parsed.response:
        raise ValueError(
            f"the formula has no target: write it on the left, as in y ~ {formula[:40]}."
        )
    parsed = parsed._replace(groups=tuple(dict.fromkeys([*parsed.groups, *groups])))
    return frame, parsed


def every_column(frame: Frame, target: str, groups: Sequence[str]) -> Formula:
    """All columns but the target and the groups, each a term."""
    names = [name for name in frame.columns if name not in (target, *groups)]
    factors = {quote(name): Factor("column", (name,)) for name in names}
    terms = tuple((key,) for key in factors)
    return Formula(quote(target), terms, factors, tuple(dict.fromkeys(groups)))


def read_response(key: str, factor: Factor, frame: Frame, na: Sequence[str]) -> Reading:
    """The target: a column, a column as classes, or numbers that a call computes of columns."""
    if factor.kind != "call":
        return read_column(factor.names[0], frame, na, factor.kind == "levels")
    assert factor.expression is not None
    readings = {name: read_column(name, frame, na) for name in factor.names}
    if text := [name for name, reading in readings.items() if reading.kind != "number"]:
        raise ValueError(f"formula: {printable(key)} needs numbers, and {text[0]!r} has none.")
    values = {name: reading.values for name, reading in readings.items()}
    result, state = evaluate(factor.expression, values, None)
    full = ~np.any([np.isnan(column) for column in values.values()], axis=0)
    wrong = np.flatnonzero(full & ~np.isfinite(result[:, 0]))
    if state or result.shape[1] > 1:
        raise ValueError(
            f"formula: the target {printable(key)} is scaled by itself. Write the plain column."
        )
    if len(wrong):
        raise ValueError(
            f"formula: {printable(key)} is no finite number in {len(wrong)} rows, the first in "
            f"{frame.place} "
            f"{frame.rows[wrong[0]]}. Change the formula or the cells."
        )
    return Reading("number", result[:, 0])


def choose_rows(plan: Plan, missing: str, notes: list[str]) -> tuple[np.ndarray, bool]:
    """The rows to use, and whether missing cells in them are filled in."""
    frame = plan.frame
    every = np.arange(len(frame.rows))
    lacks_target = is_empty(plan.response.values)
    for name, reading in plan.groups.items():
        if (empty := is_empty(reading.values)).any():
            notes.append(f"{empty.sum()} rows without {name!r}, their group, were left out.")
            lacks_target = lacks_target | empty
    if count := int(is_empty(plan.response.values).sum()):
        notes.append(f"{count} rows without {plan.target!r}, the target, were left out.")
    rows = every[~lacks_target]
    masks = {
        plan.names[key]: is_empty(reading.values)[rows] for key, reading in plan.readings.items()
    }
    lacking = np.zeros(len(rows), bool)
    for mask in masks.values():
        lacking |= mask
    counts = [
        f"{mask.sum()} in column {name!r} (first in {frame.place} {frame.rows[rows[mask.argmax()]]})"
        for name, mask in masks.items()
        if mask.any()
    ]
    where = ", ".join(counts[:5]) + " and in other columns" * (len(counts) > 5)
    if not counts:
        return check_rows(rows, frame, where), missing == "impute"
    if missing == "refuse":
        raise ValueError(
            f"{frame.source}: cells are missing: {where}. Fill them in, or drop or impute them."
        )
    share = f"{lacking.sum()} of {len(rows)} rows"
    if missing == "drop" or (not missing and lacking.mean() <= FEW_ROWS):
        notes.append(f"{share} have missing cells and were left out: {where}.")
        return check_rows(rows[~lacking], frame, where), False
    notes.append(
        f"{share} have missing cells: {where}. A number got the median of its column, and another "
        "column says where; text got a level for it."
    )
    return check_rows(rows, frame, where), True


def check_rows(rows: np.ndarray, frame: Frame, where: str) -> np.ndarray:
    if not len(rows):
        raise ValueError(
            f"{frame.source}: every row has a missing cell{': ' * bool(where)}{where}."
        )
    return rows
