"""Read a table from a file: numbers to predict from, and a target of numbers or text."""

import csv
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .array_files import read_npy, read_npz
from .columns import LONGEST_LABEL, LONGEST_NAME, Table, check_width, choose_columns

CELLS_AT_ONCE = 2**18
LONGEST_HEADER = 2**24  # characters of the first line
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
MISSING_TARGET = {"", "na", "n/a", "nan"}  # "none" can be a class


def read(path: Path, target: str, features: Sequence[str] = (), missing: str = "refuse") -> Table:
    """Read a table; `missing`: "refuse" rows with empty cells, or "drop" them."""
    readers = {".csv": read_csv, ".tsv": read_csv, ".npz": read_npz, ".npy": read_npy}
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise ValueError(
            f"{path}: a table is a file that ends in {', '.join(readers)}. Save it as CSV, with a "
            "header."
        )
    if not path.is_file():
        raise ValueError(f"{path}: {'this is a directory' if path.is_dir() else 'no such file'}.")
    table = readers[suffix](path, target, features)
    if not len(table.rows):
        raise ValueError(f"{path} has no rows of data.")
    return drop_empty(path, table, missing)


def drop_empty(path: Path, table: Table, missing: str) -> Table:
    """Drop or refuse rows with empty cells, which are NaN or ""; refuse infinite numbers."""
    text = table.y.dtype.kind == "U"
    empty = np.column_stack([np.isnan(table.x), table.y == "" if text else np.isnan(table.y)])
    names = (*table.columns, table.target)
    numeric = table.x if text else np.column_stack([table.x, table.y])
    if len(infinite := np.argwhere(np.isinf(numeric))):
        row, column = infinite[0]
        raise ValueError(
            f"{path}: {len(infinite)} infinite values, the first in {table.place} {table.rows[row]}, "
            f"column {names[column]!r}. Remove or replace them."
        )
    if not empty.any():
        return table
    counts = empty.sum(0)
    first = table.rows[empty.argmax(0)]
    where = ", ".join(
        f"{counts[c]} in column {names[c]!r} (first in {table.place} {first[c]})"
        for c in np.flatnonzero(counts)[:5]
    ) + (" and in other columns" if (counts > 0).sum() > 5 else "")
    if missing == "refuse":
        raise ValueError(
            f"{path}: {empty.sum()} cells are empty: {where}. Fill them in, or leave such rows out "
            "with --missing drop."
        )
    full = ~empty.any(1)
    if not full.any():
        raise ValueError(f"{path}: every row has an empty cell: {where}.")
    note = f"{(~full).sum()} rows with empty cells were left out: {where}."
    return table._replace(x=table.x[full], y=table.y[full], rows=table.rows[full], notes=(note,))


def read_csv(path: Path, target: str, features: Sequence[str]) -> Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline(LONGEST_HEADER)
            if len(first) == LONGEST_HEADER:
                raise ValueError(
                    f"{path}: the first line is longer than {LONGEST_HEADER:,} characters. It must "
                    "name the columns."
                )
            file.seek(0)
            lines = csv.reader(file, delimiter=max(",;\t", key=first.count), strict=True)
            header = [name.strip() for name in next(lines, [])]
            check_header(path, header)
            names = choose_columns(path, header, target, features)
            place = {name: number for number, name in enumerate(header)}
            values, labels, rows = [], [], []
            for block in blocks(path, lines, len(header)):
                columns = list(zip(*(cells for _, cells in block), strict=True))
                numbers = [parse_column(path, name, columns[place[name]], block) for name in names]
                values.append(np.array(numbers, np.float64).reshape(len(names), len(block)).T)
                labels += [cell.strip() for cell in columns[place[target]]]
                rows += [line for line, _ in block]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text ({error.reason}). Save it as CSV in UTF-8."
        ) from error
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV: {error}. Save the table as CSV again.") from error
    x = np.concatenate(values) if values else np.empty((0, len(names)))
    y = parse_target(path, target, labels, rows)
    return Table(x, y, names, target, np.array(rows, int), "line")


def blocks(path: Path, lines: Any, width: int) -> Iterator[list[tuple[int, list[str]]]]:
    """Blocks of rows with their line numbers, without blank lines."""
    numbered = ((lines.line_num, cells) for cells in lines if cells)
    while block := list(islice(numbered, max(1, CELLS_AT_ONCE // width))):
        for line, cells in block:
            if len(cells) != width:
                raise ValueError(
                    f"{path}: line {line} has {len(cells)} cells, the header has {width}. Give every "
                    "line one cell for each column."
                )
        yield block


def parse_column(
    path: Path, name: str, column: tuple[str, ...], block: list[tuple[int, list[str]]]
) -> list[float]:
    """A column of a block as numbers, NaN where a cell is empty."""
    try:
        if "_" not in "".join(column):
            return list(map(float, column))
    except ValueError:
        pass  # some cell is empty, or not a number
    numbers = []
    for cell, (line, _) in zip(column, block, strict=True):
        number = parse_number(cell)
        if number is None:
            raise ValueError(
                f"{path}: line {line}, column {name!r}: {cell[:40]!r} is not a number. Encode it as "
                "numbers, or choose other columns with --features."
            )
        numbers.append(number)
    return numbers


def parse_number(cell: str) -> float | None:
    """A number, NaN for an empty cell, or None."""
    try:
        number = float(cell)
    except ValueError:
        return math.nan if cell.strip().lower() in MISSING else None
    return None if "_" in cell else number  # Python accepts 1_000, which is no usual number


def parse_target(path: Path, target: str, cells: list[str], rows: list[int]) -> np.ndarray:
    """The target as numbers if all cells are numbers or empty, else as text."""
    cells = ["" if cell.lower() in MISSING_TARGET else cell for cell in cells]
    numbers = [parse_number(cell) for cell in cells]
    pairs = zip(cells, numbers, strict=True)
    if not any(number is None or (cell and math.isnan(number)) for cell, number in pairs):
        return np.array(numbers, np.float64)
    for cell, row in zip(cells, rows, strict=True):
        if len(cell) > LONGEST_LABEL:
            raise ValueError(
                f"{path}: line {row}, target {target!r}: the name of a class has at most "
                f"{LONGEST_LABEL} characters, got {len(cell)}: {cell[:40]!r}... Use shorter names."
            )
    return np.array(cells, str)


def check_header(path: Path, header: list[str]) -> None:
    if not any(header):
        raise ValueError(f"{path} is empty: its first line must name the columns.")
    check_width(path, len(header))
    if all(parse_number(name) is not None for name in header):
        raise ValueError(
            f"{path}: the first line holds numbers, not the names of columns. Add a line with names."
        )
    names: set[str] = set()
    for number, name in enumerate(header):
        if not name:
            raise ValueError(
                f"{path}: column {number + 1} has no name. Give it one in the first line."
            )
        if len(name) > LONGEST_NAME:
            raise ValueError(
                f"{path}: the name of column {number + 1} has {len(name)} characters, and at most "
                f"{LONGEST_NAME} are allowed: {name[:40]!r}..."
            )
        if name in names:
            raise ValueError(f"{path}: two columns have the name {name!r}. Rename one of them.")
        names.add(name)
