"""NumPy arrays from files that may be damaged or hostile; nothing is unpickled."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

UNREADABLE = (
    *(ValueError, KeyError, EOFError, OSError, MemoryError, RuntimeError, TypeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)  # what NumPy and zipfile raise for a damaged file


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of the array that follows, from its header alone."""
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError(f"its format has version {version}, which is for tables of mixed columns")
    shape, _, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("Object arrays are not read")
    return shape, dtype


def read_array(file: IO[bytes]) -> np.ndarray:
    return np.lib.format.read_array(file, allow_pickle=False)


@contextmanager
def array_errors(path: Path, repair: str) -> Iterator[None]:
    """Explain the errors of a damaged file, without NumPy's advice to allow pickles."""
    try:
        yield
    except UNREADABLE as error:
        objects = "Object arrays" in str(error)
        reason = "it holds Python objects, which could run code" if objects else error
        raise ValueError(f"{path} cannot be read: {reason}. {repair}") from error
