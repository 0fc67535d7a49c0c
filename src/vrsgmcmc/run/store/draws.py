"""Draws on disk: a zarr array for each leaf, [chain, draw, ...], in chunks of draws of all chains.

zarr encodes in memory and `files` writes, so that every byte of a run goes to disk one way. The
shape is that of the whole run from the beginning: no file of `draws.zarr` is written twice.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec
from zarr.storage import LocalStore, MemoryStore

from vrsgmcmc.core import distinct

from .files import RunError

CHUNK_BYTES = 2**22  # of one chunk of draws, all leaves and chains together
CHECKSUM_BYTES = 4
FOLDER = "draws.zarr"
KINDS = ("float16", "float32", "float64")
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
        one = chains * sum(draw_bytes(leaf) for leaf in leaves)
        return cls(tuple(leaves), chains, draws, max(1, min(draws, CHUNK_BYTES // max(one, 1))))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Layout:
        """Read from a run directory: every value is checked."""
        leaves = tuple(
            Leaf(str(leaf["name"]), str(leaf["variable"]), tuple(leaf["shape"]), leaf["dtype"])
            for leaf in value["leaves"]
        )
        numbers = [value["chains"], value["draws"], value["chunk"]]
        sizes = [*numbers, *(length for leaf in leaves for length in leaf.shape)]
        if any(type(size) is not int or size < 0 for size in sizes) or numbers[2] < 1:
            raise ValueError("sizes are whole numbers")
        if any(leaf.dtype not in KINDS for leaf in leaves):
            raise ValueError("draws are floating numbers")
        if file_names([leaf.variable for leaf in leaves]) != [leaf.variable for leaf in leaves]:
            raise ValueError("not the name of a file")
        return cls(leaves, *numbers)

    def to_json(self) -> dict[str, Any]:
        leaves = [{**leaf._asdict(), "shape": list(leaf.shape)} for leaf in self.leaves]
        return {"leaves": leaves, "chains": self.chains, "draws": self.draws, "chunk": self.chunk}

    @property
    def nbytes(self) -> int:
        """Bytes on disk when the run is finished."""
        chunks = -(-self.draws // self.chunk)
        return chunks * sum(length for _, length in self.files(1))

    def files(self, chunks: int) -> Iterator[tuple[str, int]]:
        """Name and length of the files of the first chunks, in the order they are written."""
        for number in range(chunks):
            for leaf in self.leaves:
                if 0 in leaf.shape:
                    continue  # no numbers, no file
                length = self.chains * self.chunk * draw_bytes(leaf) + CHECKSUM_BYTES
                yield chunk_name(leaf, number), length

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

    def unreadable(self, path: Path, name: str) -> str | None:
        """What is wrong with one chunk, by its own checksum."""
        _, _, variable, _, _, number, *_ = name.split("/")
        leaf = next(leaf for leaf in self.leaves if leaf.variable == variable)
        start = int(number) * self.chunk
        try:
            open_array(path, self, leaf)[:, start : start + self.chunk]
        except (RunError, ValueError, OSError) as error:
            return f"damaged ({error})"
        return None


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


def open_array(path: Path, layout: Layout, leaf: Leaf) -> zarr.Array:
    """One array, when its metadata is what this library writes: no other codec is ever run."""
    folder = path / FOLDER / "posterior" / leaf.variable
    try:
        metadata = json.loads((folder / "zarr.json").read_bytes())
        codecs = [codec["name"] for codec in metadata["codecs"]]
        fine = (
            metadata["zarr_format"] == 3
            and codecs == ["bytes", "crc32c"]
            and metadata["data_type"] == leaf.dtype
            and tuple(metadata["shape"]) == (layout.chains, layout.draws, *leaf.shape)
            and metadata["chunk_grid"]["configuration"]["chunk_shape"][1] == layout.chunk
            and not metadata.get("storage_transformers")
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        fine = False
    if not fine:
        raise RunError(
            f"{FOLDER}/posterior/{leaf.variable}/zarr.json is damaged or not of this run"
        )
    return zarr.open_array(LocalStore(folder, read_only=True), mode="r", zarr_format=3)
