"""The content of a file, compared with its sha256 before anything parses it.

Lengths and compression ratios are not trusted: no more bytes are read or unpacked than
the file can have.
"""

import gzip
import hashlib
import shlex
import zlib
from pathlib import Path
from typing import BinaryIO

from .catalogue import File

PUBLISHED = "as it was published"


def content(file: File, path: Path) -> bytes:
    """The published bytes of a file, read from `path`, where it may be gzipped."""
    repair, mismatch = repair_hint(path), f"{path} is not {file.name} {PUBLISHED}"
    with path.open("rb") as stream:
        try:
            if path.name != file.name and path.suffix == ".gz":
                data = unpack(stream, file.length, path)
            else:
                data = stream.read(file.length + 1)
        except ValueError as error:
            raise ValueError(f"{error} {repair}") from error
    if len(data) > file.length:
        raise ValueError(f"{mismatch}: it has more than {file.length:,} bytes. {repair}")
    check_sum(file.sha256, data, mismatch, repair)
    return data


def check_sum(expected: str, data: bytes | memoryview, mismatch: str, repair: str) -> None:
    """Raise ValueError, beginning with `mismatch`, if the data have another sha256."""
    actual = hashlib.sha256(data).hexdigest()
    if actual != expected:
        raise ValueError(f"{mismatch}: expected sha256 {expected}, got {actual}. {repair}")


def repair_hint(path: Path) -> str:
    """The command that downloads a file of a data set's folder again."""
    folder = path.absolute().parent
    get = shlex.join(["vrsgmcmc", "data", "get", folder.name, "--data-dir", str(folder.parent)])
    return f"Delete it and get it again: {get}"


def unpack(stream: BinaryIO, limit: int, source: object) -> bytes:
    """Unpack gzipped bytes: at most `limit` of them, and one more if there are more."""
    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:
            return unpacked.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{source} cannot be unpacked: {error}.") from error
