"""Repeat the steps of a recipe: cells to values, missing cells to their fill, values to design
columns.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .columns import printable
from .expressions import Expression, State, evaluate, parse_expression, quote, tokens_of
from .frame import Frame, check_memory
from .readings import read_again
from .schema import Atom, Call, Source, Step


class Values(NamedTuple):
    """Columns of a table by the keys of their sources: numbers, days, or numbers of levels."""

    columns: dict[str, np.ndarray]
    missing: dict[str, np.ndarray]  # masks

    def take(self, rows: np.ndarray) -> "Values":
        return Values(*({key: column[rows] for key, column in part.items()} for part in self))


def read_values(
    sources: Iterable[Source], frame: Frame, na: Collection[str], notes: list[str]
) -> Values:
    columns = {source.key: read_again(source, frame, na, notes) for source in sources}
    return Values(columns, {key: is_empty(column) for key, column in columns.items()})


def is_empty(column: np.ndarray) -> np.ndarray:
    return np.isnan(column) if column.dtype.kind == "f" else column < 0


def fill(sources: Iterable[Source], values: Values) -> Values:
    """The same with the fills in the place of missing cells."""
    columns = dict(values.columns)
    for source in sources:
        empty = values.missing[source.key]
        if source.fill is not None and empty.any():
            stand_in = (
                source.levels.index(source.fill) if isinstance(source.fill, str) else source.fill
            )
            columns[source.key] = np.where(empty, stand_in, columns[source.key])
    return values._replace(columns=columns)


def parse_calls(texts: Iterable[str]) -> dict[str, Expression]:
    return {text: parse_expression(tokens_of(text)) for text in texts}


def learn_calls(texts: Iterable[str], values: Values) -> tuple[Call, ...]:
    """What the calls of a formula learn from the training rows."""
    calls = []
    for text, expression in parse_calls(texts).items():
        _, state = evaluate(expression, by_name(expression, values), None)
        if not np.isfinite(np.array([number for part in state for number in part])).all():
            raise ValueError(
                f"formula: {printable(text)} has no finite numbers to learn. Look at its column."
            )
        calls.append(Call(text=text, state=state))
    return tuple(calls)


def by_name(expression: Expression, values: Values) -> dict[str, np.ndarray]:
    columns = {name: values.columns[quote(name)] for name in expression.names}
    for name, column in columns.items():
        if column.dtype.kind != "f":
            raise ValueError(
                f"formula: {printable(expression.text)} needs numbers, and {name!r} has levels."
            )
    return columns


def call_columns(
    calls: Iterable[Call], values: Values, frame: Frame, rows: np.ndarray
) -> dict[str, np.ndarray]:
    """The columns [n, k] of each call; ValueError if one is not finite."""
    columns = {}
    for call in calls:
        expression = parse_expression(tokens_of(call.text))
        state: State = call.state
        try:
            result, _ = evaluate(expression, by_name(expression, values), state)
        except (IndexError, KeyError, ValueError) as error:
            if isinstance(error, ValueError) and str(error).startswith("formula:"):
                raise
            raise ValueError(
                f"the recipe does not say what {printable(call.text)} has learned."
            ) from error
        wrong = np.flatnonzero(~np.isfinite(result).all(1))
        if len(wrong):
            row = rows[wrong[0]]
            raise ValueError(
                f"formula: {printable(call.text)} is no finite number in {len(wrong)} rows, the "
                "first in "
                f"{frame.place} {row}. Change the formula or the cells."
            )
        columns[call.text] = result
    return columns


def raw_columns(
    steps: Sequence[Step],
    sources: Mapping[str, Source],
    values: Values,
    calls: Mapping[str, np.ndarray],
    length: int,
) -> Float[np.ndarray, "n p"]:
    """Design columns before they are centred and scaled."""
    check_memory("the design", 3 * 8 * length * len(steps))
    x = np.empty((length, len(steps)), order="F")
    for number, step in enumerate(steps):
        x[:, number] = atom_values(step.atoms[0], sources, values, calls)
        for atom in step.atoms[1:]:
            x[:, number] *= atom_values(atom, sources, values, calls)
    return x


def atom_values(
    atom: Atom, sources: Mapping[str, Source], values: Values, calls: Mapping[str, np.ndarray]
) -> np.ndarray:
    if atom.kind == "missing":
        return values.missing[atom.expression]
    if atom.kind == "level":
        return values.columns[atom.expression] == sources[atom.expression].levels.index(atom.level)
    if atom.expression in calls:
        if atom.part >= calls[atom.expression].shape[1]:
            raise ValueError(
                f"the recipe has a column {atom.part + 1} of {printable(atom.expression)}."
            )
        return calls[atom.expression][:, atom.part]
    return values.columns[atom.expression]


def missing_note(sources: Iterable[Source], values: Values, frame: Frame) -> str:
    """Where cells are missing: "3 in column 'a' (first in line 7), 2 in column 'b' (...)"."""
    parts: dict[str, str] = {}
    for source in sources:
        if (empty := values.missing[source.key]).any():
            first = frame.rows[int(np.argmax(empty))]
            parts[source.name] = (
                f"{empty.sum()} in column {source.name!r} (first in {frame.place} {first})"
            )
    listed = list(parts.values())
    return ", ".join(listed[:5]) + " and in other columns" * (len(listed) > 5)
