"""MNIST, in the idx format of its authors.

A file consists of two zero bytes, the type of its numbers (8: unsigned bytes), the number of axes, the
length of each axis as a big-endian 32-bit integer, and the numbers, with the last axis varying fastest.

Y. LeCun, C. Cortes, C. J. C. Burges, "The MNIST database of handwritten digits".
"""

import io
import math
import os
import struct

import numpy as np
from jaxtyping import UInt8

from .catalogue import CATALOGUE
from .checksums import content, unpack
from .locate import obtain
from .types import Images

MOST_BYTES = 16 + 60_000 * 28 * 28  # limit of an unpacked file


def mnist(data_dir: str | os.PathLike[str] | None = None) -> Images:
    """60,000 and 10,000 handwritten digits: x uint8 [n, 28, 28], 0 is paper; y int32 [n], 0 to 9.

    `data_dir`: a folder with a folder `mnist`; otherwise VRSGMCMC_DATA, the user's cache, or the net.
    """
    dataset = CATALOGUE["mnist"]
    paths = obtain(dataset, data_dir)
    x_train, y_train, x_test, y_test = (
        read_idx(content(file, paths[file.name]), file.name) for file in dataset.files
    )
    digits = tuple(map(str, range(10)))
    return Images(x_train, y_train.astype(np.int32), x_test, y_test.astype(np.int32), digits)


def read_idx(packed: bytes, name: str = "idx file") -> UInt8[np.ndarray, "..."]:
    """The array in a gzipped idx file of unsigned bytes."""
    data = unpack(io.BytesIO(packed), MOST_BYTES, name)
    if len(data) > MOST_BYTES:
        raise ValueError(f"{name} unpacks to more than {MOST_BYTES:,} bytes: this is not MNIST.")
    axes = data[3] if data[:3] == b"\0\0\x08" and len(data) > 3 else 0
    start = 4 + 4 * axes
    if not 0 < axes < 4 or len(data) < start:
        raise ValueError(f"{name} does not begin like an idx file of unsigned bytes.")
    shape = struct.unpack_from(f">{axes}I", data, 4)
    if math.prod(shape) != len(data) - start:
        raise ValueError(
            f"{name} says that its shape is {shape}, and has {len(data) - start:,} bytes for it."
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy()
