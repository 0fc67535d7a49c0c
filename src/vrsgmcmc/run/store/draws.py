"""Draws on disk: a zarr array for each leaf, [chain, draw, ...], in chunks of draws of all chains.

zarr encodes in memory and `folder` writes, so that every byte of a run goes to disk one way. The shape
is that of the whole run from the beginning: no file of `draws.zarr` is written twice. Reading does not
use zarr's metadata: the layout is part of the commit, and a chunk is little-endian numbers and their
crc32c, so no file of `draws.zarr` can choose how another one is decoded.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec
from zarr.storage import MemoryStore

from vrsgmcmc.core import distinct

CHUNK_BYTES = 2**22  # of one chunk of draws, all leaves and chains together
CHECKSUM_BYTES = 4
FOLDER = "draws.zarr"
KINDS = ("float16", "float32", "float64")
MOST = 2**53  # of any count
MOST_AXES = 32
RESERVED = ("chain", "draw", "c", "zarr.json")  # dimensions, and names of zarr's own


class Leaf(NamedTuple):
    name: str  # as in the caller's pytree
    variable: str  # the same, fit for a file name
    shape: tuple[int, ...]
    dtype: str  # on disk; float32 holds every number of a smaller kind that zarr does not know


@dataclass(frozen=True)
class Layout:
    """Where each draw of a run lies on disk."""

    leaves: tuple[Leaf, ...]
    chains: int
    draws: int  # of the whole run
    chunk: int  # draws in a chunk

    @classmethod
    def of(cls, named: Sequence[tuple[str, Any]], chains: int, draws: int) -> Layout:
        """For named leaves, as arrays or their shapes, of one chain."""
        variables = file_names([name for name, _ in named])
        leaves = []
        for (name, leaf), variable in zip(named, variables, strict=True):
            kind = str(leaf.dtype) if str(leaf.dtype) in KINDS else "float32"
            leaves.append(Leaf(name, variable, tuple(leaf.shape), kind))
        layout = cls(tuple(leaves), chains, draws, 1)
        fitting = CHUNK_BYTES // max(layout.draw_bytes, 1)
        return replace(layout, chunk=max(1, min(draws, fitting)))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Layout:
        """Read from a run directory: every value is checked."""
        leaves = tuple(
            Leaf(leaf["name"], leaf["variable"], tuple(leaf["shape"]), leaf["dtype"])
            for leaf in value["leaves"]
        )
        numbers = [value["chains"], value["draws"], value["chunk"]]
        sizes = [*numbers, *(length for leaf in leaves for length in leaf.shape)]
        if not all(map(is_count, sizes)) or numbers[2] < 1:
            raise ValueError("sizes are whole numbers")
        if any(leaf.dtype not in KINDS or len(leaf.shape) > MOST_AXES for leaf in leaves):
            raise ValueError("draws are arrays of floating numbers")
        if not all(type(name) is str for leaf in leaves for name in leaf[:2]):
            raise ValueError("names are text")
        variables = [leaf.variable for leaf in leaves]
        if len(set(variables)) < len(variables) or file_names(variables) != variables:
            raise ValueError("not the name of a file")
        return cls(leaves, *numbers)

    def to_json(self) -> dict[str, Any]:
        leaves = [{**leaf._asdict(), "shape": list(leaf.shape)} for leaf in self.leaves]
        return {"leaves": leaves, "chains": self.chains, "draws": self.draws, "chunk": self.chunk}

    @property
    def draw_bytes(self) -> int:
        """Bytes of one draw of all chains."""
        return self.chains * sum(draw_bytes(leaf) for leaf in self.leaves)

    @property
    def chunk_folder(self) -> str:
        """The folder with an entry for each chunk of the first leaf that has numbers."""
        leaf = next(leaf for leaf in self.leaves if 0 not in leaf.shape)
        return f"{FOLDER}/posterior/{leaf.variable}/c/0"

    @property
    def nbytes(self) -> int:
        """Bytes on disk when the run is finished."""
        chunks = -(-self.draws // self.chunk)
        return chunks * sum(length for _, length in self.files(1))

    def files(self, chunks: int) -> Iterator[tuple[str, int]]:
        """Name and length of the files of the first chunks, in the order they are written."""
        leaves = [leaf for leaf in self.leaves if 0 not in leaf.shape]  # no numbers, no file
        for number in range(chunks if leaves else 0):
            for leaf in leaves:
                yield chunk_name(leaf, number), self.chunk_bytes(leaf)

    def chunk_bytes(self, leaf: Leaf) -> int:
        """The length of the file of a chunk."""
        return self.chains * self.chunk * draw_bytes(leaf) + CHECKSUM_BYTES

    def arrays(self) -> tuple[dict[str, Any], list[zarr.Array]]:
        """The arrays in memory, without draws, and the dict that holds their files."""
        files: dict[str, Any] = {}
        store = MemoryStore(store_dict=files)
        posterior = zarr.create_group(store=store, zarr_format=3).create_group("posterior")
        arrays = [
            posterior.create_array(
                leaf.variable,
                shape=(self.chains, self.draws, *leaf.shape),
                chunks=(self.chains, self.chunk, *(max(1, length) for length in leaf.shape)),
                dtype=leaf.dtype,
                compressors=(Crc32cCodec(),),
                fill_value=math.nan,
                dimension_names=dimensions(leaf),
                config={"write_empty_chunks": True},
            )
            for leaf in self.leaves
        ]
        with warnings.catch_warnings():
            # xarray looks for consolidated metadata, and warns when there is none
            warnings.filterwarnings("ignore", "Consolidated metadata is currently not part")
            zarr.consolidate_metadata(store)
        return files, arrays

    def decode(self, leaf: Leaf, content: bytes) -> np.ndarray:
        """The draws of a chunk, [chain, draw, ...], from the bytes of its file."""
        kind, shape = np.dtype(leaf.dtype), (self.chains, self.chunk, *leaf.shape)
        numbers = np.frombuffer(content, kind.newbyteorder("<"), math.prod(shape))
        return numbers.reshape(shape).astype(kind, copy=False)

    def is_whole(self, name: str, content: bytes) -> bool:
        """Whether the crc32c of a chunk is right: its numbers, encoded again, give the same bytes."""
        leaf = next(leaf for leaf in self.leaves if leaf.variable == name.split("/")[2])
        encoded, (array,) = replace(self, leaves=(leaf,), draws=self.chunk).arrays()
        array[...] = self.decode(leaf, content)
        first = chunk_name(leaf, 0).removeprefix(f"{FOLDER}/")
        return len(content) == self.chunk_bytes(leaf) and encoded[first].to_bytes() == content


def is_count(value: Any) -> bool:
    """Whether a value of a file counts something."""
    return type(value) is int and 0 <= value <= MOST


def draw_bytes(leaf: Leaf) -> int:
    """Bytes of one draw of one chain."""
    return math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize


def chunk_name(leaf: Leaf, number: int) -> str:
    rest = "/0" * len(leaf.shape)
    return f"{FOLDER}/posterior/{leaf.variable}/c/0/{number}{rest}"


def dimensions(leaf: Leaf) -> tuple[str, ...]:
    return "chain", "draw", *(f"{leaf.variable}_dim_{axis}" for axis in range(len(leaf.shape)))


def file_names(names: Sequence[str]) -> list[str]:
    """Names fit for files on every system, no two alike: a name cannot leave its folder."""
    plain = [re.sub(r"[^\w.,=+@()\[\]-]", "_", name)[:60] for name in names]
    return distinct([re.sub(r"^\.|\.$", "_", name) or "_" for name in plain], RESERVED)
