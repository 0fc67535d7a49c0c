"""Read a table from a file: numbers to predict from, and a target of numbers or text."""

import csv
import difflib
import math
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from jaxtyping import Float, Int

from ..arrays import array_errors, read_array

ROWS_AT_ONCE = 4096
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
MISSING_TARGET = {"", "na", "n/a", "nan"}  # "none" can be a class
SAVE_AGAIN = "Save it again with numpy, as arrays of numbers: array.astype(float)."


class Table(NamedTuple):
    """Rows in the order of the file."""

    x: Float[np.ndarray, "n d"]
    y: np.ndarray  # [n], numbers or text
    columns: tuple[str, ...]
    target: str
    rows: Int[np.ndarray, " n"]  # numbers of lines in a CSV file, from 1, or of rows, from 0
    place: str  # what `rows` counts: "line" or "row"
    notes: tuple[str, ...] = ()


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
            first = file.readline()
            file.seek(0)
            lines = csv.reader(file, delimiter=max(",;\t", key=first.count), strict=True)
            header = [name.strip() for name in next(lines, [])]
            check_header(path, header)
            names = choose_columns(path, header, target, features)
            values, labels, rows = [], [], []
            for block in blocks(path, lines, len(header)):
                columns = list(zip(*(cells for _, cells in block), strict=True))
                numbers = [
                    parse_column(path, name, columns[header.index(name)], block) for name in names
                ]
                values.append(np.array(numbers, np.float64).reshape(len(names), len(block)).T)
                labels += [cell.strip() for cell in columns[header.index(target)]]
                rows += [line for line, _ in block]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text ({error.reason}). Save it as CSV in UTF-8."
        ) from error
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV: {error}. Save the table as CSV again.") from error
    x = np.concatenate(values) if values else np.empty((0, len(names)))
    return Table(x, parse_target(labels), names, target, np.array(rows, int), "line")


def blocks(path: Path, lines: Any, width: int) -> Iterator[list[tuple[int, list[str]]]]:
    """Blocks of rows with their line numbers, without blank lines."""
    numbered = ((lines.line_num, cells) for cells in lines if cells)
    while block := list(islice(numbered, ROWS_AT_ONCE)):
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


def parse_target(cells: list[str]) -> np.ndarray:
    """The target as numbers if all cells are numbers or empty, else as text."""
    cells = ["" if cell.lower() in MISSING_TARGET else cell for cell in cells]
    numbers = [parse_number(cell) for cell in cells]
    if all(number is not None and (cell == "") == math.isnan(number)
           for cell, number in zip(cells, numbers, strict=True)):  # fmt: skip
        return np.array(numbers, np.float64)
    return np.array(cells, str)


def check_header(path: Path, header: list[str]) -> None:
    if not any(header):
        raise ValueError(f"{path} is empty: its first line must name the columns.")
    if all(parse_number(name) is not None for name in header):
        raise ValueError(
            f"{path}: the first line holds numbers, not the names of columns. Add a line with names."
        )
    for number, name in enumerate(header):
        if not name:
            raise ValueError(
                f"{path}: column {number + 1} has no name. Give it one in the first line."
            )
        if name in header[:number]:
            raise ValueError(f"{path}: two columns have the name {name!r}. Rename one of them.")


def choose_columns(
    path: Path, header: Sequence[str], target: str, features: Sequence[str]
) -> tuple[str, ...]:
    """The names of the columns to predict from: `features`, or all but the target."""
    for name in (target, *features):
        if name not in header:
            near = difflib.get_close_matches(name, header, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            listed = ", ".join(header[:20]) + (", ..." if len(header) > 20 else "")
            raise ValueError(f"{path} has no column {name!r}.{hint} Its columns are: {listed}.")
    names = tuple(features) or tuple(name for name in header if name != target)
    if not names:
        raise ValueError(
            f"{path} has only the target {target!r}: there is nothing to predict it from."
        )
    return names


def read_npz(path: Path, target: str, features: Sequence[str]) -> Table:
    with array_errors(path, SAVE_AGAIN), zipfile.ZipFile(path) as archive:
        arrays = read_members(archive)
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2 and name != target:
            columns |= {f"{name}[{j}]": array[:, j] for j in range(array.shape[1])}
        else:
            raise ValueError(
                f"{path}: array {name!r} has shape {array.shape}; "
                + ("a target has one axis" if name == target else "arrays have one or two axes")
                + ", and the first counts the data."
            )
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{path}: arrays must have the same length, got {lengths}.")
    return array_table(path, columns, target, features)


def read_members(archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    """The arrays of an archive by name, unpacked in memory and not to disk."""
    size = sum(member.file_size for member in archive.infolist())
    free = psutil.virtual_memory().available
    if 2 * size > free:
        raise ValueError(f"unpacked it needs {2 * size:,} bytes and {free:,} are free")
    arrays = {}
    for member in archive.infolist():
        with archive.open(member) as file:
            arrays[member.filename.removesuffix(".npy")] = read_array(file)
    return arrays


def read_npy(path: Path, target: str, features: Sequence[str]) -> Table:
    with array_errors(path, SAVE_AGAIN), path.open("rb") as file:
        array = read_array(file)
    if array.ndim != 2:
        raise ValueError(f"{path} has shape {array.shape}; a table has two axes, rows and columns.")
    width = array.shape[1]
    if target.lstrip("-").isdecimal() and -width <= int(target) < 0:
        target = str(width + int(target))  # -1 is the last column
    return array_table(path, {str(j): array[:, j] for j in range(width)}, target, features)


def array_table(
    path: Path, columns: dict[str, np.ndarray], target: str, features: Sequence[str]
) -> Table:
    """The table of the columns that are chosen from an array file."""
    names = choose_columns(path, list(columns), target, features)
    for name in (*names, target):
        kind = columns[name].dtype.kind
        if kind not in ("biufU" if name == target else "biuf"):
            raise ValueError(
                f"{path}: column {name!r} has dtype {columns[name].dtype}. Encode it as numbers."
            )
    x = np.stack([columns[name].astype(np.float64) for name in names], axis=1)
    y = columns[target]
    y = np.char.strip(y) if y.dtype.kind == "U" else y.astype(np.float64)
    return Table(x, y, names, target, np.arange(len(y)), "row")
