"""Frames from `.csv` and `.tsv` files, packed (`.csv.gz`) or not, in UTF-8, UTF-16 or Latin-1.

A file is read up to three times, in blocks: to learn its encoding and its size; to read its columns
as numbers, or as text if their first rows are text; and again the columns that turned out to be
text later.
"""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from .cells import comma_decimals
from .columns import list_names
from .frame import EVERYTHING, Cells, Encoder, Frame, Wanted, check_memory, choose_names
from .read import LONGEST_HEADER, blocks, check_header, parse_number

BLOCK = 2**20
SMALL = 2**28  # bytes that any packed file may unpack to
LARGEST_RATIO = 100  # of a packed file, beyond that
NOT_WINDOWS = b"\x81\x8d\x8f\x90\x9d"  # bytes that Windows-1252 does not have
SAMPLE_ROWS = 1000  # that say whether decimals have commas
DELIMITERS = ",;\t|"
TEXT_BYTES = 24  # of memory for a cell: a number, its copy, and the reading of it
NUMERIC_MISSING = {"-", "--", ".", "#n/a", "n.a."}  # beside those of `parse_number`


class Layout(NamedTuple):
    """How the text of a file is written."""

    encoding: str
    delimiter: str
    decimal: str


def read_text_file(path: Path, wanted: Wanted = EVERYTHING) -> Frame:
    """The columns `wanted` of a text file, or all."""
    try:
        encoding = detect_encoding(path)
        layout = detect_layout(path, encoding)
        with lines_of(path, layout) as lines:
            header, notes = name_columns(next(lines, []))
            check_header(path, header)
            names = choose_names(str(path), header, wanted)
            columns, rows, late = read_columns(path, lines, header, names, layout.decimal)
        if late:
            with lines_of(path, layout) as lines:
                next(lines)
                again, _, _ = read_columns(path, lines, header, tuple(late), "")
                columns |= again
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}. Save the table again.") from error
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV: {error}. Save the table as CSV again.") from error
    if not len(rows):
        raise ValueError(f"{path} has no rows of data.")
    if encoding not in ("utf-8", "utf-8-sig"):
        said = {"cp1252": "Latin-1 (Windows-1252)", "latin-1": "Latin-1"}.get(encoding, "UTF-16")
        notes.append(f"The file is not UTF-8 text; it was read as {said}.")
    if layout.decimal == ",":
        notes.append("Decimals are written with a comma: 1,5 is one and a half.")
    ordered = {name: columns[name] for name in names}
    return Frame(ordered, rows, "line", str(path), layout.decimal, tuple(notes))


def open_bytes(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def detect_encoding(path: Path) -> str:
    """The encoding, from all bytes; ValueError if the file is no text or is too large."""
    packed = path.stat().st_size
    most = max(SMALL, LARGEST_RATIO * packed) if path.suffix.lower() == ".gz" else packed
    size = cells = controls = 0
    decoder, is_utf8, is_windows = codecs.getincrementaldecoder("utf-8")(), True, True
    start = b""
    with open_bytes(path) as file:
        while block := file.read(BLOCK):
            start = start or block[:4096]
            size += len(block)
            cells += max(map(block.count, DELIMITERS.encode())) + block.count(b"\n")
            controls += block.count(b"\0")
            if size > most:
                raise ValueError(
                    f"{path} unpacks to more than {most:,} bytes, from {packed:,}: this is no usual "
                    "table. Unpack it first."
                )
            is_windows = is_windows and not any(byte in block for byte in NOT_WINDOWS)
            try:
                if is_utf8:
                    decoder.decode(block)
            except UnicodeDecodeError:
                is_utf8 = False
    check_memory(str(path), TEXT_BYTES * cells)
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig" if is_utf8 else "latin-1"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if controls:  # every second byte of English text in UTF-16 is 0
        odd, even = start[1::2].count(0), start[::2].count(0)
        if max(odd, even) > 0.4 * len(start) / 2 and min(odd, even) < 0.1 * max(odd, even):
            return "utf-16-le" if odd > even else "utf-16-be"
        raise ValueError(
            f"{path} is no text: it has bytes that are 0. Save the table as CSV again."
        )
    return "utf-8" if is_utf8 else "cp1252" if is_windows else "latin-1"


@contextmanager
def text_of(path: Path, encoding: str) -> Iterator[IO[str]]:
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        try:
            yield text
        except UnicodeError as error:
            raise ValueError(
                f"{path} is not {encoding} text ({error}). Save it in UTF-8."
            ) from error


@contextmanager
def lines_of(path: Path, layout: Layout) -> Iterator[Iterator[list[str]]]:
    with text_of(path, layout.encoding) as text:
        yield csv.reader(text, delimiter=layout.delimiter, strict=True)


def detect_layout(path: Path, encoding: str) -> Layout:
    with text_of(path, encoding) as text:
        first = text.readline(LONGEST_HEADER)
        if len(first) == LONGEST_HEADER:
            raise ValueError(
                f"{path}: the first line is longer than {LONGEST_HEADER:,} characters. It must name "
                "the columns."
            )
        plain = re.sub(r'"[^"]*"', "", first)
        delimiter = max(DELIMITERS, key=plain.count)
        if delimiter == ",":  # then a comma separates cells
            return Layout(encoding, delimiter, ".")
        lines = csv.reader(text, delimiter=delimiter)
        sample = [
            cell for _, cells in zip(range(SAMPLE_ROWS), lines, strict=False) for cell in cells
        ]
    return Layout(encoding, delimiter, "," if comma_decimals(sample) else ".")


def name_columns(first: list[str]) -> tuple[list[str], list[str]]:
    """The header, with names for columns that have none (row numbers, often), and what was done."""
    if not any(cell.strip() for cell in first):
        return first, []
    names = [name.strip() or f"Unnamed: {number}" for number, name in enumerate(first)]
    unnamed = [name for name, cell in zip(names, first, strict=True) if not cell.strip()]
    note = f"Columns without a name are called {list_names(unnamed, 5)}."
    return names, [note] if unnamed else []


def read_columns(
    path: Path, lines: Iterator[list[str]], header: list[str], names: tuple[str, ...], decimal: str
) -> tuple[dict[str, Cells], np.ndarray, list[str]]:
    """Columns, row numbers, and the names of columns that are text, but not in their first block.

    Without `decimal` all columns are text.
    """
    place = {name: number for number, name in enumerate(header)}
    numbers: dict[str, list[np.ndarray]] = {name: [] for name in names if decimal}
    texts: dict[str, Encoder] = {name: Encoder() for name in names if not decimal}
    rows, late = [], []
    for block in blocks(path, lines, len(header)):
        columns = list(zip(*(cells for _, cells in block), strict=True))
        for name in list(numbers):
            values = parse_numbers(columns[place[name]], decimal)
            if values is not None:
                numbers[name].append(values)
                continue
            if numbers.pop(name):
                late.append(name)
            else:
                texts[name] = Encoder()
        for name, encoder in texts.items():
            encoder.add(columns[place[name]])
        rows.append(np.array([line for line, _ in block]))
    ready: dict[str, Cells] = {
        name: np.concatenate(parts) for name, parts in numbers.items() if parts
    }
    ready |= {name: encoder.text() for name, encoder in texts.items()}
    return ready, np.concatenate(rows) if rows else np.empty(0, int), late


def parse_numbers(column: tuple[str, ...], decimal: str) -> np.ndarray | None:
    """A column of a block as numbers, NaN where a cell is missing, or None if some cell is text."""
    joined = "".join(column)
    if decimal == ",":
        if "." in joined:  # thousands, perhaps: `cells` looks at the whole column
            return None
        column = tuple(cell.replace(",", ".") for cell in column)
    try:
        if "_" not in joined:
            return np.array(list(map(float, column)))
    except ValueError:
        pass  # some cell is missing, or is text
    numbers = []
    for cell in column:
        number = parse_number(cell)
        if number is None and cell.strip().lower() in NUMERIC_MISSING:
            number = np.nan
        if number is None:
            return None
        numbers.append(number)
    return np.array(numbers)
