"""Tables as they come: read them, and turn them into a design that a model can use.

    design = treat("patients.csv", "outcome", test_fraction=0.2)
    design.x, design.y, design.columns, design.target, design.notes

`read` and `prepare` are for tables of numbers alone:

    table = read(Path("patients.csv"), target="outcome")
    ready = prepare(table, classify=True)   # ready.train, ready.test, ready.labels

A mistake in a file is refused, with its line and column. Nothing is unpickled.
"""

from .columns import Table, list_names
from .design import Column, Design, Group, Target, design_columns, design_target
from .frame import Frame
from .prepare import SplitTable, holds_labels, prepare
from .read import read
from .recipe import NewRows, Recipe
from .rows import new_rows
from .source import read_frame
from .treat import treat

__all__ = [
    "Column",
    "Design",
    "Frame",
    "Group",
    "NewRows",
    "Recipe",
    "SplitTable",
    "Table",
    "Target",
    "design_columns",
    "design_target",
    "holds_labels",
    "list_names",
    "new_rows",
    "prepare",
    "read",
    "read_frame",
    "treat",
]
