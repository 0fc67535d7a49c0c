"""Read any table into a frame: a file by its name, or a table in memory by what it is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .array_files import npy_frame, npz_frame
from .columnar import arrow_frame, mapping_frame, pandas_frame, read_arrow, read_parquet
from .frame import Frame, Wanted, choose_names
from .text_files import read_text_file

READERS = {
    ".csv": read_text_file,
    ".tsv": read_text_file,
    ".txt": read_text_file,
    ".csv.gz": read_text_file,
    ".tsv.gz": read_text_file,
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".feather": read_arrow,
    ".arrow": read_arrow,
    ".npz": npz_frame,
    ".npy": npy_frame,
}


def read_frame(table: Any, columns: Sequence[str] = (), required: Sequence[str] = ()) -> Frame:
    """The frame of a file or of a table in memory; only `columns`, if any are named.

    Files: CSV (`.csv`, `.tsv`, `.txt`, `.csv.gz`), Parquet, Arrow, Feather, `.npz` and `.npy`.
    In memory: frames of pandas and polars, tables of pyarrow, and dicts of arrays. Names are
    checked before rows are read, those of `required`, too, and nothing is unpickled.
    """
    wanted = Wanted(tuple(columns), tuple(required))
    if isinstance(table, Frame):
        names = choose_names(table.source, table.columns, wanted)
        return table._replace(columns={name: table.columns[name] for name in names})
    if isinstance(table, str | Path):
        return read_file(Path(table), wanted)
    if type(table).__module__.partition(".")[0] == "pandas":
        return pandas_frame(table, wanted)
    if isinstance(table, Mapping):
        return mapping_frame(table, wanted)
    if hasattr(table, "__arrow_c_stream__"):
        return arrow_frame(table, wanted)
    raise TypeError(
        f"a table is the path of a file, a frame of pandas or polars, a pyarrow table, or a dict of "
        f"arrays, got {type(table).__name__}."
    )


def read_file(path: Path, wanted: Wanted) -> Frame:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = "".join(path.suffixes[-2:]).lower()
    if suffix not in READERS:
        raise ValueError(
            f"{path}: a table is a file that ends in {', '.join(READERS)}. Save it as CSV, with a "
            "header."
        )
    if not path.is_file():
        raise ValueError(f"{path}: {'this is a directory' if path.is_dir() else 'no such file'}.")
    return READERS[suffix](path, wanted)
