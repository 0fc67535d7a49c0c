"""What the cells of a column mean: numbers, days or levels; and the same again for new rows.

A column of text whose cells all are numbers ($1,151, 12 %, 1.234,5) is a column of numbers, one
whose cells all are dates counts days, and any other has levels. Cells that are missing, or hold a
usual code for that, are NaN, or level -1.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from .cells import date_formats, is_missing, read_dates, read_number
from .frame import Cells, Frame, Text, number_text
from .schema import Source

DAY = np.timedelta64(86_400_000, "ms")
OTHER, MISSING = "(other)", "(missing)"  # levels that stand for rare ones, and for missing cells
MOSTLY = 0.9  # of the cells are numbers: then the others are mistakes, or codes for missing ones
FEW = 20
SENTINELS = (-99.0, -999.0, -9999.0)


class Reading(NamedTuple):
    """A column: `values` are numbers, days since 1970, or the numbers of `levels`."""

    kind: str  # "number", "date" or "level"
    values: np.ndarray
    levels: tuple[str, ...] = ()
    form: str = "iso"
    note: str = ""


def read_column(name: str, frame: Frame, na: Collection[str] = (), levels: bool = False) -> Reading:
    """Decide what a column means; with `levels`, its numbers are levels."""
    cells = frame.columns[name]
    if isinstance(cells, Text):
        reading = read_text(name, frame, cells, na)
    elif cells.dtype.kind == "M":
        days = cells.astype("datetime64[ms]").astype(np.float64)
        days[np.isnat(cells)] = np.nan
        reading = Reading("date", days / DAY.astype(np.float64), note=f"{name!r} counts days.")
    else:
        reading = Reading(
            "number", without_codes(cells, na), note=sentinel_note(name, frame, cells, na)
        )
    if reading.kind == "number":
        check_finite(name, frame, reading.values)
        if levels:
            return number_levels(reading.values)
    return reading


def read_text(name: str, frame: Frame, cells: Text, na: Collection[str]) -> Reading:
    counts = np.bincount(cells.codes[cells.codes >= 0], minlength=len(cells.values))
    present = [i for i, v in enumerate(cells.values) if counts[i] and not is_missing(v, na)]
    values = [cells.values[i] for i in present]
    numbers = [read_number(value, frame.decimal) for value in values]
    share = sum(counts[i] for i, n in zip(present, numbers, strict=True) if n) / max(
        1, counts[present].sum()
    )
    if share == 1.0 or not present:
        ways = {way for number in numbers if number for way in number.ways}
        note = f"{name!r} is text that holds numbers ({', '.join(sorted(ways))})." if ways else ""
        return Reading("number", spread(cells, present, [n.value for n in numbers if n]), note=note)
    if share > MOSTLY and sum(n is not None for n in numbers) > FEW:
        wrong = next(i for i, number in zip(present, numbers, strict=True) if number is None)
        refuse_cell(
            name, frame, cells, wrong, f"is not a number, and {share:.1%} of the others are"
        )
    if forms := date_formats(values):
        days = read_dates(values, forms[0]).astype(np.float64) / DAY.astype(np.float64)
        twice = " It could also be read with day and month exchanged." * (len(forms) > 1)
        said = "year-month-day" if forms[0] == "iso" else forms[0]
        note = f"{name!r} holds dates ({said}) and counts days.{twice}"
        return Reading("date", spread(cells, present, days), form=forms[0], note=note)
    order = (
        list(range(len(values))) if cells.ordered else np.argsort(np.array(values, object)).tolist()
    )
    places = np.empty(len(values), np.int32)
    places[order] = np.arange(len(values))
    codes = np.full(len(cells.values) + 1, -1, np.int32)
    codes[present] = places
    return Reading("level", codes[cells.codes], tuple(values[i] for i in order))


def spread(cells: Text, present: list[int], numbers: Collection[float]) -> np.ndarray:
    """The numbers of the cells, from those of the different ones."""
    table = np.full(len(cells.values) + 1, np.nan)
    table[present] = np.asarray(numbers, np.float64)
    return table[cells.codes]


def number_levels(values: np.ndarray) -> Reading:
    """Numbers as levels, in their order."""
    full = ~np.isnan(values)
    different, codes = np.unique(values[full], return_inverse=True)
    places = np.full(len(values), -1, np.int32)
    places[full] = codes
    return Reading("level", places, tuple(map(number_text, different)))


def without_codes(cells: np.ndarray, na: Collection[str]) -> np.ndarray:
    """Numbers, NaN where one of the codes `na` is."""
    codes = [number.value for code in na if (number := read_number(code))]
    return np.where(np.isin(cells, codes), np.nan, cells) if codes else cells


def sentinel_note(name: str, frame: Frame, cells: np.ndarray, na: Collection[str]) -> str:
    for code in SENTINELS:
        hits = int((cells == code).sum())
        if hits and np.nanmin(cells) == code and str(int(code)) not in na:
            return (
                f"{name!r} is {code:.0f} in {hits} rows, and was read as that number. If it means "
                f"missing, say so: {code:.0f} as a code of missing cells."
            )
    return ""


def check_finite(name: str, frame: Frame, values: np.ndarray) -> None:
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise ValueError(
            f"{frame.source}: {len(infinite)} infinite values in column {name!r}, the first in "
            f"{frame.place} {frame.rows[infinite[0]]}. Remove or replace them."
        )


def refuse_cell(name: str, frame: Frame, cells: Text, value: int, why: str) -> None:
    row = frame.rows[int(np.argmax(cells.codes == value))]
    raise ValueError(
        f"{frame.source}: {frame.place} {row}, column {name!r}: {cells.values[value][:40]!r} {why}. "
        "Correct it, or name it as a code of missing cells."
    )


def read_again(source: Source, frame: Frame, na: Collection[str], notes: list[str]) -> np.ndarray:
    """The values of a column as a recipe reads it: numbers, days, or numbers of levels."""
    cells: Cells = frame.columns[source.name]
    if source.kind == "level":
        return level_codes(source, cells, na, notes)
    if source.kind == "date":
        return day_numbers(source, frame, cells, na) - source.origin
    if not isinstance(cells, Text):
        if cells.dtype.kind == "M":
            raise ValueError(
                f"{frame.source}: column {source.name!r} holds dates, and needs numbers."
            )
        check_finite(source.name, frame, cells)
        return without_codes(cells, na)
    return text_numbers(source, frame, cells, na, lambda cell: number_value(cell, frame.decimal))


def number_value(cell: str, decimal: str) -> float | None:
    number = read_number(cell, decimal)
    return number.value if number else None


def day_numbers(source: Source, frame: Frame, cells: Cells, na: Collection[str]) -> np.ndarray:
    def day(cell: str) -> float | None:
        moment = read_dates([cell], source.form)
        return (
            None
            if np.isnat(moment[0])
            else float(moment.astype(np.float64)[0] / DAY.astype(np.float64))
        )

    if isinstance(cells, Text):
        return text_numbers(source, frame, cells, na, day)
    if cells.dtype.kind != "M":
        if np.isnan(cells).all():
            return cells
        raise ValueError(f"{frame.source}: column {source.name!r} holds numbers, and needs dates.")
    return read_column(source.name, frame).values


def text_numbers(
    source: Source,
    frame: Frame,
    cells: Text,
    na: Collection[str],
    read: Callable[[str], float | None],
) -> np.ndarray:
    used = np.unique(cells.codes[cells.codes >= 0])
    present = [int(i) for i in used if not is_missing(cells.values[i], na)]
    numbers = []
    for index in present:
        number = read(cells.values[index])
        if number is None:
            refuse_cell(source.name, frame, cells, index, f"is no {source.kind}")
        numbers.append(number)
    return spread(cells, present, numbers)


def level_codes(source: Source, cells: Cells, na: Collection[str], notes: list[str]) -> np.ndarray:
    """The number of each cell's level; a level that is not among them is the rest, or the reference."""
    if not isinstance(cells, Text):
        cells = number_text_cells(cells)
    place = {level: number for number, level in enumerate(source.levels)}
    folded = {level.casefold(): number for number, level in enumerate(source.levels)}
    other = place.get(OTHER, -2)
    codes = np.full(len(cells.values) + 1, -1, np.int32)
    for index, value in enumerate(cells.values):
        if not is_missing(value, na):
            codes[index] = place.get(value, folded.get(value.casefold(), other))
    result = codes[cells.codes]
    unseen = result == -2
    if unseen.any():
        names = sorted({cells.values[i] for i in cells.codes[unseen]})
        notes.append(
            f"{source.name!r} has {len(names)} levels that the training rows do not have, in "
            f"{unseen.sum()} rows: {', '.join(some_names(names))}. They count as the reference, "
            f"{source.levels[0]!r}."
        )
        result[unseen] = 0
    return result


def some_names(names: list[str], most: int = 5) -> list[str]:
    return [repr(name[:40]) for name in names[:most]] + ["..."] * (len(names) > most)


def number_text_cells(cells: np.ndarray) -> Text:
    if cells.dtype.kind == "M":
        missing, different = np.isnat(cells), np.unique(cells[~np.isnat(cells)])
        names = tuple(str(moment) for moment in different)
    else:
        missing, different = np.isnan(cells), np.unique(cells[~np.isnan(cells)])
        names = tuple(map(number_text, different))
    codes = np.full(len(cells), -1, np.int32)
    codes[~missing] = np.searchsorted(different, cells[~missing])
    return Text(codes, names)
