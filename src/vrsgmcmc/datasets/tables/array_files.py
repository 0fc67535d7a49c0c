"""Tables from `.npy` and `.npz` files: headers are checked first, and only what is used is unpacked."""

import math
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from ..arrays import array_errors, read_array, read_header
from .columns import LONGEST_LABEL, MOST_COLUMNS, Table, check_width, choose_columns
from .frame import EVERYTHING, Cells, Encoder, Frame, Wanted, check_memory, choose_names

SAVE_AGAIN = "Save it again with numpy, as arrays of numbers: array.astype(float)."


class Header(NamedTuple):
    """The header of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def width(self) -> int:
        return self.shape[1] if len(self.shape) == 2 else 1

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def check_length(self, length: int) -> None:
        """Refuse an array that says it is larger than its part of the file."""
        if self.nbytes > length:
            raise ValueError(f"its array needs {self.nbytes:,} bytes and the file has {length:,}")


class Column(NamedTuple):
    """Where a column is: an array, and the column of it if it has two axes."""

    array: str
    number: int | None


class Arrays(NamedTuple):
    """The arrays of a file, before they are read."""

    headers: dict[str, Header]
    columns: dict[str, Column]
    load: Callable[[str], np.ndarray]


def read_npz(path: Path, target: str, features: Sequence[str]) -> Table:
    return array_table(path, open_npz(path, target), target, features)


def npz_frame(path: Path, wanted: Wanted = EVERYTHING) -> Frame:
    return array_frame(path, open_npz(path), wanted)


def open_npz(path: Path, target: str | None = None) -> Arrays:
    with array_errors(path, SAVE_AGAIN), zipfile.ZipFile(path) as archive:
        members = {
            m.filename.removesuffix(".npy"): m for m in archive.infolist()[: MOST_COLUMNS + 1]
        }
        check_width(path, len(members))
        headers = {}
        for name, member in members.items():
            with archive.open(member) as file:
                headers[name] = Header(*read_header(file))
    check_shapes(path, headers, target)
    columns: dict[str, Column] = {}
    for name, (shape, _) in headers.items():
        if len(shape) == 1:
            columns[name] = Column(name, None)
        else:
            columns |= {f"{name}[{j}]": Column(name, j) for j in range(shape[1])}

    def load(name: str) -> np.ndarray:
        with array_errors(path, SAVE_AGAIN), zipfile.ZipFile(path) as archive:
            headers[name].check_length(members[name].file_size)
            with archive.open(members[name]) as file:
                return read_array(file)

    return Arrays(headers, columns, load)


def check_shapes(path: Path, headers: dict[str, Header], target: str | None) -> None:
    """Refuse arrays that are no columns, that differ in length, or that are too wide."""
    for name, (shape, _) in headers.items():
        if len(shape) not in ((1,) if name == target else (1, 2)):
            raise ValueError(
                f"{path}: array {name!r} has shape {shape}; "
                + ("a target has one axis" if name == target else "arrays have one or two axes")
                + ", and the first counts the data."
            )
    lengths = {name: header.shape[0] for name, header in headers.items()}
    if len(set(lengths.values())) > 1:
        some = dict(list(lengths.items())[:10])
        raise ValueError(f"{path}: arrays must have the same length, got {some}.")
    check_width(path, sum(header.width for header in headers.values()))


def read_npy(path: Path, target: str, features: Sequence[str]) -> Table:
    arrays = open_npy(path)
    width = len(arrays.columns)
    if target.lstrip("-").isdecimal() and len(target) < 10 and -width <= int(target) < 0:
        target = str(width + int(target))  # -1 is the last column
    return array_table(path, arrays, target, features)


def npy_frame(path: Path, wanted: Wanted = EVERYTHING) -> Frame:
    return array_frame(path, open_npy(path), wanted)


def open_npy(path: Path) -> Arrays:
    with array_errors(path, SAVE_AGAIN), path.open("rb") as file:
        header = Header(*read_header(file))
        header.check_length(path.stat().st_size - file.tell())
    if len(header.shape) != 2:
        raise ValueError(
            f"{path} has shape {header.shape}; a table has two axes, rows and columns."
        )
    check_width(path, width := header.width)
    columns = {str(j): Column("", j) for j in range(width)}

    def load(name: str) -> np.ndarray:
        with array_errors(path, SAVE_AGAIN), path.open("rb") as file:
            return read_array(file)

    return Arrays({"": header}, columns, load)


def array_frame(path: Path, arrays: Arrays, wanted: Wanted) -> Frame:
    """The frame of the columns `wanted` of an array file, or of all."""
    headers, columns, load = arrays
    names = choose_names(str(path), columns, wanted)
    for name in names:
        if (dtype := headers[columns[name].array].dtype).kind not in "biufUM":
            raise ValueError(f"{path}: column {name!r} has dtype {dtype}. {SAVE_AGAIN}")
    used = dict.fromkeys(columns[name].array for name in names)
    check_memory(str(path), 3 * sum(headers[array].nbytes for array in used))
    if not all(headers[array].shape[0] for array in used):
        raise ValueError(f"{path} has no rows of data.")
    ready = {array: load(array) for array in used}
    cells: dict[str, Cells] = {}
    for name in names:
        array, number = columns[name]
        cells[name] = plain_cells(ready[array] if number is None else ready[array][:, number])
    if not ready:
        raise ValueError(f"{path} holds no columns. Save the table as CSV, with a header.")
    return Frame(cells, np.arange(len(next(iter(ready.values())))), "row", str(path))


def plain_cells(values: np.ndarray) -> Cells:
    if values.dtype.kind in "bU":
        encoder = Encoder()
        encoder.add(str(cell) for cell in values.tolist())
        return encoder.text()
    return values.astype("datetime64[ms]" if values.dtype.kind == "M" else np.float64)


def array_table(path: Path, arrays: Arrays, target: str, features: Sequence[str]) -> Table:
    """The table of the columns that are chosen from an array file."""
    headers, columns, load = arrays
    names = choose_columns(path, columns, target, features)
    for name in (*names, target):
        dtype = headers[columns[name].array].dtype
        if dtype.kind not in ("biufU" if name == target else "biuf"):
            raise ValueError(f"{path}: column {name!r} has dtype {dtype}. Encode it as numbers.")
    (length, *_), dtype = headers[columns[target].array]
    if dtype.kind == "U" and dtype.itemsize > 4 * LONGEST_LABEL:
        raise ValueError(
            f"{path}: target {target!r} has dtype {dtype}: the name of a class has at most "
            f"{LONGEST_LABEL} characters. Use shorter names."
        )
    if not length:
        raise ValueError(f"{path} has no rows of data.")
    wanted = {columns[name].array for name in (*names, target)}
    needed = 2 * sum(headers[array].nbytes for array in wanted)
    if needed > (free := psutil.virtual_memory().available):
        raise ValueError(
            f"{path}: unpacked it needs {needed:,} bytes and {free:,} are free. Save fewer rows."
        )
    ready = {array: load(array) for array in wanted}

    def values(name: str) -> np.ndarray:
        array, number = columns[name]
        return ready[array] if number is None else ready[array][:, number]

    y = values(target)
    x = np.empty((len(y), len(names)))
    for number, name in enumerate(names):
        x[:, number] = values(name)
    y = np.char.strip(y) if y.dtype.kind == "U" else y.astype(np.float64)
    return Table(x, y, names, target, np.arange(len(y)), "row")
