"""Tables: what is read is what was written, and what cannot be meant is refused with its place."""

from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from vrsgmcmc.datasets import tables

ROWS = "age,dose,outcome\n40,1.5,yes\n50,2.5,no\n60,0.5,yes\n70,1.0,no\n"


@pytest.fixture
def file(tmp_path):
    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def arrays(tmp_path):
    def write(name="table.npz", **values):
        path = tmp_path / name
        np.savez(path, **values)
        return path

    return write


def test_a_table_is_what_the_file_says(file):
    table = tables.read(file(ROWS), "outcome")
    np.testing.assert_array_equal(table.x, [[40, 1.5], [50, 2.5], [60, 0.5], [70, 1]])
    assert table.y.tolist() == ["yes", "no", "yes", "no"]
    assert table.columns == ("age", "dose")
    assert table.rows.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize(
    "content",
    [
        ROWS.replace(",", ";"),
        ROWS.replace(",", "\t"),
        "\ufeff" + ROWS,
        ROWS.replace("\n", "\r\n"),
        ROWS.replace("\n", "\n\n"),
        ROWS.replace("age", '"age"').replace("40", ' "40"'.strip()),
    ],
)
def test_the_usual_ways_to_write_a_table(content, file):
    table = tables.read(file(content), "outcome")
    np.testing.assert_array_equal(table.x, [[40, 1.5], [50, 2.5], [60, 0.5], [70, 1]])
    assert table.columns == ("age", "dose")


def test_columns_are_chosen_by_name_and_the_rest_is_not_read(file):
    content = "id,age,dose,outcome\na,40,1,0\nb,50,2,1\n"
    table = tables.read(file(content), "outcome", features=("dose", "age"))
    np.testing.assert_array_equal(table.x, [[1, 40], [2, 50]])
    assert table.columns == ("dose", "age")
    np.testing.assert_array_equal(table.y, [0, 1])


def test_more_rows_than_one_block(file):
    values = np.random.default_rng(0).normal(size=(10_000, 2))
    lines = "\n".join(f"{a!r},{b!r}" for a, b in values.tolist())
    table = tables.read(file("a,b\n" + lines), "b")
    np.testing.assert_array_equal(table.x[:, 0], values[:, 0])
    np.testing.assert_array_equal(table.y, values[:, 1])


REFUSED = {
    "no file": (None, "y", "no such file"),
    "empty": ("", "y", "is empty: its first line must name the columns"),
    "blank": ("\n\n", "y", "is empty"),
    "header only": ("a,y\n", "y", "has no rows of data"),
    "no header": ("1,2\n3,4\n", "y", "the first line holds numbers, not the names of columns"),
    "ragged": ("a,y\n1,2\n1,2,3\n", "y", "line 3 has 3 cells, the header has 2"),
    "short row": ("a,y\n1\n", "y", "line 2 has 1 cells, the header has 2"),
    "not a number": ("a,y\n1,2\nx,2\n", "y", "line 3, column 'a': 'x' is not a number"),
    "decimal comma": ('a;y\n"1,5";2\n', "y", "line 2, column 'a': '1,5' is not a number"),
    "underscore": ("a,y\n1_000,2\n", "y", "'1_000' is not a number"),
    "infinite": ("a,y\n1,2\ninf,3\n", "y", "1 infinite values, the first in line 3, column 'a'"),
    "empty cell": (
        "a,b,y\n1,,2\n,,3\n",
        "y",
        "3 cells are empty: 1 in column 'a' (first in line 3), 2 in column 'b' (first in line 2)",
    ),
    "empty target": ("a,y\n1,\n", "y", "1 in column 'y' (first in line 2)"),
    "unknown target": ("age,y\n1,2\n", "agee", "has no column 'agee'. Did you mean 'age'?"),
    "target alone": ("y\n1\n", "y", "has only the target 'y'"),
    "two of a name": ("a,a,y\n1,2,3\n", "y", "two columns have the name 'a'"),
    "no name": ("a,,y\n1,2,3\n", "y", "column 2 has no name"),
    "not text": (b"a,y\n\xff\xfe,1\n", "y", "is not UTF-8 text"),
    "a quote left open": ('a,y\n"1,2\n', "y", "is no CSV"),
    "a huge cell": ("a,y\n" + "1" * 200_000 + ",2\n", "y", "is no CSV"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_cannot_be_meant_is_refused(name, file, tmp_path):
    content, target, message = REFUSED[name]
    path = tmp_path / "none.csv" if content is None else file(content)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        tables.read(path, target)
    assert message in str(error.value)


def test_other_files_are_refused(file, tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.csv, \.tsv, \.npz, \.npy"):
        tables.read(file("", "table.xlsx"), "y")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="this is a directory"):
        tables.read(tmp_path / "folder.csv", "y")


def test_rows_with_empty_cells_can_be_left_out(file):
    table = tables.read(file("a,b,y\n1,2,0\n,2,1\n3,NA,0\n4,5,1\n"), "y", missing="drop")
    np.testing.assert_array_equal(table.x, [[1, 2], [4, 5]])
    assert table.rows.tolist() == [2, 5]
    assert "2 rows with empty cells were left out: 1 in column 'a'" in table.notes[0]
    with pytest.raises(ValueError, match="every row has an empty cell"):
        tables.read(file("a,y\n,1\n"), "y", missing="drop")


def test_none_is_a_class_but_no_number(file):
    table = tables.read(file("a,y\n1,none\n2,mild\n"), "y")
    assert table.y.tolist() == ["none", "mild"]
    with pytest.raises(ValueError, match="1 cells are empty"):
        tables.read(file("a,y\nnone,1\n2,2\n"), "y")


def test_arrays(arrays, tmp_path):
    x, y = np.arange(6.0).reshape(3, 2), np.array(["b", "a", "b"])
    table = tables.read(arrays(x=x, y=y), "y")
    np.testing.assert_array_equal(table.x, x)
    assert (table.columns, table.y.tolist()) == (("x[0]", "x[1]"), ["b", "a", "b"])
    np.save(tmp_path / "t.npy", x)
    for target in ("1", "-1"):
        table = tables.read(tmp_path / "t.npy", target)
        np.testing.assert_array_equal(table.x[:, 0], x[:, 0])
        assert table.target == "1"


BAD_ARRAYS = {
    "objects": (
        {"x": np.array([{}, {}]), "y": np.zeros(2)},
        "Python objects, which could run code",
    ),
    "lengths": ({"x": np.zeros(3), "y": np.zeros(2)}, r"same length, got \{'x': 3, 'y': 2\}"),
    "three axes": ({"x": np.zeros((2, 2, 2)), "y": np.zeros(2)}, r"'x' has shape \(2, 2, 2\)"),
    "a wide target": ({"x": np.zeros(2), "y": np.zeros((2, 2))}, "a target has one axis"),
    "complex": ({"x": np.zeros(2, complex), "y": np.zeros(2)}, "dtype complex128"),
    "text": ({"x": np.array(["a", "b"]), "y": np.zeros(2)}, "'x' has dtype <U1"),
    "NaN": ({"x": np.array([1, np.nan]), "y": np.zeros(2)}, r"1 in column 'x' \(first in row 1\)"),
    "scalar": ({"x": np.zeros(()), "y": np.zeros(2)}, r"has shape \(\)"),
    "no target": ({"x": np.zeros(2)}, "has no column 'y'"),
    "no rows": ({"x": np.zeros(0), "y": np.zeros(0)}, "has no rows"),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_arrays_that_cannot_be_meant_are_refused(name, arrays):
    values, message = BAD_ARRAYS[name]
    with pytest.raises(ValueError, match=message):
        tables.read(arrays(**values), "y")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00\x00\x00", b"text"])
@pytest.mark.parametrize("name", ["t.npz", "t.npy"])
def test_damaged_files_are_refused(content, name, file):
    with pytest.raises(ValueError, match="cannot be read"):
        tables.read(file(content, name), "y")


def test_an_archive_that_would_fill_the_memory_is_not_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x=np.zeros(10**7, np.int8), y=np.zeros(10**7, np.int8))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10**6))
    with pytest.raises(ValueError, match="40,000,000 bytes and 1,000,000 are free"):
        tables.read(path, "y")


def table_of(x, y, names=None):
    x = np.asarray(x, float)
    columns = names or tuple(f"c{j}" for j in range(x.shape[1]))
    return tables.Table(x, np.asarray(y), columns, "y", np.arange(len(x)), "row")


def test_labels_become_numbers_and_keep_their_names():
    x = np.arange(8.0)[:, None]
    ready = tables.prepare(table_of(x, ["no", "yes"] * 4), classify=True)
    assert ready.labels == ("no", "yes")
    ready = tables.prepare(table_of(x, [10.0, 9.0, 2.5, 9.0] * 2), classify=True)
    assert ready.labels == ("2.5", "9", "10")  # numbers in their order, not that of their digits
    codes = np.concatenate([ready.train[1], ready.test[1]])
    assert set(codes.tolist()) == {0, 1, 2}


def test_columns_are_standardised_by_the_training_rows_alone():
    x = np.random.default_rng(0).normal(5, 3, size=(50, 2))
    y = x @ [1.0, 2.0]
    ready = tables.prepare(table_of(x, y), classify=False, test_fraction=0.3, seed=1)
    np.testing.assert_allclose(ready.train[0].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(ready.train[0].std(0), 1, atol=1e-12)
    np.testing.assert_allclose(ready.train[1].std(), 1, atol=1e-12)
    np.testing.assert_allclose(ready.center + ready.scale * ready.test[1], y[ready.test_rows])
    assert len(ready.test[1]) == 15
    plain = tables.prepare(table_of(x, y), classify=False, standardise=False, seed=1)
    np.testing.assert_array_equal(plain.test[0], x[plain.test_rows])


def test_constant_columns_are_left_out():
    x = np.stack([np.arange(10.0), np.ones(10)], 1)
    ready = tables.prepare(table_of(x, [0.0, 1.0] * 5), classify=True)
    assert ready.columns == ("c0",)
    assert ready.notes == ("Columns that are constant were left out: c1.",)


@pytest.mark.parametrize(
    ("x", "y", "classify", "message"),
    [
        (np.ones((9, 1)), np.arange(9), True, "every column is constant"),
        (np.arange(9)[:, None], np.ones(9), True, "'y' is '1' in every row: no class to tell apart"),
        (np.arange(9)[:, None], np.ones(9), False, "'y' is 1 in every row: nothing to predict"),
        (np.arange(50)[:, None], np.arange(50.0), True, "50 different values in 50 rows"),
        (np.arange(9)[:, None], ["1"] * 8 + ["x"], False, "'x' in row 8, and a regression needs"),
        (np.array([[1e308], [-1e308]] * 5), np.arange(10), False, "'c0' holds numbers that are"),
        (np.arange(2)[:, None], np.arange(2.0), False, "Choose a fraction that leaves both some rows"),
    ],
)  # fmt: skip
def test_rows_that_no_model_can_use_are_refused(x, y, classify, message):
    with pytest.raises(ValueError, match=message):
        tables.prepare(table_of(x, y), classify=classify)


@pytest.mark.parametrize(
    ("y", "labels"),
    [(["a", "b"], True), ([0.0, 1.0], True), ([0.5, 1.0], False), (np.arange(30.0), False)],
)
def test_what_looks_like_labels(y, labels):
    assert tables.holds_labels(np.asarray(y)) == labels
