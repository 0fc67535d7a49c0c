"""NumPy arrays from files that may be damaged or hostile; nothing is unpickled."""

import struct
import zipfile
import zlib
from typing import IO

import numpy as np

UNREADABLE = (
    *(ValueError, KeyError, EOFError, OSError, MemoryError, RuntimeError, TypeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)  # what NumPy and zipfile raise for a damaged file


def read_array(file: IO[bytes]) -> np.ndarray:
    return np.lib.format.read_array(file, allow_pickle=False)


def problem(error: Exception) -> str:
    """Why `read_array` failed, without NumPy's advice to allow pickles."""
    if "Object arrays" in str(error):
        return "it holds Python objects, which could run code"
    return str(error)
