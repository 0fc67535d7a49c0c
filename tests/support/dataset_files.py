"""The files of the catalogue, and data sets of a few rows in their formats."""

import gzip
import hashlib
import io
import struct
import tarfile

import numpy as np

from vrsgmcmc.datasets import CATALOGUE, Dataset, cifar

FILES = [(dataset.name, file) for dataset in CATALOGUE.values() for file in dataset.files]


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


def with_content(name: str, contents: list[bytes]) -> Dataset:
    """A data set of the catalogue, with the lengths and sums of other content."""
    dataset = CATALOGUE[name]
    files = tuple(
        file._replace(length=len(content), sha256=hashlib.sha256(content).hexdigest())
        for file, content in zip(dataset.files, contents, strict=True)
    )
    return dataset._replace(files=files)
