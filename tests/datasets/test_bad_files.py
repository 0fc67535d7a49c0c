"""Files that are damaged, hostile, or other files than those of the catalogue."""

import gzip
import hashlib
import io
import os
import pickle
import re
import struct
import tarfile
import zipfile
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from support.dataset_files import BATCHES, PICTURES, TEXTS, archive_bytes, npz_bytes

from vrsgmcmc import datasets
from vrsgmcmc.datasets import CATALOGUE, cifar
from vrsgmcmc.datasets import text as vocabulary

idx = import_module("vrsgmcmc.datasets.mnist")  # the package offers the function of this name


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
    sizes = []
    read = gzip.GzipFile.read
    monkeypatch.setattr(
        gzip.GzipFile, "read", lambda self, size: sizes.append(size) or read(self, size)
    )
    with pytest.raises(ValueError, match="unpacks to more than 1,000 bytes"):
        idx.read_idx(packed)
    assert sizes == [1001]


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
    images = cifar.from_archive(packed)
    np.testing.assert_array_equal(images.x_train, PICTURES["x_train"])
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


def npz_with_pickle(name: str) -> bytes:
    """An .npz file in which one array is a pickle."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for other, array in PICTURES.items():
            with archive.open(f"{other}.npy", "w") as member:
                np.lib.format.write_array(member, np.array([Bomb()]) if other == name else array)
        archive.writestr("note.pkl", pickle.dumps(Bomb()))
    return packed.getvalue()


def npz_with_shape(shape: tuple[int, ...]) -> bytes:
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
        (npz_with_pickle("x_train"), "it holds Python objects, which could run code"),
        (npz_with_pickle("y_test"), "it holds Python objects, which could run code"),
        (npz_with_shape((2**40, 32, 32, 3)), "cannot be read"),
        (npz_with_shape((50_000, 32, 32, 3)), "cannot be read"),
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
