"""The content of a file, compared with its sha256 before anybody looks into it.

Nothing here trusts a length or a compression ratio: no more is read or unpacked than there can be.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shlex
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from vrsgmcmc.datasets.catalogue import File


def content(file: File, path: Path) -> bytes:
    """The published bytes of a file, from where it lies in one of its forms."""
    with path.open("rb") as stored:
        compressed = path.name != file.name and path.suffix == ".gz"
        try:
            found = (
                unpacked(stored, file.length, path) if compressed else stored.read(file.length + 1)
            )
        except ValueError as error:
            raise ValueError(f"{error} {repair(path)}") from error
    if len(found) > file.length:
        raise ValueError(
            f"{path} is not {file.name} as it was published: it has more than {file.length:,} bytes. "
            f"{repair(path)}"
        )
    check(file.sha256, hashlib.sha256(found).hexdigest(), f"{path} is not {file.name}", path)
    return found


def repair(path: Path) -> str:
    """What to do about a file in the folder of its data set."""
    folder = path.absolute().parent
    get = shlex.join(["vrsgmcmc", "data", "get", folder.name, "--data-dir", str(folder.parent)])
    return f"Delete it and get it again: {get}"


def check(expected: str, found: str, wrong: str, path: Path) -> None:
    """Refuse content that has another sum."""
    if found != expected:
        raise ValueError(
            f"{wrong} as it was published: expected sha256 {expected}, got {found}. {repair(path)}"
        )


def unpacked(stored: BinaryIO | bytes, most: int, source: object) -> bytes:
    """What gzip packed: up to `most` bytes of it, and one more if there are more."""
    stream = io.BytesIO(stored) if isinstance(stored, bytes) else stored
    try:
        with gzip.GzipFile(fileobj=cast(BinaryIO, stream)) as packed:
            return packed.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{source} cannot be unpacked: {error}.") from error
