"""Pima, and the transforms of tables."""

import re
import shutil
from importlib import resources

import numpy as np
import pytest

from vrsgmcmc import datasets

PACKAGED = resources.files("vrsgmcmc.datasets") / "files" / "pima-indians-diabetes.csv"


@pytest.fixture
def folder(tmp_path):
    """A data folder with a copy of the Pima file."""
    (tmp_path / "pima").mkdir()
    shutil.copy(str(PACKAGED), tmp_path / "pima")
    return tmp_path


def test_pima_is_the_published_table():
    x, y = datasets.pima()
    assert (x.shape, x.dtype) == ((768, 8), np.float64)
    assert y.shape == (768,)
    assert np.issubdtype(y.dtype, np.integer)
    assert np.bincount(y).tolist() == [500, 268]
    assert x[0].tolist() == [6, 148, 72, 35, 0, 33.6, 0.627, 50]
    assert y[:3].tolist() == [1, 0, 1]
    means = [3.8, 120.9, 69.1, 20.5, 79.8, 32.0, 0.5, 33.2]  # from the data set's description
    np.testing.assert_array_equal(np.round(x.mean(axis=0), 1), means)


def test_pima_zeros_stand_where_the_column_names_say():
    x, _ = datasets.pima()
    zeros = dict(zip(datasets.PIMA_COLUMNS, (x == 0).sum(axis=0).tolist(), strict=True))
    assert zeros == {
        "pregnancies": 111,
        "glucose": 5,
        "blood_pressure": 35,
        "skin_fold": 227,
        "insulin": 374,
        "body_mass_index": 11,
        "pedigree": 0,
        "age": 0,
    }


def test_pima_from_a_folder_is_the_same(folder):
    for here, there in zip(datasets.pima(), datasets.pima(folder), strict=True):
        np.testing.assert_array_equal(here, there)


def test_a_changed_pima_file_is_refused_with_both_hashes(folder):
    file = folder / "pima" / "pima-indians-diabetes.csv"
    file.write_bytes(file.read_bytes()[:-3] + b"0\n")
    with pytest.raises(ValueError, match=r"is not the Pima data") as error:
        datasets.pima(folder)
    hashes = re.findall(r"\b[0-9a-f]{64}\b", str(error.value))
    assert hashes[0] == datasets.PIMA_SHA256
    assert len(set(hashes)) == 2


def test_a_missing_pima_file_is_named(tmp_path):
    message = re.escape(f"no file {tmp_path / 'pima' / 'pima-indians-diabetes.csv'}.")
    with pytest.raises(FileNotFoundError, match=message):
        datasets.pima(str(tmp_path))


def test_standardise_uses_the_training_part_for_all():
    train, test = np.array([[0, 1], [4, 5]]), np.array([[2.0, 3.0], [6.0, -1.0], [2.0, 2.0]])
    scaled, other = datasets.standardise(train, test)
    assert scaled.tolist() == [[-1, -1], [1, 1]]
    assert other.tolist() == [[0, 0], [2, -2], [0, -0.5]]
    x, _ = datasets.pima()
    (alone,) = datasets.standardise(x)
    np.testing.assert_allclose(alone.mean(axis=0), np.zeros(8), atol=1e-12)
    np.testing.assert_allclose(alone.std(axis=0), np.ones(8), rtol=1e-12)


def test_standardise_leaves_constant_columns_alone():
    train = np.array([[0.1, 1.0], [0.1, 2.0], [0.1, 3.0]])  # the mean of three 0.1 is not 0.1
    test = np.array([[0.7, 2.0]])
    scaled, other = datasets.standardise(train, test)
    assert scaled[:, 0].tolist() == [0.1, 0.1, 0.1]
    assert other.tolist() == [[0.7, 0.0]]


def test_standardise_does_not_write_into_its_arguments():
    train = np.array([[0.0], [4.0]])
    datasets.standardise(train)
    assert train.tolist() == [[0], [4]]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([np.zeros((3, 2)), np.zeros((3, 4))], "with the same columns, got shapes (3, 2), (3, 4)."),
        ([np.zeros((3, 2)), np.zeros(3)], "tables [n, d] with the same columns, got shapes (3, 2)"),
        ([np.zeros(3)], "standardise takes tables [n, d] with the same columns, got shapes (3,)."),
        ([np.zeros((0, 2))], "standardise: the first table has no rows, so no mean."),
    ],
)
def test_standardise_refuses_other_shapes(tables, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        datasets.standardise(*tables)


def test_split_is_a_partition_that_keeps_rows_together():
    x, y = np.arange(20).reshape(10, 2), np.arange(10)
    (x_train, y_train), (x_test, y_test) = datasets.split(x, y, test_fraction=0.3)
    assert (len(y_train), len(y_test)) == (7, 3)
    assert sorted([*y_train, *y_test]) == list(range(10))
    np.testing.assert_array_equal(x_train, x[y_train])
    np.testing.assert_array_equal(x_test, x[y_test])


def test_split_depends_on_the_seed_alone():
    x, _ = datasets.pima()
    _, (_, default) = datasets.split(x, np.arange(768))
    _, (_, same) = datasets.split(x, np.arange(768), 0.2, 0)
    _, (_, other) = datasets.split(x, np.arange(768), seed=1)
    assert len(default) == 154
    assert default.tolist() == same.tolist()
    assert sorted(default) != sorted(other)
    assert sorted(default) != list(range(154))


@pytest.mark.parametrize(
    ("rows", "labels", "fraction", "message"),
    [
        (5, 4, 0.2, "x and y must have the same number of rows, got 5 and 4."),
        (5, 5, 0.0, "test_fraction must lie strictly between 0 and 1, got 0.0."),
        (5, 5, 1.0, "test_fraction must lie strictly between 0 and 1, got 1.0."),
        (5, 5, np.nan, "test_fraction must lie strictly between 0 and 1, got nan."),
        (5, 5, 0.05, "puts 0 in the test part and 5 in the training part."),
        (5, 5, 0.95, "puts 5 in the test part and 0 in the training part."),
    ],
)
def test_split_refuses_what_leaves_a_part_empty(rows, labels, fraction, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        datasets.split(np.zeros((rows, 2)), np.zeros(labels), fraction)


def test_with_intercept_puts_ones_first():
    x = np.array([[2.0, 3.0], [4.0, 5.0]], np.float32)
    wide = datasets.with_intercept(x)
    assert wide.tolist() == [[1, 2, 3], [1, 4, 5]]
    assert wide.dtype == np.float32


def test_with_intercept_refuses_a_vector():
    message = "with_intercept takes a table [n, d], got shape (3,). One column is"
    with pytest.raises(ValueError, match=re.escape(message)):
        datasets.with_intercept(np.zeros(3))
