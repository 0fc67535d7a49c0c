"""What a table is, how large it may be, and which of its columns are used."""

import difflib
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

MOST_COLUMNS = 100_000
LONGEST_NAME = 1000  # characters of a column's name
LONGEST_LABEL = 100  # characters of a class: NumPy stores all cells as long as the longest
MOST_SIMILAR = 2000  # names that a misspelt one is compared with


class Table(NamedTuple):
    """Rows in the order of the file."""

    x: Float[np.ndarray, "n d"]
    y: np.ndarray  # [n], numbers or text
    columns: tuple[str, ...]
    target: str
    rows: Int[np.ndarray, " n"]  # numbers of lines in a CSV file, from 1, or of rows, from 0
    place: str  # what `rows` counts: "line" or "row"
    notes: tuple[str, ...] = ()


def check_width(path: Path, width: int) -> None:
    """Refuse a table before its columns are named and its rows are read."""
    if width > MOST_COLUMNS:
        raise ValueError(
            f"{path} has {width:,} columns, and a table has at most {MOST_COLUMNS:,}. Save the "
            "columns that are needed."
        )


def choose_columns(
    path: Path, header: Iterable[str], target: str, features: Sequence[str]
) -> tuple[str, ...]:
    """The names of the columns to predict from: `features`, or all but the target."""
    header = dict.fromkeys(header)
    for name in (target, *features):
        if name not in header:
            raise ValueError(
                f"{path} has no column {name!r}.{similar_name(name, header)} Its columns are: "
                f"{list_names(header, 20)}."
            )
    names = tuple(features) or tuple(name for name in header if name != target)
    if not names:
        raise ValueError(
            f"{path} has only the target {target!r}: there is nothing to predict it from."
        )
    return names


def similar_name(name: str, header: Iterable[str]) -> str:
    """The hint " Did you mean X?"; long names and long lists would take long to compare."""
    short = (each for each in header if len(each) <= 2 * len(name) <= 200)
    near = difflib.get_close_matches(name, list(islice(short, MOST_SIMILAR)), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def list_names(names: Collection[str], most: int) -> str:
    """The first names for a message: on one line, with what is not printable as escapes."""
    listed = map(printable, islice(names, most))
    return ", ".join([*listed, *["..."] * (len(names) > most)])


def printable(text: str) -> str:
    """A text for a message, with what is not printable as escapes."""
    return text if text.isprintable() else repr(text)[1:-1]
