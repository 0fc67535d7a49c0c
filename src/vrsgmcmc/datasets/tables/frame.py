"""Frame: the cells of a table as they are in its file, before anybody decides what they mean."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np
import psutil
from jaxtyping import Int

from .columns import LONGEST_NAME, MOST_COLUMNS, list_names, similar_name


class Text(NamedTuple):
    """A column of text: cell i is `values[codes[i]]`, and code -1 is an empty cell."""

    codes: Int[np.ndarray, " n"]
    values: tuple[str, ...]
    ordered: bool = False  # the order of `values` has a meaning


Cells = np.ndarray | Text  # float64 with NaN, datetime64[ms] with NaT, or text


class Frame(NamedTuple):
    """Columns of one length. A cell of a text column that looks like a number may be one."""

    columns: dict[str, Cells]
    rows: Int[np.ndarray, " n"]  # numbers of lines in a CSV file, from 1, or of rows, from 0
    place: str  # what `rows` counts: "line" or "row"
    source: str  # the path of a file, or "the table", for messages
    decimal: str = "."  # or ","
    notes: tuple[str, ...] = ()


class Encoder:
    """Text cells, block by block, as codes of the different ones."""

    def __init__(self) -> None:
        self.index: dict[str | None, int] = {}
        self.blocks: list[np.ndarray] = []

    def add(self, cells: Iterable[str | None]) -> None:
        index = self.index
        codes = [index.setdefault(cell, len(index)) for cell in cells]
        self.blocks.append(np.array(codes, np.int32))

    def text(self) -> Text:
        codes = np.concatenate(self.blocks) if self.blocks else np.empty(0, np.int32)
        return recode(codes, tuple(self.index))


def recode(codes: np.ndarray, cells: Iterable[str | None], ordered: bool = False) -> Text:
    """A text column whose values are different, have no space around them, and are not None."""
    index: dict[str, int] = {}
    places = []
    for cell in cells:
        value = None if cell is None else cell.strip()
        places.append(-1 if value is None else index.setdefault(value, len(index)))
    places.append(-1)  # code -1 stays
    return Text(np.array(places, np.int32)[codes], tuple(index), ordered)


def cell_text(value: object) -> str | None:
    """The text of a Python value of a column of objects; TypeError if it is a list or the like."""
    if value is None or value != value:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Hashable) and not hasattr(value, "__iter__"):
        return number_text(value) if isinstance(value, int | float | np.number) else str(value)
    raise TypeError(f"a cell holds a {type(value).__name__}")


def number_text(value: float | np.number) -> str:
    """3.0 as "3", and 2.5 as "2.5"."""
    number = float(value)
    return str(int(number)) if number.is_integer() else repr(number)


def row_count(cells: Cells) -> int:
    return len(cells.codes) if isinstance(cells, Text) else len(cells)


def take(cells: Cells, rows: np.ndarray) -> Cells:
    """Some rows of a column."""
    return cells._replace(codes=cells.codes[rows]) if isinstance(cells, Text) else cells[rows]


def check_names(source: str, names: Iterable[str]) -> None:
    """Refuse too many names, long names, and two of one name."""
    earlier: set[str] = set()
    for number, name in enumerate(names):
        if number >= MOST_COLUMNS:
            raise ValueError(
                f"{source} has more than {MOST_COLUMNS:,} columns. Save the columns that are needed."
            )
        if len(name) > LONGEST_NAME:
            raise ValueError(
                f"{source}: the name of column {number + 1} has {len(name)} characters, and at most "
                f"{LONGEST_NAME} are allowed: {name[:40]!r}..."
            )
        if name in earlier:
            raise ValueError(f"{source}: two columns have the name {name!r}. Rename one of them.")
        earlier.add(name)


class Wanted(NamedTuple):
    """Columns to read, all if none is named, and columns that must be there before any is read."""

    columns: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


EVERYTHING = Wanted()


def choose_names(source: str, names: Iterable[str], wanted: Wanted) -> tuple[str, ...]:
    """The columns to read; ValueError if one that is wanted is not among `names`."""
    header = dict.fromkeys(names)
    for name in (*wanted.columns, *wanted.required):
        if name not in header:
            raise ValueError(
                f"{source} has no column {name!r}.{similar_name(name, header)} Its columns are: "
                f"{list_names(header, 20)}."
            )
    return tuple(dict.fromkeys(wanted.columns)) or tuple(header)


def check_memory(source: str, needed: int) -> None:
    """Refuse a table before it is unpacked, if it does not fit into the free memory."""
    if needed > (free := psutil.virtual_memory().available):
        raise ValueError(
            f"{source}: unpacked it needs {needed:,} bytes and {free:,} are free. Save fewer rows."
        )
