"""Readers: the same table from every kind of file and frame, and sizes that are checked first."""

import gzip
import struct
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import psutil
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

from vrsgmcmc.datasets.tables import read_frame, treat

N = 12
TABLE = pd.DataFrame(
    {
        "size": np.arange(N) + 0.5,
        "town": np.resize(["Zürich", "Köln", "Łódź"], N),
        "whole": np.arange(N) ** 2,
        "flag": np.arange(N) % 3 == 0,
        "day": pd.date_range("2020-01-30", periods=N),
        "y": np.resize(["a", "b"], N),
    }
)
LATIN = TABLE.assign(town=np.resize(["Zürich", "Köln", "Bern"], N))


def write(folder, kind):
    """A file, or a table in memory, of TABLE (or of LATIN)."""
    path = folder / kind
    match kind:
        case "t.csv" | "t.csv.gz" | "t.CSV":
            TABLE.to_csv(path, index=False)
        case "t.tsv":
            TABLE.to_csv(path, index=False, sep="\t")
        case "latin.csv":
            LATIN.to_csv(path, index=False, encoding="latin-1")
        case "bom.csv":
            TABLE.to_csv(path, index=False, encoding="utf-8-sig")
        case "utf16.csv" | "utf16.txt":
            TABLE.to_csv(path, index=False, encoding="utf-16", sep="\t")
        case "utf16le.csv":
            TABLE.to_csv(path, index=False, encoding="utf-16-le")
        case "comma.csv":
            TABLE.to_csv(path, index=False, sep=";", decimal=",")
        case "t.parquet":
            TABLE.to_parquet(path)
        case "groups.parquet":
            parquet.write_table(pa.table(TABLE), path, row_group_size=5, compression="zstd")
        case "t.feather":
            feather.write_feather(TABLE, path)
        case "t.arrow":
            with pa.ipc.new_stream(path, pa.table(TABLE).schema) as writer:
                writer.write_table(pa.table(TABLE), max_chunksize=5)
        case "pandas":
            return TABLE
        case "pandas categories":
            return TABLE.astype({"town": "category", "flag": "boolean", "whole": "Int64"})
        case "pandas arrow":
            return TABLE.convert_dtypes(dtype_backend="pyarrow")
        case "polars":
            return pl.from_pandas(TABLE)
        case "pyarrow":
            return pa.table(TABLE)
        case "dict":
            return {name: TABLE[name].to_numpy() for name in TABLE}
        case "lists":
            return TABLE.to_dict("list")
        case "t.npz":
            columns = {name: TABLE[name].to_numpy() for name in TABLE}
            texts = {name: columns[name].astype(str) for name in ("town", "y")}
            np.savez(path, **columns | texts)
    return path


KINDS = [
    *("t.csv", "t.csv.gz", "t.CSV", "t.tsv", "latin.csv", "bom.csv", "utf16.csv", "utf16.txt"),
    *("utf16le.csv", "comma.csv", "t.parquet", "groups.parquet", "t.feather", "t.arrow", "pandas"),
    *("pandas categories", "pandas arrow", "polars", "pyarrow", "dict", "lists", "t.npz"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_design(kind, tmp_path):
    table = write(tmp_path, kind)
    expected = treat(LATIN if kind == "latin.csv" else TABLE, "y")
    design = treat(table, "y")
    assert [c.name for c in design.columns] == [c.name for c in expected.columns]
    towns = ("Köln", "Zürich") if kind == "latin.csv" else ("Zürich", "Łódź")
    assert [c.name for c in design.columns][:3] == ["size", *(f"town[{town}]" for town in towns)]
    np.testing.assert_allclose(design.x, expected.x, atol=1e-9)
    np.testing.assert_array_equal(design.y, expected.y)
    assert design.place == (
        "line" if "csv" in kind.lower() or "t.tsv" in kind or "txt" in kind else "row"
    )
    assert design.rows[0] == (2 if design.place == "line" else 0)
    said = {"latin.csv": "Latin-1", "comma.csv": "Decimals are written with a comma"}
    said |= dict.fromkeys(("utf16.csv", "utf16.txt", "utf16le.csv"), "read as UTF-16")
    assert said.get(kind, "") in " ".join(design.notes)
    assert [c for c in read_frame(table, ("whole", "y")).columns] == ["whole", "y"]


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("a;y\n1,5;1\n2;2\n", [1.5, 2]),
        ("a;y\n1.234,5;1\n1.000.000;2\n", [1234.5, 1e6]),
        ("a;y\n1,234;1\n2,345;2\n", [1.234, 2.345]),
        ("a;b;y\n1,234;0.5;1\n2,345;0.25;2\n", [1234, 2345]),
        ("a;y\n1.5;1\n2.25;2\n", [1.5, 2.25]),
        ('a,y\n"1,234",1\n"2,345.5",2\n', [1234, 2345.5]),
        ("a\ty\n1,5\t1\n2\t2\n", [1.5, 2]),
        ('"a","y"\n"$1,151.20","1"\n"$3","2"\n', [1151.2, 3]),
        ("a|y\n1|1\n2|2\n", [1, 2]),
    ],
)
def test_decimals_and_thousands(content, values, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(content)
    (column, *_) = (c for c in treat(path, "y").columns)
    x = treat(path, "y").x[:, 0] * column.scale + column.center
    np.testing.assert_allclose(x, values)


def test_text_that_begins_late_keeps_all_its_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("vrsgmcmc.datasets.tables.read"), "CELLS_AT_ONCE", 100)
    path = tmp_path / "t.csv"
    count = 130  # more than one block
    cells = ["007"] * count + ["7a", "08"]
    path.write_text("a,code\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
    frame = read_frame(path)
    code = frame.columns["code"]
    assert code.values == ("007", "7a", "08")
    assert np.bincount(code.codes).tolist() == [count, 1, 1]
    assert len(frame.columns["a"]) == count + 2


REFUSED = {
    "no file": (None, "t.csv", "no such file"),
    "another kind": (b"", "t.xlsx", "a table is a file that ends in .csv"),
    "empty": (b"", "t.csv", "is empty"),
    "header only": (b"a,y\n", "t.csv", "has no rows of data"),
    "ragged": (b"a,y\n1,2\n1,2,3\n", "t.csv", "line 3 has 3 cells, the header has 2"),
    "no header": (b"1,2\n3,4\n", "t.csv", "the first line holds numbers"),
    "two of a name": (b"a,a,y\n1,2,3\n", "t.csv", "two columns have the name 'a'"),
    "bytes": (b"a,y\n\0\1\2,3\n", "t.csv", "is no text"),
    "half of UTF-16": (b"\xff\xfea\0,\0y\0\n\0\x00\xd8", "t.csv", "is not utf-16 text"),
    "an open quote": (b'a,y\n"1,2\n', "t.csv", "is no CSV"),
    "no gzip": (b"a,y\n1,2\n", "t.csv.gz", "cannot be read"),
    "half of gzip": (gzip.compress(b"a,y\n1,2\n" * 99)[:-9], "t.csv.gz", "cannot be read"),
    "zeros in gzip": (gzip.compress(bytes(2**20)), "t.csv.gz", "is no text"),
    "long name": (b"a" * 2000 + b",y\n1,2\n", "t.csv", "the name of column 1 has 2000 characters"),
    "control characters": (b"\x1b[31m,y\nq,2\n", "t.csv", r"'\x1b[31m'"),
    "no Parquet": (b"PAR1 nothing PAR1", "t.parquet", "cannot be read"),
    "no Feather": (b"ARROW1\0\0 nothing", "t.feather", "cannot be read"),
    "no stream": (b"nothing", "t.arrow", "cannot be read"),
    "nothing": (b"", "t.parquet", "cannot be read"),
    "no Arrow": (b"", "t.feather", "cannot be read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_meant_is_refused(name, tmp_path):
    content, file, message = REFUSED[name]
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        treat(tmp_path / file, "y", features=("q",) if name == "control characters" else ())
    assert (message in str(error.value)) or (
        name == "control characters" and r"\x1b[31m" in str(error.value)
    )
    assert "\x1b" not in str(error.value)


def test_a_packed_file_that_unpacks_without_end_is_refused(tmp_path):
    member = gzip.compress(b"a,y\n" + b"1,2\n" * 2**23, 1)
    (tmp_path / "t.csv.gz").write_bytes(member * 9)
    with pytest.raises(ValueError, match="unpacks to more than 268,435,456 bytes"):
        read_frame(tmp_path / "t.csv.gz")


@pytest.mark.parametrize(
    "kind", ["t.csv.gz", "t.csv", "t.parquet", "t.feather", "z.feather", "t.arrow"]
)
def test_a_table_that_would_fill_the_memory_is_not_unpacked(kind, tmp_path, monkeypatch):
    table = pa.table({"a": np.zeros(10**5, np.int8), "y": np.zeros(10**5, np.int8)})
    path = tmp_path / kind
    match kind:
        case "t.parquet":
            parquet.write_table(table, path)
        case "t.arrow":
            with pa.ipc.new_stream(path, table.schema) as writer:
                writer.write_table(table)
        case "t.feather" | "z.feather":
            feather.write_feather(table, path, compression="zstd" if kind[0] == "z" else "lz4")
        case _:
            table.to_pandas().to_csv(path, index=False)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10**6))
    with pytest.raises(ValueError, match=r"needs 4,800,\d{3} bytes and 1,000,000 are free"):
        read_frame(path)


def test_a_buffer_that_claims_a_terabyte_is_refused(tmp_path):
    path = tmp_path / "t.feather"
    feather.write_feather(pa.table({"a": np.zeros(12345), "y": np.zeros(12345)}), path)
    content = path.read_bytes()
    assert content.count(struct.pack("<q", 8 * 12345)) == 2
    path.write_bytes(content.replace(struct.pack("<q", 8 * 12345), struct.pack("<q", 2**42)))
    with pytest.raises(ValueError, match=f"needs {2 * 2 * 2**42:,} bytes"):
        read_frame(path)


@pytest.mark.parametrize("kind", ["t.parquet", "t.feather", "t.arrow", "t.csv.gz", "t.npz"])
def test_damaged_bytes_are_refused_or_read(kind, tmp_path):
    """Never another exception, and never a crash."""
    path = write(tmp_path, kind)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 60).tolist():
        damaged = content[:place] + rng.bytes(1) + content[place + 1 :]
        path.write_bytes(damaged)
        try:
            frame = read_frame(path)
        except ValueError as error:
            assert str(error).isprintable()  # noqa: PT017
        else:
            assert len(frame.rows) <= 2 * N


def test_an_archive_without_its_target_is_not_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "t.npz", x=np.zeros((10, 3)))
    arrays = import_module("vrsgmcmc.datasets.tables.array_files")
    monkeypatch.setattr(arrays, "read_array", lambda _: pytest.fail("it was read"))
    for arguments in ({"target": "y"}, {"formula": "y ~ ."}, {"target": "x[0]", "groups": ("y",)}):
        with pytest.raises(ValueError, match="has no column 'y'"):
            treat(tmp_path / "t.npz", **arguments)


def test_a_design_that_would_be_too_wide_is_not_built():
    text = np.array([f"l{i}" for i in range(25)] * 2)
    frame = {f"c{i}": text for i in range(5)} | {"y": np.arange(50.0)}
    with pytest.raises(ValueError, match="the design has more than 100,000 columns"):
        treat(frame, formula="y ~ c0:c1:c2:c3:c4")


def test_too_many_columns():
    frame = {f"c{i}": [1.0] for i in range(100_001)}
    with pytest.raises(ValueError, match="more than 100,000 columns"):
        read_frame(frame)
    text = {f"c{i}": np.array(["a", "b", "a", "b"]) for i in range(9)}
    wide = treat(text | {"y": np.arange(4.0)}, "y", levels="all")
    assert wide.x.shape == (4, 18)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"a": [[1], [2]]}), "column 'a' has type list"),
        (pd.DataFrame({"a": [1, 2], "b": [{}, []]}), "column 'b': a cell holds a dict"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns have the name 'a'"),
        (pd.DataFrame({"a": pd.to_timedelta([1, 2])}), "has dtype timedelta"),
        (pl.DataFrame({"a": []}), "has no rows"),
        ({}, "has no rows"),
    ],
)
def test_tables_in_memory_that_cannot_be_meant_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        read_frame(table)
    with pytest.raises(TypeError, match="a table is the path of a file"):
        read_frame(3)


WITHOUT = """
import sys
for name in ("pandas", "polars", "pyarrow", "formulaic"):
    sys.modules[name] = None
from vrsgmcmc.datasets import tables
design = tables.treat("t.csv", formula="y ~ size*town + (1 | flag)")
assert design.x.shape == (12, 5), design.x.shape
tables.read_frame("t.npz")
for file, formula in (("t.parquet", ""), ("t.feather", ""), ("t.csv", "y ~ poly(size, 2)")):
    try:
        tables.treat(file, "y", formula=formula)
    except ImportError as error:
        assert "pip install 'vrsgmcmc[tables]'" in str(error)
    else:
        sys.exit(file)
assert "jax" not in sys.modules
"""


def test_without_the_extra_one_command_is_named_before_jax_is_imported(tmp_path):
    for kind in ("t.csv", "t.npz", "t.parquet", "t.feather"):
        write(tmp_path, kind)
    subprocess.run([sys.executable, "-c", WITHOUT], cwd=tmp_path, check=True)
