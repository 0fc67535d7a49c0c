"""CIFAR-10, from the archive of its "binary version" or from an .npz file of the same arrays.

The archive holds six members of 10,000 records: a byte for the class, then 1,024 bytes of red, of green
and of blue, row by row. It is read as a stream, in memory; no member is ever written to disk. The .npz
file has no publisher, so it is its arrays that are compared with known sums.

A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", University of Toronto, 2009.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any, cast

import numpy as np

from vrsgmcmc.datasets.catalogue import CATALOGUE
from vrsgmcmc.datasets.checksums import check, content, repair
from vrsgmcmc.datasets.locate import obtain
from vrsgmcmc.datasets.types import Images

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
SIDE, CHANNELS = 32, 3
RECORD = 1 + CHANNELS * SIDE**2
TRAIN = tuple(f"cifar-10-batches-bin/data_batch_{k}.bin" for k in range(1, 6))
TEST = ("cifar-10-batches-bin/test_batch.bin",)
MOST_RECORDS = 10_000  # of a member
MOST_BYTES = (
    6 * MOST_RECORDS * RECORD + 2**20
)  # of the archive, unpacked: the data, headers, a page
MOST_HEADER = 2**16  # of an array in an .npz file
PICTURE = (SIDE, SIDE, CHANNELS)
ARRAYS = {  # name in the .npz file -> shape of a row, sha256 of all bytes
    "x_train": (PICTURE, "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a"),
    "y_train": ((), "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253"),
    "x_test": (PICTURE, "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04"),
    "y_test": ((), "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5"),
}
DAMAGED = (
    *(ValueError, KeyError, EOFError, OSError, MemoryError, RuntimeError, TypeError, SyntaxError),
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, struct.error),
)  # what NumPy, tarfile and zipfile raise for a file that is none


def cifar10(data_dir: str | os.PathLike[str] | None = None) -> Images:
    """50,000 and 10,000 pictures: x uint8 [n, 32, 32, 3], RGB; y int32 [n], 0 to 9.

    `data_dir`: a folder with a folder `cifar10`; otherwise VRSGMCMC_DATA, the user's cache, or the net.
    Takes a few seconds: read it once and keep it.
    """
    known = CATALOGUE["cifar10"]
    (file,) = known.files
    path = obtain(known, data_dir)[file.name]
    return from_npz(path) if path.suffix == ".npz" else from_archive(content(file, path))


def from_archive(packed: bytes) -> Images:
    """The pictures in the bytes of `cifar-10-binary.tar.gz`."""
    try:
        batches = members(packed)
    except DAMAGED as error:
        raise ValueError(f"this is not the CIFAR-10 archive: {error}.") from error
    if missing := [name for name in (*TRAIN, *TEST) if name not in batches]:
        raise ValueError(f"this is not the CIFAR-10 archive: it has no {missing[0]}.")
    x_train, y_train = records([batches[name] for name in TRAIN])
    x_test, y_test = records([batches[name] for name in TEST])
    return Images(x_train, y_train, x_test, y_test, CLASSES)


def members(packed: bytes) -> dict[str, bytes]:
    """The batches of an archive by their names; everything else is passed over."""
    found = {}
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as unpacked:
        bounded = cast(Any, Bounded(unpacked, MOST_BYTES))
        with tarfile.open(fileobj=bounded, mode="r|") as archive:
            for member in archive:
                if member.name not in (*TRAIN, *TEST):
                    continue
                if member.size > MOST_RECORDS * RECORD or member.size % RECORD:
                    raise ValueError(f"{member.name} has {member.size:,} bytes")
                batch = archive.extractfile(member) if member.isfile() else None
                if batch is None or member.name in found:
                    raise ValueError(f"{member.name} is there twice, or is no plain file")
                found[member.name] = batch.read()
    return found


class Bounded:
    """A stream that refuses to give more than it should have, whatever its headers say."""

    def __init__(self, stream: gzip.GzipFile, most: int):
        self.stream, self.left = stream, most

    def read(self, size: int) -> bytes:
        found = self.stream.read(min(size, self.left + 1))
        self.left -= len(found)
        if self.left < 0:
            raise ValueError("it unpacks to more than it should")
        return found


def records(batches: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Pictures [n, 32, 32, 3] and classes [n] of some batches."""
    table = np.frombuffer(b"".join(batches), np.uint8).reshape(-1, RECORD)
    colours = table[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE)
    return np.ascontiguousarray(colours.transpose(0, 2, 3, 1)), classes(table[:, 0])


def classes(labels: np.ndarray) -> np.ndarray:
    if len(labels) and labels.max() >= len(CLASSES):
        raise ValueError(f"CIFAR-10 has classes 0 to 9, and there is a {labels.max()}.")
    return labels.astype(np.int32)


def from_npz(path: Path) -> Images:
    """The pictures in an .npz file with `x_train`, `y_train`, `x_test` and `y_test`, uint8."""
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {name: array(archive, name, row) for name, (row, _) in ARRAYS.items()}
    except DAMAGED as error:
        objects = "Object arrays" in str(error)
        told = "it holds Python objects, which could run code" if objects else error
        raise ValueError(f"{path} cannot be read: {told}. {repair(path)}") from error
    for name, (_, expected) in ARRAYS.items():
        found = hashlib.sha256(np.ascontiguousarray(arrays[name]).data).hexdigest()
        check(expected, found, f"{name} in {path} is not that of CIFAR-10", path)
    x_train, y_train, x_test, y_test = arrays.values()
    return Images(x_train, classes(y_train), x_test, classes(y_test), CLASSES)


def array(archive: zipfile.ZipFile, name: str, row: tuple[int, ...]) -> np.ndarray:
    member = archive.getinfo(f"{name}.npy")
    if member.file_size > 5 * MOST_RECORDS * RECORD + MOST_HEADER:
        raise ValueError(f"{name} unpacks to {member.file_size:,} bytes")
    with archive.open(member) as file:
        found = np.lib.format.read_array(file, allow_pickle=False)
    if found.dtype != np.uint8 or not found.ndim or found.shape[1:] != row:
        wanted = ", ".join(map(str, ("n", *row)))
        raise ValueError(f"{name} is {found.dtype} {list(found.shape)}, not uint8 [{wanted}]")
    return found
