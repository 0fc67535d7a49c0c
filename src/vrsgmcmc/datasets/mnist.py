"""MNIST, in the idx format of its authors.

A file is 0, 0, the type of its numbers (8: unsigned bytes), the number of axes, the length of each axis
as a big-endian 32-bit integer, and then the numbers, the last axis running fastest.

Y. LeCun, C. Cortes, C. J. C. Burges, "The MNIST database of handwritten digits".
"""

from __future__ import annotations

import math
import os
import struct

import numpy as np
from jaxtyping import UInt8

from vrsgmcmc.datasets.catalogue import CATALOGUE
from vrsgmcmc.datasets.checksums import content, unpacked
from vrsgmcmc.datasets.locate import obtain
from vrsgmcmc.datasets.types import Images

MOST_BYTES = 16 + 60_000 * 28 * 28  # of a file, unpacked


def mnist(data_dir: str | os.PathLike[str] | None = None) -> Images:
    """60,000 and 10,000 handwritten digits: x uint8 [n, 28, 28], 0 is paper; y int32 [n], 0 to 9.

    `data_dir`: a folder with a folder `mnist`; otherwise VRSGMCMC_DATA, the user's cache, or the net.
    """
    known = CATALOGUE["mnist"]
    paths = obtain(known, data_dir)
    x_train, y_train, x_test, y_test = (
        read_idx(content(file, paths[file.name]), file.name) for file in known.files
    )
    digits = tuple(map(str, range(10)))
    return Images(x_train, y_train.astype(np.int32), x_test, y_test.astype(np.int32), digits)


def read_idx(packed: bytes, name: str = "idx file") -> UInt8[np.ndarray, "..."]:
    """The array in a gzipped idx file of unsigned bytes."""
    found = unpacked(packed, MOST_BYTES, name)
    if len(found) > MOST_BYTES:
        raise ValueError(f"{name} unpacks to more than {MOST_BYTES:,} bytes: this is not MNIST.")
    axes = found[3] if found[:3] == b"\0\0\x08" and len(found) > 3 else 0
    start = 4 + 4 * axes
    if not 0 < axes < 4 or len(found) < start:
        raise ValueError(f"{name} does not begin like an idx file of unsigned bytes.")
    shape = struct.unpack_from(f">{axes}I", found, 4)
    if math.prod(shape) != len(found) - start:
        raise ValueError(
            f"{name} says that its shape is {shape}, and has {len(found) - start:,} bytes for it."
        )
    return np.frombuffer(found, np.uint8, offset=start).reshape(shape).copy()
