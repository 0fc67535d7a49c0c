"""Read, check and prepare a user's own table for a model.

    table = read(Path("patients.csv"), target="outcome")
    ready = prepare(table, classify=True)   # ready.train, ready.test, ready.labels

CSV with a header (separated by commas, semicolons or tabs), `.npz` with arrays of one length, or `.npy`
with one row per datum. A mistake in a file is refused, with its line and column. Nothing is unpickled.
"""

from .columns import Table, list_names
from .design import Column, Design, Group, Target
from .prepare import SplitTable, holds_labels, prepare
from .read import read

__all__ = [
    "Column",
    "Design",
    "Group",
    "SplitTable",
    "Table",
    "Target",
    "holds_labels",
    "list_names",
    "prepare",
    "read",
]
