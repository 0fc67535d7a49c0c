"""The content of a file, compared with its sha256 before anybody looks into it.

Nothing here trusts a length or a compression ratio: no more is read or unpacked than there can be.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from vrsgmcmc.datasets.catalogue import File


def content(file: File, path: Path) -> bytes:
    """The published bytes of a file, from where it lies in one of its forms."""
    with path.open("rb") as stored:
        compressed = path.name != file.name and path.suffix == ".gz"
        found = unpacked(stored, file.length, path) if compressed else stored.read(file.length + 1)
    if len(found) > file.length:
        raise ValueError(
            f"{path} is not {file.name} as it was published: it has more than {file.length:,} bytes. "
            f"{REPAIR}"
        )
    check(file.sha256, hashlib.sha256(found).hexdigest(), f"{path} is not {file.name}")
    return found


REPAIR = "Delete it and get it again: vrsgmcmc data get."


def check(expected: str, found: str, wrong: str) -> None:
    """Refuse content that has another sum."""
    if found != expected:
        raise ValueError(
            f"{wrong} as it was published: expected sha256 {expected}, got {found}. {REPAIR}"
        )


def unpacked(stored: BinaryIO | bytes, most: int, source: object) -> bytes:
    """What gzip packed: up to `most` bytes of it, and one more if there are more."""
    stream = io.BytesIO(stored) if isinstance(stored, bytes) else stored
    try:
        with gzip.GzipFile(fileobj=cast(BinaryIO, stream)) as packed:
            return packed.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{source} cannot be unpacked: {error}. {REPAIR}") from error
