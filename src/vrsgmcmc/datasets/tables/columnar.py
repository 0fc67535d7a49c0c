"""Frames from Parquet, Arrow and Feather files, and from tables in memory: pandas, polars, pyarrow,
dicts.

What a file says about its size is checked before it is read, and its rows are read in batches.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .arrow_sizes import batch_sizes
from .columns import printable
from .frame import (
    EVERYTHING,
    Cells,
    Encoder,
    Frame,
    Text,
    Wanted,
    cell_text,
    check_memory,
    check_names,
    choose_names,
    recode,
    row_count,
)

BATCH_ROWS = 2**16
CELL_BYTES = 24  # a number, its copy, and the reading of it
LARGEST_SCHEMA = 2**26  # bytes of a Parquet file's description of itself
SAVE_AGAIN = "Save the table again."


def require(name: str) -> Any:
    """A library of the extra `tables`."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"this table needs {name.partition('.')[0]}: pip install 'vrsgmcmc[tables]'"
        ) from error


def read_parquet(path: Path, wanted: Wanted = EVERYTHING) -> Frame:
    pa, parquet = require("pyarrow"), require("pyarrow.parquet")
    limits = {
        "thrift_string_size_limit": LARGEST_SCHEMA,
        "thrift_container_size_limit": 10**6,
    }
    try:
        with parquet.ParquetFile(path, **limits) as file:
            about, schema = file.metadata, file.schema_arrow
            check_names(str(path), schema.names)
            names = choose_names(str(path), schema.names, wanted)
            check_memory(str(path), about.num_rows * len(names) * CELL_BYTES)
            groups = (about.row_group(number) for number in range(about.num_row_groups))
            check_memory(str(path), 2 * sum(group.total_byte_size for group in groups))
            texts = [field.name for field in schema if is_text(pa, field.type)]
        with parquet.ParquetFile(path, **limits, read_dictionary=texts, pre_buffer=False) as file:
            batches = file.iter_batches(BATCH_ROWS, columns=list(names))
            return batch_frame(str(path), names, batches, about.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read: {short(error)}. {SAVE_AGAIN}") from error


def read_arrow(path: Path, wanted: Wanted = EVERYTHING) -> Frame:
    """A Feather (version 2) or Arrow file, in the format of files or of streams."""
    pa, ipc = require("pyarrow"), require("pyarrow.ipc")
    try:
        with pa.memory_map(str(path)) as file:
            is_file = file.read(6) == b"ARROW1"
            rows, size = batch_sizes(ipc, file, 8 if is_file else 0)
            file.seek(0)
            reader = ipc.open_file(file) if is_file else ipc.open_stream(file)
            check_names(str(path), reader.schema.names)
            names = choose_names(str(path), reader.schema.names, wanted)
            check_memory(str(path), rows * len(names) * CELL_BYTES)
            check_memory(str(path), 2 * size)
            batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
            return batch_frame(str(path), names, batches, rows)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read: {short(error)}. {SAVE_AGAIN}") from error


def short(error: Exception) -> str:
    first = str(error).partition("\n")[0][:200].rstrip(".")
    return printable(first)


def is_text(pa: Any, kind: Any) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def batch_frame(source: str, names: tuple[str, ...], batches: Iterable[Any], rows: int) -> Frame:
    """The frame of record batches with at most `rows` rows."""
    parts: dict[str, list[Cells]] = {name: [] for name in names}
    total = 0
    for batch in batches:
        batch.validate(full=True)  # a damaged batch could point outside of itself
        total += batch.num_rows
        if total > rows:
            raise ValueError(f"{source} has more rows than the {rows:,} that it says. {SAVE_AGAIN}")
        for name in names:
            parts[name].append(arrow_cells(source, name, batch.column(name)))
    if not total:
        raise ValueError(f"{source} has no rows of data.")
    columns = {name: join(parts.pop(name)) for name in names}
    return Frame(columns, np.arange(total), "row", source)


def join(parts: list[Cells]) -> Cells:
    """One column of its blocks."""
    texts = [part for part in parts if isinstance(part, Text)]
    if not texts:
        return np.concatenate([part for part in parts if not isinstance(part, Text)])
    values: dict[str, int] = {}
    codes = []
    for text in texts:  # the same type in every batch
        places = [values.setdefault(value, len(values)) for value in text.values]
        codes.append(np.array([*places, -1], np.int32)[text.codes])
    return Text(np.concatenate(codes), tuple(values), texts[0].ordered)


def arrow_cells(source: str, name: str, column: Any) -> Cells:
    pa = require("pyarrow")
    kind, types = column.type, pa.types
    if types.is_dictionary(kind) and is_text(pa, kind.value_type):
        codes = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return recode(codes, column.dictionary.to_pylist(), bool(kind.ordered))
    if types.is_dictionary(kind):
        return arrow_cells(source, name, column.dictionary_decode())
    if types.is_boolean(kind):
        codes = column.cast(pa.int8()).fill_null(-1).to_numpy(zero_copy_only=False)
        return Text(codes.astype(np.int32), ("False", "True"))
    if is_text(pa, kind):
        return arrow_cells(source, name, column.cast(pa.large_string()).dictionary_encode())
    if types.is_date(kind) or types.is_timestamp(kind):
        moments = column.cast(pa.timestamp("ms"), safe=False)
        return moments.to_numpy(zero_copy_only=False).astype("datetime64[ms]")
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = column.cast(pa.float64(), safe=False)
        return numbers.to_numpy(zero_copy_only=False).astype(np.float64)
    raise ValueError(f"{source}: column {name!r} has type {str(kind)[:60]}. {ENCODE}")


ENCODE = "Give it numbers, text or dates."


def arrow_frame(table: Any, wanted: Wanted = EVERYTHING) -> Frame:
    """The frame of a pyarrow table, a polars frame, or whatever gives Arrow data."""
    pa = require("pyarrow")
    table = table if isinstance(table, pa.Table) else pa.table(table)
    check_names("the table", table.column_names)
    names = choose_names("the table", table.column_names, wanted)
    table = table.select(list(names)).unify_dictionaries()
    return batch_frame("the table", names, table.to_batches(), table.num_rows)


def pandas_frame(table: Any, wanted: Wanted = EVERYTHING) -> Frame:
    labels = [str(label) for label in table.columns]
    check_names("the table", labels)
    names = choose_names("the table", labels, wanted)
    place = {label: number for number, label in enumerate(labels)}
    columns = {name: pandas_cells(name, table.iloc[:, place[name]]) for name in names}
    return memory_frame(columns)


def pandas_cells(name: str, column: Any) -> Cells:
    kind = column.dtype
    if kind == "category":
        categories = [cell_text(value) for value in column.cat.categories]
        return recode(column.cat.codes.to_numpy(), categories, bool(column.cat.ordered))
    if getattr(kind, "kind", "") == "M":
        zone = getattr(kind, "tz", None)
        moments = column.dt.tz_convert("UTC").dt.tz_localize(None) if zone else column
        return moments.to_numpy().astype("datetime64[ms]")
    if getattr(kind, "kind", "") in "iuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    if kind.kind in "ObUT":
        missing = column.isna().to_numpy()
        cells = column.to_numpy(object)
        return object_cells(name, [None if m else c for m, c in zip(missing, cells, strict=True)])
    raise ValueError(f"the table: column {name!r} has dtype {kind}. {ENCODE}")


def object_cells(name: str, cells: Iterable[Any]) -> Cells:
    encoder = Encoder()
    try:
        encoder.add(map(cell_text, cells))
    except TypeError as error:
        raise ValueError(f"the table: column {name!r}: {error}. {ENCODE}") from error
    return encoder.text()


def mapping_frame(table: Mapping[Any, Any], wanted: Wanted = EVERYTHING) -> Frame:
    """The frame of a dict of arrays or lists."""
    labels = {str(label): label for label in table}
    check_names("the table", labels)
    names = choose_names("the table", labels, wanted)
    return memory_frame({name: array_cells(name, table[labels[name]]) for name in names})


def array_cells(name: str, values: Any) -> Cells:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"the table: column {name!r} has shape {array.shape}, and needs one axis.")
    if array.dtype.kind == "M":
        return array.astype("datetime64[ms]")
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    if array.dtype.kind in "bUOT":
        source = values if isinstance(values, list | tuple) else array.tolist()
        return object_cells(name, source)
    raise ValueError(f"the table: column {name!r} has dtype {array.dtype}. {ENCODE}")


def memory_frame(columns: dict[str, Cells]) -> Frame:
    lengths = {name: row_count(cells) for name, cells in columns.items()}
    if len(set(lengths.values())) > 1:
        some = dict(list(lengths.items())[:10])
        raise ValueError(f"the table: columns must have the same length, got {some}.")
    length = next(iter(lengths.values()), 0)
    if not length:
        raise ValueError("the table has no rows of data.")
    return Frame(columns, np.arange(length), "row", "the table")
