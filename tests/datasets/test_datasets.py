"""Data sets: formats, where files are found, hostile files, the real data, and `vrsgmcmc data`."""

import gzip
import hashlib
import io
import os
import pickle
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from importlib import import_module, resources
from pathlib import Path

import numpy as np
import pytest
from support.documents import cells, execute

from vrsgmcmc import cli, datasets
from vrsgmcmc.datasets import CATALOGUE, Dataset, cifar, locate
from vrsgmcmc.datasets import text as vocabulary

PACKAGED = resources.files("vrsgmcmc.datasets") / "files" / "pima-indians-diabetes.csv"
idx = import_module("vrsgmcmc.datasets.mnist")  # the package offers the function of this name
PAGE = Path(__file__).parents[2] / "docs" / "data.md"


@pytest.fixture(autouse=True)
def nowhere(tmp_path_factory, monkeypatch):
    """No data on this machine, and no way to the net."""
    monkeypatch.delenv("VRSGMCMC_DATA", raising=False)
    monkeypatch.setenv("VRSGMCMC_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


# Pima, and preparations


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


# the catalogue


FILES = [(known.name, file) for known in CATALOGUE.values() for file in known.files]


@pytest.mark.parametrize(("folder", "file"), FILES, ids=lambda value: getattr(value, "name", value))
def test_a_file_of_the_catalogue_has_a_sum_and_several_mirrors(folder, file):
    assert re.fullmatch("[0-9a-f]{64}", file.sha256)
    assert file.length > 0
    assert len(set(file.mirrors)) >= 2
    assert len({mirror.split("/")[2] for mirror in file.mirrors}) >= 2  # hosts
    for mirror in file.mirrors:
        assert re.fullmatch(r"https://[\w.-]+(/[\w.@~-]+)+", mirror)


def test_the_catalogue_is_there_without_numpy():
    program = """
import sys
from vrsgmcmc.cli import main
assert main(["data", "list"]) == 0
assert "numpy" not in sys.modules
import vrsgmcmc.datasets
assert set(vrsgmcmc.datasets.__all__) == set(dir(vrsgmcmc.datasets))
assert all(hasattr(vrsgmcmc.datasets, name) for name in dir(vrsgmcmc.datasets))
assert not hasattr(vrsgmcmc.datasets, "mnst")
assert callable(vrsgmcmc.datasets.pima)
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)


# tiny data sets of the same forms


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(header + array.tobytes())


def archive_bytes(content: dict[str, bytes], level: int = 9) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=level) as archive:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def batch_bytes(x: np.ndarray, y: np.ndarray) -> bytes:
    """The layout of the binary version."""
    colours = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    return np.column_stack([y.astype(np.uint8), colours]).tobytes()


def npz_bytes(**arrays: np.ndarray) -> bytes:
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    return packed.getvalue()


RNG = np.random.default_rng(0)
DIGITS = {
    "train-images-idx3-ubyte.gz": RNG.integers(0, 256, (7, 28, 28), np.uint8),
    "train-labels-idx1-ubyte.gz": RNG.integers(0, 10, 7, np.uint8),
    "t10k-images-idx3-ubyte.gz": RNG.integers(0, 256, (3, 28, 28), np.uint8),
    "t10k-labels-idx1-ubyte.gz": RNG.integers(0, 10, 3, np.uint8),
}
PICTURES = {
    "x_train": RNG.integers(0, 256, (10, 32, 32, 3), np.uint8),
    "y_train": RNG.integers(0, 10, 10, np.uint8),
    "x_test": RNG.integers(0, 256, (2, 32, 32, 3), np.uint8),
    "y_test": RNG.integers(0, 10, 2, np.uint8),
}
BATCHES = {
    name: batch_bytes(
        PICTURES["x_train"][2 * k : 2 * k + 2], PICTURES["y_train"][2 * k : 2 * k + 2]
    )
    for k, name in enumerate(cifar.TRAIN)
} | {cifar.TEST[0]: batch_bytes(PICTURES["x_test"], PICTURES["y_test"])}
TEXTS = {
    "train": " the cat \u2013 sat \n\n the N <unk> \n".encode(),
    "valid": b" the N \n",
    "test": "cat \u2013 cat\n\n".encode(),
}


def renewed(name: str, contents: list[bytes]) -> Dataset:
    """A data set of the catalogue, with the lengths and sums of other content."""
    known = CATALOGUE[name]
    files = tuple(
        file._replace(length=len(content), sha256=hashlib.sha256(content).hexdigest())
        for file, content in zip(known.files, contents, strict=True)
    )
    return known._replace(files=files)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder with tiny data sets, and a catalogue that knows them."""
    contents = {
        "mnist": [idx_bytes(array) for array in DIGITS.values()],
        "cifar10": [archive_bytes({"cifar-10-batches-bin/readme.html": b"hello"} | BATCHES)],
        "ptb": list(TEXTS.values()),
        "wikitext-2": list(TEXTS.values()),
    }
    monkeypatch.setattr(
        cifar,
        "ARRAYS",
        {name: (a.shape[1:], hashlib.sha256(a).hexdigest()) for name, a in PICTURES.items()},
    )
    for name, parts in contents.items():
        monkeypatch.setitem(CATALOGUE, name, renewed(name, parts))
        (tmp_path / name).mkdir()
        for file, content in zip(CATALOGUE[name].files, parts, strict=True):
            (tmp_path / name / file.name).write_bytes(content)
    return tmp_path


def test_mnist_is_read_from_idx_files(tiny):
    found = datasets.mnist(tiny)
    for array, expected in zip(found, DIGITS.values(), strict=False):
        np.testing.assert_array_equal(array, expected)
    assert [array.dtype for array in found[:4]] == [np.uint8, np.int32, np.uint8, np.int32]
    assert found.classes == tuple("0123456789")
    found.x_train[0] = 0  # the caller's own


@pytest.mark.parametrize("form", ["archive", "npz"])
def test_cifar10_is_read_from_the_archive_and_from_an_npz_file(tiny, form):
    if form == "npz":
        (tiny / "cifar10" / "cifar-10-binary.tar.gz").unlink()
        (tiny / "cifar10" / "cifar10.npz").write_bytes(npz_bytes(**PICTURES))
    found = datasets.cifar10(str(tiny))
    for name, expected in PICTURES.items():
        np.testing.assert_array_equal(getattr(found, name), expected)
    assert [array.dtype for array in found[:4]] == [np.uint8, np.int32, np.uint8, np.int32]
    assert found.classes[0] == "airplane"
    assert len(found.classes) == 10


@pytest.mark.parametrize("load", [datasets.penn_treebank, datasets.wikitext2])
@pytest.mark.parametrize("packed", [False, True])
def test_text_becomes_places_in_the_vocabulary_of_the_training_part(tiny, load, packed):
    for path in [*tiny.glob("ptb/*"), *tiny.glob("wikitext-2/*")] if packed else []:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    found = load(tiny)
    assert found.vocabulary == ("the", "cat", "\u2013", "sat", "<eos>", "N", "<unk>")
    assert found.train.tolist() == [0, 1, 2, 3, 4, 4, 0, 5, 6, 4]
    assert found.valid.tolist() == [0, 5, 4]
    assert found.test.tolist() == [1, 2, 1, 4, 4]
    assert {part.dtype for part in found[:3]} == {np.dtype(np.int32)}


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


# where files are found


def test_the_folder_of_the_call_comes_before_the_environment_and_the_cache(tiny, monkeypatch):
    first, second, third = (tiny / name for name in ("first", "second", "cache"))
    monkeypatch.setenv("VRSGMCMC_DATA", str(second))
    monkeypatch.setenv("XDG_CACHE_HOME", str(third))
    for place in (third / "vrsgmcmc", second, first):  # the last comes first
        shutil.copytree(tiny / "mnist", place / "mnist")
        second.mkdir(exist_ok=True)
        found = locate.obtain(CATALOGUE["mnist"], first if place == first else None)
        assert {path.parent for path in found.values()} == {place / "mnist"}
    (first / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()  # a part of it is elsewhere
    found = locate.obtain(CATALOGUE["mnist"], first)
    assert found["t10k-labels-idx1-ubyte.gz"].parent == second / "mnist"
    assert found["t10k-images-idx3-ubyte.gz"].parent == first / "mnist"


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x/cache"}, "/x/cache/vrsgmcmc"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/vrsgmcmc"),
        ("linux", {}, "/home/me/.cache/vrsgmcmc"),
        ("darwin", {}, "/home/me/Library/Caches/vrsgmcmc"),
        ("win32", {"LOCALAPPDATA": "/x/local"}, "/x/local/vrsgmcmc"),
        ("win32", {"XDG_CACHE_HOME": "/x/cache"}, "/home/me/AppData/Local/vrsgmcmc"),
    ],
)
def test_the_cache_is_where_the_system_wants_it(platform, environment, expected, monkeypatch):
    monkeypatch.setattr(locate.sys, "platform", platform)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"HOME": "/home/me"} | environment).items():
        monkeypatch.setenv(name, value)
    assert locate.cache_dir() == Path(expected)


def test_without_a_home_the_message_says_what_to_set(monkeypatch, tiny):
    def none():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", none)
    with pytest.raises(ValueError, match=r"no home for a cache. Name a folder with VRSGMCMC_DATA"):
        datasets.mnist()
    assert len(datasets.mnist(tiny).y_train) == 7  # nobody asks for it


@pytest.mark.parametrize("name", ["data_dir", "VRSGMCMC_DATA"])
def test_a_folder_that_is_none_is_refused(name, tmp_path, monkeypatch):
    wrong = str(tmp_path / "typo")
    monkeypatch.setenv("VRSGMCMC_DATA", wrong if name == "VRSGMCMC_DATA" else "")
    with pytest.raises(ValueError, match=re.escape(f"{name}={wrong!r} is not a folder.")):
        datasets.mnist(wrong if name == "data_dir" else None)


def test_offline_the_message_has_files_sums_and_the_place_to_put_them(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError) as error:
        datasets.penn_treebank()
    text = str(error.value)
    assert "3 of 3 files are not here, and VRSGMCMC_OFFLINE forbids to download them" in text
    for file in CATALOGUE["ptb"].files:
        assert (
            f"{file.name} (or {file.name}.gz), {file.length:,} bytes, sha256 {file.sha256}" in text
        )
        assert all(mirror in text for mirror in file.mirrors)
    assert f"put them into {tmp_path / 'vrsgmcmc' / 'ptb'}\n" in text
    assert list(tmp_path.iterdir()) == []


# files that are not what they should be


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("change", ["flip", "cut", "grow", "empty"])
def test_changed_files_are_refused_before_anybody_looks_into_them(name, change, tiny, monkeypatch):
    load = {"mnist": datasets.mnist, "cifar10": datasets.cifar10, "ptb": datasets.penn_treebank,
            "wikitext-2": datasets.wikitext2}[name]  # fmt: skip
    file = CATALOGUE[name].files[0]
    path = tiny / name / file.name
    content = path.read_bytes()
    flipped = content[:40] + bytes([content[40] ^ 1]) + content[41:] if len(content) > 40 else b"x"
    changed = {"flip": flipped, "cut": content[:-1], "grow": content + b"\n", "empty": b""}[change]
    path.write_bytes(changed)
    for module in (idx, cifar, vocabulary):
        for reader in {"read_idx", "from_archive", "words"} & vars(module).keys():
            monkeypatch.setattr(module, reader, lambda *_: pytest.fail("it was read"))
    with pytest.raises(
        ValueError, match=re.escape(f"{path} is not {file.name} as it was")
    ) as error:
        load(tiny)
    if change != "grow":
        hashes = re.findall(r"\b[0-9a-f]{64}\b", str(error.value))
        assert hashes == [file.sha256, hashlib.sha256(changed).hexdigest()]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"another text"), "expected sha256"),
        (b"no gzip", "cannot be unpacked: Not a gzipped file"),
        (gzip.compress(TEXTS["train"])[:-9], "cannot be unpacked: Compressed file ended"),
        (gzip.compress(bytes(2**24)), "it has more than"),
    ],
)
def test_a_packed_text_that_is_another_one_is_refused(content, message, tiny):
    path = tiny / "ptb" / "ptb.train.txt.gz"
    path.with_suffix("").unlink()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} .*{message}"):
        datasets.penn_treebank(tiny)


HEAD = bytes([0, 0, 8, 1]) + struct.pack(">I", 5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEAD + bytes(4), r"its shape is \(5,\), and has 4 bytes"),
        (HEAD + bytes(6), r"its shape is \(5,\), and has 6 bytes"),
        (
            bytes([0, 0, 8, 3]) + b"\xff" * 12,
            r"its shape is \(4294967295, 4294967295, 4294967295\)",
        ),
        (bytes([0, 0, 8, 255]) + b"\xff" * 12, "does not begin like an idx file"),
        (bytes([0, 0, 8, 0]), "does not begin like an idx file"),
        (bytes([0, 0, 8, 3]) + bytes(4), "does not begin like an idx file"),
        (bytes([0, 0, 13, 1]) + struct.pack(">I", 1) + bytes(4), "does not begin like an idx file"),
        (b"", "does not begin like an idx file"),
    ],
)
def test_an_idx_header_that_lies_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        idx.read_idx(gzip.compress(content))


def test_an_idx_file_that_unpacks_without_end_is_cut_short(monkeypatch):
    monkeypatch.setattr(idx, "MOST_BYTES", 1000)
    packed = gzip.compress(HEAD + bytes(2**20))
    seen = []
    read = gzip.GzipFile.read
    monkeypatch.setattr(
        gzip.GzipFile, "read", lambda self, size: seen.append(size) or read(self, size)
    )
    with pytest.raises(ValueError, match="unpacks to more than 1,000 bytes"):
        idx.read_idx(packed)
    assert seen == [1001]


def with_member(member: tarfile.TarInfo, data: bytes = b"") -> bytes:
    """The archive, with another member before its own."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(member, io.BytesIO(data))
        for name, content in BATCHES.items():
            own = tarfile.TarInfo(name)
            own.size = len(content)
            archive.addfile(own, io.BytesIO(content))
    return packed.getvalue()


def strange(
    name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = ""
) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, size, link
    return member


@pytest.mark.parametrize(
    "member",
    [
        strange("../../evil", size=4),
        strange("/tmp/evil", size=4),
        strange("evil", tarfile.SYMTYPE, link="/etc/passwd"),
        strange("device", tarfile.CHRTYPE),
    ],
)
def test_strange_members_of_an_archive_are_passed_over_and_nothing_is_written(
    member, tmp_path, monkeypatch
):
    (tmp_path / "here" / "now").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "now")
    packed = with_member(member, b"evil"[: member.size])
    monkeypatch.setattr(tarfile.TarFile, "extract", lambda *_, **__: pytest.fail("to disk"))
    monkeypatch.setattr(tarfile.TarFile, "extractall", lambda *_, **__: pytest.fail("to disk"))
    found = cifar.from_archive(packed)
    np.testing.assert_array_equal(found.x_train, PICTURES["x_train"])
    assert [path.name for path in tmp_path.rglob("*")] == ["here", "now"]


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"", "not the CIFAR-10 archive"),
        (gzip.compress(b"nothing"), "not the CIFAR-10 archive"),
        (archive_bytes(BATCHES)[:-2000], "not the CIFAR-10 archive"),
        (archive_bytes({"other": b"x"}), "it has no cifar-10-batches-bin/data_batch_1.bin"),
        (archive_bytes(BATCHES | {cifar.TRAIN[0]: bytes(3072)}), "data_batch_1.bin has 3,072 bytes"),
        (archive_bytes(BATCHES | {cifar.TRAIN[0]: b"\x0a" * 3073}), "there is a 10"),
        (with_member(strange(cifar.TRAIN[1], tarfile.SYMTYPE, link="/etc/passwd")), "no plain file"),
        (with_member(strange(cifar.TRAIN[1], size=0)), "is there twice"),
        (with_member(strange(cifar.TRAIN[1], size=3073 * 10_001), bytes(3073 * 10_001)),
         "data_batch_2.bin has 30,733,073 bytes"),
    ],
)  # fmt: skip
def test_an_archive_that_is_another_one_is_refused(packed, message):
    with pytest.raises(ValueError, match=message):
        cifar.from_archive(packed)


@pytest.mark.parametrize(
    "member",
    [strange("big", size=2**22), strange("././@LongLink", tarfile.GNUTYPE_LONGNAME, 2**22)],
)
def test_an_archive_that_unpacks_without_end_is_cut_short(member, monkeypatch):
    monkeypatch.setattr(cifar, "MOST_BYTES", 100_000)
    packed = with_member(member, bytes(2**22))
    assert len(packed) < 100_000
    with pytest.raises(ValueError, match="it unpacks to more than it should"):
        cifar.from_archive(packed)


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def pickled(name: str) -> bytes:
    """An .npz file in which one array is a pickle."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for other, array in PICTURES.items():
            with archive.open(f"{other}.npy", "w") as member:
                np.lib.format.write_array(member, np.array([Bomb()]) if other == name else array)
        archive.writestr("note.pkl", pickle.dumps(Bomb()))
    return packed.getvalue()


def lying(shape: tuple[int, ...]) -> bytes:
    """An .npz file whose `x_train` says that it has another shape."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    packed = io.BytesIO(npz_bytes(**{n: a for n, a in PICTURES.items() if n != "x_train"}))
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("x_train.npy", header.getvalue() + bytes(100))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no zip", "cannot be read: File is not a zip file"),
        (npz_bytes(x_train=PICTURES["x_train"]), "cannot be read: .*no item named 'y_train.npy'"),
        (npz_bytes(**PICTURES)[:-5000], "cannot be read"),
        (npz_bytes(**PICTURES | {"y_test": PICTURES["y_test"].astype(float)}), "is float64"),
        (npz_bytes(**PICTURES | {"y_test": PICTURES["y_test"][:, None]}), r"uint8 \[2, 1\]"),
        (
            npz_bytes(**PICTURES | {"x_test": PICTURES["x_test"].reshape(-1, 3, 32, 32)}),
            r"uint8 \[2, 3, 32, 32\], not uint8 \[n, 32, 32, 3\]",
        ),
        (npz_bytes(**PICTURES | {"x_test": 255 - PICTURES["x_test"]}), "x_test in .*sha256"),
        (pickled("x_train"), "it holds Python objects, which could run code"),
        (pickled("y_test"), "it holds Python objects, which could run code"),
        (lying((2**40, 32, 32, 3)), "cannot be read"),
        (lying((50_000, 32, 32, 3)), "cannot be read"),
    ],
)
def test_an_npz_file_that_is_another_one_is_refused(content, message, tiny, monkeypatch):
    monkeypatch.chdir(tiny)
    path = tiny / "cifar10" / "cifar10.npz"
    path.with_name("cifar-10-binary.tar.gz").unlink()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        datasets.cifar10(tiny)
    assert not Path("exploded").exists()


def test_an_array_that_unpacks_without_end_is_not_begun(tiny, monkeypatch):
    monkeypatch.setattr(cifar, "MOST_RECORDS", 1)
    monkeypatch.setattr(cifar, "MOST_HEADER", 128)
    path = tiny / "cifar10.npz"
    path.write_bytes(npz_bytes(**PICTURES | {"x_train": np.zeros((2**12, 32, 32, 3), np.uint8)}))
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("it was begun"))
    with pytest.raises(ValueError, match="x_train unpacks to 12,583,040 bytes"):
        cifar.from_npz(path)


def test_text_that_is_not_utf8_is_refused():
    with pytest.raises(ValueError, match=r"here is not UTF-8 text: invalid start byte at byte 4\."):
        vocabulary.words(b"the \xff cat", "here")


def test_a_word_that_the_training_text_has_not_is_refused():
    with pytest.raises(ValueError, match="'dog' is not a word of the training text"):
        vocabulary.number_words(["cat"], ["cat"], ["dog", "cat"])


# the real data


@pytest.fixture
def real(data_dir, monkeypatch):
    """The folder of real data, and nothing else to fall back on."""
    monkeypatch.setenv("VRSGMCMC_DATA", str(data_dir))
    return data_dir


def test_real_mnist(real):
    found = datasets.mnist()
    assert found.x_train.shape == (60_000, 28, 28)
    assert found.x_test.shape == (10_000, 28, 28)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(found.y_train).tolist() == counts
    assert len(found.y_test) == 10_000
    assert round(found.x_train.mean() / 255, 4) == 0.1307
    assert round(found.x_train.std() / 255, 4) == 0.3081


BATCH_MD5 = (  # published, of data_batch_1.bin .. data_batch_5.bin and test_batch.bin
    *("5dd7e06a14cb22eb9f671a540d1b7c25", "5ea93a67294ea407fff1d09f752e9692"),
    *("942cd6a4bcdd0dd3c604fbe906cb4421", "ae636b3ba5c66a11e91e8cb52e771fcb"),
    *("53f37980c15c3d472c316c40844f3f0d", "803d5f7f4d78ea53de84dbe85f74fb6d"),
)


def real_batches(found):
    for k in range(5):
        rows = slice(10_000 * k, 10_000 * (k + 1))
        yield batch_bytes(found.x_train[rows], found.y_train[rows])
    yield batch_bytes(found.x_test, found.y_test)


def test_real_cifar10(real):
    found = datasets.cifar10()
    assert found.x_train.shape == (50_000, 32, 32, 3)
    assert found.x_test.shape == (10_000, 32, 32, 3)
    assert np.bincount(found.y_train).tolist() == [5000] * 10
    assert np.bincount(found.y_test).tolist() == [1000] * 10
    assert [hashlib.md5(batch).hexdigest() for batch in real_batches(found)] == list(BATCH_MD5)


@pytest.mark.slow
def test_real_cifar10_has_room_in_its_archive(real):
    found = datasets.cifar10()
    batches = dict(zip((*cifar.TRAIN, *cifar.TEST), real_batches(found), strict=True))
    page = {"cifar-10-batches-bin/readme.html": b"<html>"}
    again = cifar.from_archive(archive_bytes(page | batches, level=0))
    for there, here in zip(found, again, strict=True):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize(
    ("load", "counts", "size"),
    [
        (datasets.penn_treebank, (929_589, 73_760, 82_430), 10_000),
        (datasets.wikitext2, (2_088_628, 217_646, 245_569), 33_278),
    ],
)
def test_real_text(load, counts, size, real):
    found = load()
    assert tuple(map(len, found[:3])) == counts
    assert len(set(found.vocabulary)) == len(found.vocabulary) == size
    assert found.train.min() == 0
    assert found.train.max() == size - 1
    lines = {10_000: (42_068, 3_370, 3_761), 33_278: (36_718, 3_760, 4_358)}[size]
    end = found.vocabulary.index("<eos>")
    assert tuple(int((part == end).sum()) for part in found[:3]) == lines


def test_real_pima(real):
    for here, there in zip(datasets.pima(), datasets.pima(real), strict=True):
        np.testing.assert_array_equal(here, there)


# the command line


def run(line, capsys):
    capsys.readouterr()
    code = cli.main(shlex.split(line))
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def test_list_shows_size_licence_and_place(tiny, capsys, monkeypatch):
    shutil.rmtree(tiny / "cifar10")
    (tiny / "ptb" / "ptb.test.txt").unlink()
    code, out, err = run(f"data list --data-dir {tiny}", capsys)
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert list(rows) == ["data", *CATALOGUE, "pima"]
    assert rows["mnist"].endswith(f"CC BY-SA 3.0                         {tiny / 'mnist'}")
    assert rows["cifar10"].endswith("cite Krizhevsky (2009)  -")
    assert rows["ptb"].endswith(f"do not pass it on     2 of 3 files in {tiny / 'ptb'}")
    assert rows["pima"].endswith("in the package")
    monkeypatch.setenv("VRSGMCMC_DATA", str(tiny))
    assert run("data list mnist", capsys)[1].splitlines()[1].endswith(str(tiny / "mnist"))


def test_sizes_are_those_of_the_real_files(capsys):
    _, out, _ = run("data list", capsys)
    sizes = re.findall(r"([\d.]+ [kM]B)", out)
    assert sizes == ["11.6 MB", "170.1 MB", "6.0 MB", "13.2 MB", "23 kB"]


def test_verify_names_every_file(tiny, capsys):
    code, out, err = run(f"data verify --data-dir {tiny}", capsys)
    assert (code, err) == (0, "")
    assert sorted(line.removesuffix(": as published") for line in out.splitlines()) == sorted(
        str(path) for path in tiny.glob("*/*")
    )
    path = tiny / "mnist" / "train-labels-idx1-ubyte.gz"
    path.write_bytes(b"damaged")
    (tiny / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    code, out, err = run(f"data verify mnist --data-dir {tiny}", capsys)
    assert code == 2
    assert len(out.splitlines()) == 2
    assert f"vrsgmcmc: {path} is not train-labels-idx1-ubyte.gz as it was published" in err
    assert "vrsgmcmc: t10k-labels-idx1-ubyte.gz is missing." in err


def test_verify_looks_into_an_npz_file(tiny, capsys):
    path = tiny / "cifar10" / "cifar10.npz"
    path.with_name("cifar-10-binary.tar.gz").unlink()
    path.write_bytes(npz_bytes(**PICTURES))
    assert run(f"data verify cifar10 --data-dir {tiny}", capsys)[:2] == (
        0,
        f"{path}: as published\n",
    )
    path.write_bytes(npz_bytes(**PICTURES | {"y_test": 9 - PICTURES["y_test"]}))
    code, _, err = run(f"data verify cifar10 --data-dir {tiny}", capsys)
    assert code == 2
    assert f"y_test in {path} is not that of CIFAR-10" in err


def test_verify_without_data(capsys):
    assert run("data verify", capsys)[:2] == (
        0,
        "There is no data set on this machine. See vrsgmcmc data get --help.\n",
    )
    code, _, err = run("data verify ptb", capsys)
    assert code == 2
    assert err.count("is missing.") == 3


def test_get_shows_what_is_there_and_offline_what_is_missing(tiny, capsys):
    code, out, err = run(f"data get all --data-dir {tiny}", capsys)
    assert code == 0
    assert sorted(out.split()) == sorted(str(path) for path in tiny.glob("*/*"))
    assert "licence: CC BY-SA 3.0" in err
    code, out, err = run("data get mnist", capsys)
    assert (code, out) == (2, "")
    assert "VRSGMCMC_OFFLINE forbids" in err


@pytest.mark.parametrize(
    ("name", "file", "others"),
    [("mnist", "train-images-idx3-ubyte.gz", 3), ("cifar10", "cifar10.npz", 0)],
)
def test_get_does_not_take_a_damaged_file_for_one_that_is_there(name, file, others, tiny, capsys):
    (tiny / "cifar10" / "cifar-10-binary.tar.gz").unlink()
    path = tiny / name / file
    path.write_bytes(b"damaged")
    code, out, err = run(f"data get {name} --data-dir {tiny}", capsys)
    assert (code, len(out.splitlines())) == (2, others)
    assert f"vrsgmcmc: {path} " in err
    assert f"Delete it and get it again: vrsgmcmc data get {name} --data-dir {tiny}" in err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("data", "the following arguments are required: list|get|verify"),
        ("data lst", "invalid choice: 'lst'"),
        ("data get", "get what? Name data sets: mnist, cifar10, ptb, wikitext-2, or all."),
        ("data get mnis", "unknown data set 'mnis'. Did you mean mnist?"),
        ("data verify pima", "pima comes with the package"),
        ("data list --data-dir /no/where", "data_dir='/no/where' is not a folder."),
        ("data list --datadir x", "unknown option '--datadir'. Did you mean --data-dir?"),
    ],
)
def test_mistakes_get_a_sentence(line, message, capsys):
    code, out, err = run(line, capsys)
    assert (code, out) == (2, "")
    assert message in err


# the page about data


def test_the_code_of_the_page_runs(tiny, monkeypatch):
    monkeypatch.setenv("VRSGMCMC_DATA", str(tiny))
    *_, names = execute(PAGE)
    assert names["x"].shape == (7, 784)
    assert names["x"].dtype == np.float32
    assert 0 <= names["x"].min() < names["x"].max() <= 1
    np.testing.assert_array_equal(names["y"], DIGITS["train-labels-idx1-ubyte.gz"])
    assert names["sentence"] == ["the", "cat", "\u2013", "sat", "<eos>"]


def test_the_page_lists_every_file_of_the_catalogue():
    text = PAGE.read_text()
    shown = cells(text, "file")
    assert {row for row, _ in shown} == {f"`{folder}/{file.name}`" for folder, file in FILES}
    for folder, file in FILES:
        assert shown[f"`{folder}/{file.name}`", "bytes"] == f"{file.length:,}"
        assert shown[f"`{folder}/{file.name}`", "sha256"] == f"`{file.sha256}`"
        for mirror in file.mirrors:
            assert f"<{mirror.rsplit('/', 1)[0]}/>" in text, mirror
    licences = cells(text, "data set")
    for known in CATALOGUE.values():
        assert licences[f"`{known.name}`", "licence"].startswith(known.licence)


def test_the_recipe_of_the_page_brings_files_by_hand(tiny, capsys, monkeypatch, tmp_path):
    """`get` where there is a net, the folder carried over, `verify` where there is none."""
    block = re.search(r"^```sh\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert block is not None
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny, "folder", ignore=shutil.ignore_patterns("folder"))
    for line in block[1].splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        if line.startswith("export "):
            monkeypatch.setenv(name, value)
        else:
            assert run(line.removeprefix("vrsgmcmc "), capsys)[0] == 0, line
