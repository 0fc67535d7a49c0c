"""CIFAR-10, from the archive of its "binary version" or from an .npz file of the same arrays.

The archive holds six members of 10,000 records: a byte for the class, then 1,024 bytes each of red,
green and blue, row by row. It is read as a stream in memory, and no member is written to disk. The
.npz file has no publisher, so its arrays are compared with published sums.

A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", University of Toronto, 2009.
"""

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any, cast

import numpy as np

from .arrays import UNREADABLE, array_errors, read_array
from .catalogue import CATALOGUE
from .checksums import PUBLISHED, check_sum, content, repair_hint
from .locate import obtain
from .types import Images

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
SIDE, CHANNELS = 32, 3
RECORD = 1 + CHANNELS * SIDE**2
TRAIN = tuple(f"cifar-10-batches-bin/data_batch_{k}.bin" for k in range(1, 6))
TEST = ("cifar-10-batches-bin/test_batch.bin",)
MOST_RECORDS = 10_000  # in a member
MOST_BYTES = 6 * MOST_RECORDS * RECORD + 2**20  # in the unpacked archive: data, headers and a page
MOST_HEADER = 2**16  # bytes, of an array in an .npz file
PICTURE = (SIDE, SIDE, CHANNELS)
ARRAYS = {  # name in the .npz file -> shape of a row, sha256 of all bytes
    "x_train": (PICTURE, "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a"),
    "y_train": ((), "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253"),
    "x_test": (PICTURE, "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04"),
    "y_test": ((), "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5"),
}


def cifar10(data_dir: str | os.PathLike[str] | None = None) -> Images:
    """50,000 and 10,000 pictures: x uint8 [n, 32, 32, 3], RGB; y int32 [n], 0 to 9.

    `data_dir`: a folder with a folder `cifar10`; otherwise VRSGMCMC_DATA, the user's cache, or the net.
    Reading takes a few seconds.
    """
    dataset = CATALOGUE["cifar10"]
    (file,) = dataset.files
    path = obtain(dataset, data_dir)[file.name]
    return from_npz(path) if path.suffix == ".npz" else from_archive(content(file, path))


def from_archive(packed: bytes) -> Images:
    """The pictures in the bytes of `cifar-10-binary.tar.gz`."""
    try:
        batches = read_members(packed)
    except (*UNREADABLE, tarfile.TarError) as error:
        raise ValueError(f"this is not the CIFAR-10 archive: {error}.") from error
    if missing := [name for name in (*TRAIN, *TEST) if name not in batches]:
        raise ValueError(f"this is not the CIFAR-10 archive: it has no {missing[0]}.")
    train, test = (parse_batches([batches[name] for name in part]) for part in (TRAIN, TEST))
    return Images(*train, *test, CLASSES)


def read_members(packed: bytes) -> dict[str, bytes]:
    """The batches of an archive by name; other members are skipped."""
    batches = {}
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as unpacked:
        bounded = cast(Any, BoundedStream(unpacked, MOST_BYTES))
        with tarfile.open(fileobj=bounded, mode="r|") as archive:
            for member in archive:
                if member.name not in (*TRAIN, *TEST):
                    continue
                if member.size > MOST_RECORDS * RECORD or member.size % RECORD:
                    raise ValueError(f"{member.name} has {member.size:,} bytes")
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is None or member.name in batches:
                    raise ValueError(f"{member.name} is there twice, or is no plain file")
                batches[member.name] = stream.read()
    return batches


class BoundedStream:
    """A stream that raises ValueError after `limit` bytes, whatever its headers say."""

    def __init__(self, stream: gzip.GzipFile, limit: int):
        self.stream, self.left = stream, limit

    def read(self, size: int) -> bytes:
        data = self.stream.read(min(size, self.left + 1))
        self.left -= len(data)
        if self.left < 0:
            raise ValueError("it unpacks to more than it should")
        return data


def parse_batches(batches: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Pictures [n, 32, 32, 3] and classes [n]."""
    table = np.frombuffer(b"".join(batches), np.uint8).reshape(-1, RECORD)
    colours = table[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE)
    return np.ascontiguousarray(colours.transpose(0, 2, 3, 1)), as_classes(table[:, 0])


def as_classes(labels: np.ndarray) -> np.ndarray:
    if len(labels) and labels.max() >= len(CLASSES):
        raise ValueError(f"CIFAR-10 has classes 0 to 9, and there is a {labels.max()}.")
    return labels.astype(np.int32)


def from_npz(path: Path) -> Images:
    """The pictures in an .npz file with `x_train`, `y_train`, `x_test` and `y_test`, uint8."""
    repair = repair_hint(path)
    with array_errors(path, repair), zipfile.ZipFile(path) as archive:
        arrays = {name: read_member(archive, name, row) for name, (row, _) in ARRAYS.items()}
    for name, (_, sha256) in ARRAYS.items():
        data = np.ascontiguousarray(arrays[name]).data
        check_sum(sha256, data, f"{name} in {path} is not that of CIFAR-10 {PUBLISHED}", repair)
    x_train, y_train, x_test, y_test = arrays.values()
    return Images(x_train, as_classes(y_train), x_test, as_classes(y_test), CLASSES)


def read_member(archive: zipfile.ZipFile, name: str, row: tuple[int, ...]) -> np.ndarray:
    """An array of an .npz file, whose rows must be uint8 of the shape `row`."""
    member = archive.getinfo(f"{name}.npy")
    if member.file_size > 5 * MOST_RECORDS * RECORD + MOST_HEADER:
        raise ValueError(f"{name} unpacks to {member.file_size:,} bytes")
    with archive.open(member) as file:
        array = read_array(file)
    if array.dtype != np.uint8 or not array.ndim or array.shape[1:] != row:
        expected = ", ".join(map(str, ("n", *row)))
        raise ValueError(f"{name} is {array.dtype} {list(array.shape)}, not uint8 [{expected}]")
    return array
