"""A run is a directory: atomic commits, exact resume, everything checked before it is used.

    config.json            what was asked for, resolved; the model as the sha256 of its StableHLO
    environment.json       versions, devices, seed, sha256 of the data, XLA_FLAGS, JAX options, CPU
    state-<k>.safetensors  the chains of commit k: carry/..., averages/..., and tail/..., the draws
                           that do not fill a zarr chunk yet
    draws.zarr/            posterior/<leaf>, dimensions chain, draw, ...; zarr v3 with crc32c
    draws.sha256           a line for each chunk of draws, as `sha256sum -c` reads it; only appended
    metrics.jsonl          a line for each commit; only appended
    commit.json            moves last: progress, and length and sha256 of all of the above
    commit.previous.json   the commit before it, with a state of its own
    decision.json          where the library chose the sampler: the request, and the choice; its arrays
                           are in decision.safetensors, and how right the result is in accuracy.json
    run.lock               held by the one writer, released by the system when that process ends

A commit syncs every file it points at and then renames itself into place, so at every moment one
of the two commits is whole. Chunks of draws are written whole and never again; what a crash leaves
behind the last commit is overwritten. All files are opened in `folder`: below the directory no link is
followed, and nothing but regular files is read or written. Nothing is pickled, no path is absolute,
and nothing in a run directory names code: the structure of the parameters comes from the caller,
arrays go by the names of its leaves.
"""

from . import trees
from .commits import is_run
from .draws import file_names
from .entry import check_directory, finished, write
from .environment import differences, without_home, xla_flags
from .errors import IrregularFile, RunError
from .files import ACCURACY, DECISION, as_json, exclusive, record, seal, unseal
from .folder import Folder
from .reader import Run, commit_sum, open, verify
from .trees import named, rebuilt
from .writer import Writer, pause_after

__all__ = [
    "ACCURACY",
    "DECISION",
    "Folder",
    "IrregularFile",
    "Run",
    "RunError",
    "Writer",
    "as_json",
    "check_directory",
    "commit_sum",
    "differences",
    "exclusive",
    "file_names",
    "finished",
    "is_run",
    "named",
    "open",
    "pause_after",
    "rebuilt",
    "record",
    "seal",
    "trees",
    "unseal",
    "verify",
    "without_home",
    "write",
    "xla_flags",
]
