"""The published formats, read from tiny files and from the real ones."""

import gzip
import hashlib

import numpy as np
import pytest
from support.dataset_files import DIGITS, PICTURES, archive_bytes, batch_bytes, npz_bytes

from vrsgmcmc import datasets
from vrsgmcmc.datasets import cifar
from vrsgmcmc.datasets import text as vocabulary


def test_mnist_is_read_from_idx_files(tiny):
    images = datasets.mnist(tiny)
    for array, expected in zip(images, DIGITS.values(), strict=False):
        np.testing.assert_array_equal(array, expected)
    assert [array.dtype for array in images[:4]] == [np.uint8, np.int32, np.uint8, np.int32]
    assert images.classes == tuple("0123456789")
    images.x_train[0] = 0  # the caller's own


@pytest.mark.parametrize("form", ["archive", "npz"])
def test_cifar10_is_read_from_the_archive_and_from_an_npz_file(tiny, form):
    if form == "npz":
        (tiny / "cifar10" / "cifar-10-binary.tar.gz").unlink()
        (tiny / "cifar10" / "cifar10.npz").write_bytes(npz_bytes(**PICTURES))
    images = datasets.cifar10(str(tiny))
    for name, expected in PICTURES.items():
        np.testing.assert_array_equal(getattr(images, name), expected)
    assert [array.dtype for array in images[:4]] == [np.uint8, np.int32, np.uint8, np.int32]
    assert images.classes[0] == "airplane"
    assert len(images.classes) == 10


@pytest.mark.parametrize("load", [datasets.penn_treebank, datasets.wikitext2])
@pytest.mark.parametrize("packed", [False, True])
def test_text_becomes_places_in_the_vocabulary_of_the_training_part(tiny, load, packed):
    for path in [*tiny.glob("ptb/*"), *tiny.glob("wikitext-2/*")] if packed else []:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    tokens = load(tiny)
    assert tokens.vocabulary == ("the", "cat", "\u2013", "sat", "<eos>", "N", "<unk>")
    assert tokens.train.tolist() == [0, 1, 2, 3, 4, 4, 0, 5, 6, 4]
    assert tokens.valid.tolist() == [0, 5, 4]
    assert tokens.test.tolist() == [1, 2, 1, 4, 4]
    assert {part.dtype for part in tokens[:3]} == {np.dtype(np.int32)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"\n", ["<eos>"]),
        (b"a\n\nb", ["a", "<eos>", "<eos>", "b", "<eos>"]),
        (b"a b\n", ["a", "b", "<eos>"]),
        ("a\u2028b\n".encode(), ["a", "b", "<eos>"]),  # ends no line
    ],
)
def test_every_line_ends_once(text, expected):
    assert vocabulary.words(text) == expected


@pytest.fixture
def real(data_dir, monkeypatch):
    """The folder of real data, and nothing else to fall back on."""
    monkeypatch.setenv("VRSGMCMC_DATA", str(data_dir))
    return data_dir


def test_real_mnist(real):
    images = datasets.mnist()
    assert images.x_train.shape == (60_000, 28, 28)
    assert images.x_test.shape == (10_000, 28, 28)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(images.y_train).tolist() == counts
    assert len(images.y_test) == 10_000
    assert round(images.x_train.mean() / 255, 4) == 0.1307
    assert round(images.x_train.std() / 255, 4) == 0.3081


BATCH_MD5 = (  # published, of data_batch_1.bin .. data_batch_5.bin and test_batch.bin
    *("5dd7e06a14cb22eb9f671a540d1b7c25", "5ea93a67294ea407fff1d09f752e9692"),
    *("942cd6a4bcdd0dd3c604fbe906cb4421", "ae636b3ba5c66a11e91e8cb52e771fcb"),
    *("53f37980c15c3d472c316c40844f3f0d", "803d5f7f4d78ea53de84dbe85f74fb6d"),
)


def real_batches(images):
    for k in range(5):
        rows = slice(10_000 * k, 10_000 * (k + 1))
        yield batch_bytes(images.x_train[rows], images.y_train[rows])
    yield batch_bytes(images.x_test, images.y_test)


def test_real_cifar10(real):
    images = datasets.cifar10()
    assert images.x_train.shape == (50_000, 32, 32, 3)
    assert images.x_test.shape == (10_000, 32, 32, 3)
    assert np.bincount(images.y_train).tolist() == [5000] * 10
    assert np.bincount(images.y_test).tolist() == [1000] * 10
    assert [hashlib.md5(batch).hexdigest() for batch in real_batches(images)] == list(BATCH_MD5)


@pytest.mark.slow
def test_real_cifar10_has_room_in_its_archive(real):
    images = datasets.cifar10()
    batches = dict(zip((*cifar.TRAIN, *cifar.TEST), real_batches(images), strict=True))
    page = {"cifar-10-batches-bin/readme.html": b"<html>"}
    again = cifar.from_archive(archive_bytes(page | batches, level=0))
    for there, here in zip(images, again, strict=True):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize(
    ("load", "counts", "size"),
    [
        (datasets.penn_treebank, (929_589, 73_760, 82_430), 10_000),
        (datasets.wikitext2, (2_088_628, 217_646, 245_569), 33_278),
    ],
)
def test_real_text(load, counts, size, real):
    tokens = load()
    assert tuple(map(len, tokens[:3])) == counts
    assert len(set(tokens.vocabulary)) == len(tokens.vocabulary) == size
    assert tokens.train.min() == 0
    assert tokens.train.max() == size - 1
    lines = {10_000: (42_068, 3_370, 3_761), 33_278: (36_718, 3_760, 4_358)}[size]
    end = tokens.vocabulary.index("<eos>")
    assert tuple(int((part == end).sum()) for part in tokens[:3]) == lines


def test_real_pima(real):
    for here, there in zip(datasets.pima(), datasets.pima(real), strict=True):
        np.testing.assert_array_equal(here, there)
