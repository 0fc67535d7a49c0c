"""A table from a file: numbers to predict from, and a target of numbers or text."""

from __future__ import annotations

import csv
import difflib
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from jaxtyping import Float, Int

ROWS_AT_ONCE = 4096
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
MISSING_TARGET = {"", "na", "n/a", "nan"}  # "none" can be a class
UNREADABLE = (
    *(ValueError, KeyError, EOFError, OSError, MemoryError, RuntimeError, TypeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)  # what NumPy and zipfile raise for a damaged file


class Table(NamedTuple):
    """Rows as they are in the file, without those that had empty cells."""

    x: Float[np.ndarray, "n d"]
    y: np.ndarray  # [n], numbers or text
    columns: tuple[str, ...]
    target: str
    rows: Int[np.ndarray, " n"]  # of a CSV file the lines, from 1; of arrays the rows, from 0
    place: str  # what `rows` counts: "line" or "row"
    notes: tuple[str, ...] = ()


def read(path: Path, target: str, features: Sequence[str] = (), missing: str = "refuse") -> Table:
    """Read a table; `missing`: "refuse" rows with empty cells, or "drop" them."""
    readers = {".csv": csv_columns, ".tsv": csv_columns, ".npz": npz_columns, ".npy": npy_columns}
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise ValueError(
            f"{path}: a table is a file that ends in {', '.join(readers)}. Save it as CSV, with a "
            "header."
        )
    if not path.is_file():
        raise ValueError(f"{path}: {'this is a directory' if path.is_dir() else 'no such file'}.")
    found = readers[suffix](path, target, features)
    if not len(found.rows):
        raise ValueError(f"{path} has no rows of data.")
    return complete(path, found, missing)


class Columns(NamedTuple):
    """What a reader found: NaN, and "" in text, where a cell is empty."""

    values: np.ndarray  # [n, d]
    target: np.ndarray
    names: tuple[str, ...]
    label: str
    rows: np.ndarray
    place: str


def complete(path: Path, found: Columns, missing: str) -> Table:
    """The table without empty cells; infinite numbers are refused."""
    words = found.target.dtype.kind == "U"
    empty = np.column_stack(
        [np.isnan(found.values), found.target == "" if words else np.isnan(found.target)]
    )
    names = (*found.names, found.label)
    numeric = found.values if words else np.column_stack([found.values, found.target])
    if len(wrong := np.argwhere(np.isinf(numeric))):
        row, column = wrong[0]
        raise ValueError(
            f"{path}: {len(wrong)} infinite values, the first in {found.place} {found.rows[row]}, "
            f"column {names[column]!r}. Remove or replace them."
        )
    notes = []
    if empty.any():
        counts = empty.sum(0)
        first = found.rows[empty.argmax(0)]
        told = ", ".join(
            f"{counts[c]} in column {names[c]!r} (first in {found.place} {first[c]})"
            for c in np.flatnonzero(counts)[:5]
        ) + (" and in other columns" if (counts > 0).sum() > 5 else "")
        if missing == "refuse":
            raise ValueError(
                f"{path}: {empty.sum()} cells are empty: {told}. Fill them in, or leave such rows out "
                "with --missing drop."
            )
        notes.append(f"{empty.any(1).sum()} rows with empty cells were left out: {told}.")
    keep = ~empty.any(1)
    if not keep.any():
        raise ValueError(f"{path}: every row has an empty cell: {told}.")
    x, y, rows = found.values[keep], found.target[keep], found.rows[keep]
    return Table(x, y, found.names, found.label, rows, found.place, tuple(notes))


def csv_columns(path: Path, target: str, features: Sequence[str]) -> Columns:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            lines = csv.reader(file, delimiter=max(",;\t", key=first.count), strict=True)
            header = [name.strip() for name in next(lines, [])]
            check_header(path, header)
            names, places, at = choose(path, header, target, features)
            values, labels, rows = [], [], []
            for block in blocks(path, lines, len(header)):
                columns = list(zip(*(cells for _, cells in block), strict=True))
                numbers = [
                    block_numbers(path, header[place], columns[place], block) for place in places
                ]
                values.append(np.array(numbers, np.float64).reshape(len(places), len(block)).T)
                labels += [cell.strip() for cell in columns[at]]
                rows += [line for line, _ in block]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text ({error.reason}). Save it as CSV in UTF-8."
        ) from error
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV: {error}. Save the table as CSV again.") from error
    x = np.concatenate(values) if values else np.empty((0, len(names)))
    return Columns(x, as_numbers(labels), names, header[at], np.array(rows, int), "line")


def blocks(path: Path, lines: Any, width: int) -> Iterator[list[tuple[int, list[str]]]]:
    """Some rows at a time, with their line numbers; blank lines do not count."""
    numbered = ((lines.line_num, cells) for cells in lines if cells)
    while block := list(islice(numbered, ROWS_AT_ONCE)):
        for line, cells in block:
            if len(cells) != width:
                raise ValueError(
                    f"{path}: line {line} has {len(cells)} cells, the header has {width}. Give every "
                    "line one cell for each column."
                )
        yield block


def block_numbers(
    path: Path, name: str, column: tuple[str, ...], block: list[tuple[int, list[str]]]
) -> list[float]:
    """A column of a block as numbers, NaN where a cell is empty."""
    try:
        if "_" not in "".join(column):
            return list(map(float, column))
    except ValueError:
        pass  # some cell is empty, or no number
    found = []
    for cell, (line, _) in zip(column, block, strict=True):
        number = as_number(cell)
        if number is None:
            raise ValueError(
                f"{path}: line {line}, column {name!r}: {cell[:40]!r} is not a number. Encode it as "
                "numbers, or choose other columns with --features."
            )
        found.append(number)
    return found


def as_number(cell: str) -> float | None:
    """A number, NaN for an empty cell, or None."""
    try:
        number = float(cell)
    except ValueError:
        return math.nan if cell.strip().lower() in MISSING else None
    return None if "_" in cell else number  # Python reads 1_000, nobody writes it


def as_numbers(cells: list[str]) -> np.ndarray:
    """Labels as numbers where all of them are, else as text."""
    cells = ["" if cell.lower() in MISSING_TARGET else cell for cell in cells]
    numbers = [as_number(cell) for cell in cells]
    if all(number is not None and (cell == "") == math.isnan(number)
           for cell, number in zip(cells, numbers, strict=True)):  # fmt: skip
        return np.array(numbers, np.float64)
    return np.array(cells, str)


def check_header(path: Path, header: list[str]) -> None:
    if not any(header):
        raise ValueError(f"{path} is empty: its first line must name the columns.")
    if all(as_number(name) is not None for name in header):
        raise ValueError(
            f"{path}: the first line holds numbers, not the names of columns. Add a line with names."
        )
    check_names(path, header)


def check_names(path: Path, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        if not name:
            raise ValueError(
                f"{path}: column {number + 1} has no name. Give it one in the first line."
            )
        if name in names[:number]:
            raise ValueError(f"{path}: two columns have the name {name!r}. Rename one of them.")


def choose(
    path: Path, header: Sequence[str], target: str, features: Sequence[str]
) -> tuple[tuple[str, ...], list[int], int]:
    """The names and places of the columns to predict from, and the place of the target."""
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
    return names, [header.index(name) for name in names], header.index(target)


def npz_columns(path: Path, target: str, features: Sequence[str]) -> Columns:
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = dict(members(archive))
    except UNREADABLE as error:
        raise ValueError(f"{path} cannot be read: {load_problem(error)}") from error
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
    return array_columns(path, columns, target, features)


def members(archive: zipfile.ZipFile) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of an archive, read one by one in memory: nothing is unpacked to disk."""
    size = sum(member.file_size for member in archive.infolist())
    free = psutil.virtual_memory().available
    if free is not None and 2 * size > free:
        raise ValueError(f"unpacked it needs {2 * size:,} bytes and {free:,} are free")
    for member in archive.infolist():
        with archive.open(member) as file:
            yield (
                member.filename.removesuffix(".npy"),
                np.lib.format.read_array(file, allow_pickle=False),
            )


def npy_columns(path: Path, target: str, features: Sequence[str]) -> Columns:
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except UNREADABLE as error:
        raise ValueError(f"{path} cannot be read: {load_problem(error)}") from error
    if array.ndim != 2:
        raise ValueError(f"{path} has shape {array.shape}; a table has two axes, rows and columns.")
    width = array.shape[1]
    if target.lstrip("-").isdecimal() and -width <= int(target) < 0:
        target = str(width + int(target))  # -1 is the last one
    return array_columns(path, {str(j): array[:, j] for j in range(width)}, target, features)


def load_problem(error: Exception) -> str:
    if "allow_pickle" in str(error) or "Object arrays" in str(error):
        return "it holds Python objects, which could run code. Save numbers: array.astype(float)."
    return f"{error}. Save it again with numpy."


def array_columns(
    path: Path, columns: dict[str, np.ndarray], target: str, features: Sequence[str]
) -> Columns:
    header = list(columns)
    names, _, _ = choose(path, header, target, features)
    for name in (*names, target):
        kind = columns[name].dtype.kind
        if kind not in ("biufU" if name == target else "biuf"):
            raise ValueError(
                f"{path}: column {name!r} has dtype {columns[name].dtype}. Encode it as numbers."
            )
    values = np.stack([columns[name].astype(np.float64) for name in names], axis=1)
    y = columns[target]
    y = np.char.strip(y) if y.dtype.kind == "U" else y.astype(np.float64)
    return Columns(values, y, names, target, np.arange(len(y)), "row")
