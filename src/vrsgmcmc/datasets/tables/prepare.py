"""Prepare a table for a model: numbers for labels, a random split, and columns on one scale."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .. import transforms
from .columns import Table, list_names
from .read import parse_number

FEW_VALUES = 20  # a target with at most so many whole numbers holds labels
MOST_CLASSES = 1000
LARGEST = float(np.finfo(np.float32).max ** 0.5)  # the square of it is finite in float32


class SplitTable(NamedTuple):
    """The training and test data of a model."""

    train: tuple[Float[np.ndarray, "n d"], np.ndarray]
    test: tuple[Float[np.ndarray, "k d"], np.ndarray]
    test_rows: Int[np.ndarray, " k"]
    columns: tuple[str, ...]
    target: str
    labels: tuple[str, ...]  # class k is labels[k]; empty for a regression
    center: float  # a target in the user's units is center + scale * y
    scale: float
    notes: tuple[str, ...]


def holds_labels(y: np.ndarray) -> bool:
    """Whether a target holds classes: text, or few different whole numbers."""
    if y.dtype.kind == "U":
        return True
    values = np.unique(y)
    return values.size <= FEW_VALUES and bool(np.all(values == np.round(values)))


def prepare(
    table: Table,
    *,
    classify: bool,
    test_fraction: float = 0.2,
    seed: int = 0,
    standardise: bool = True,
) -> SplitTable:
    """Labels as 0..K-1, a random split, and columns of mean 0 and standard deviation 1."""
    notes = list(table.notes)
    varies = table.x.min(0) < table.x.max(0)
    if not varies.any():
        raise ValueError("every column is constant, so there is nothing to predict from.")
    names = np.array(table.columns, object)
    if not varies.all():
        dropped = list_names(names[~varies], 10)
        notes.append(f"Columns that are constant were left out: {dropped}.")
    columns = tuple(names[varies])
    labels, y = encode_labels(table) if classify else ((), numeric_target(table))
    rows = np.arange(len(y))
    (train, _), (test, _) = transforms.split(rows, rows, test_fraction, seed)
    x = table.x[:, varies]
    parts, center, scale = (x[train], x[test]), 0.0, 1.0
    with np.errstate(all="ignore"):
        if standardise:
            parts = transforms.standardise(*parts)
            if not classify and y[train].min() < y[train].max():
                center, scale = float(y[train].mean()), float(y[train].std())
                y = (y - center) / scale
    for names, values in ((columns, np.concatenate(parts)), ((table.target,), y[:, None])):
        large = ~(np.abs(values) < LARGEST).all(0)
        if large.any():
            raise ValueError(
                f"column {names[int(large.argmax())]!r} holds numbers that are too large, or too near "
                "to each other, to compute with. Rescale it."
            )
    data = (parts[0], y[train]), (parts[1], y[test]), table.rows[test]
    return SplitTable(*data, columns, table.target, labels, center, scale, tuple(notes))


def encode_labels(table: Table) -> tuple[tuple[str, ...], np.ndarray]:
    """The labels in order, and the index of each row's label."""
    values, codes = np.unique(table.y, return_inverse=True)
    if values.size < 2:
        raise ValueError(
            f"target {table.target!r} is {label_text(values[0])!r} in every row: no class to tell "
            "apart."
        )
    if values.size > max(FEW_VALUES, min(len(codes) // 2, MOST_CLASSES)):
        raise ValueError(
            f"target {table.target!r} has {values.size} different values in {len(codes)} rows: these "
            "are no classes. Use --model linear, or mlp with --task regression."
        )
    return tuple(label_text(value) for value in values), codes.reshape(-1).astype(np.int32)


def label_text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    return str(int(value)) if value == int(value) else repr(float(value))


def numeric_target(table: Table) -> np.ndarray:
    """The target of a regression; ValueError if it is text or constant."""
    if table.y.dtype.kind == "U":
        wrong = next(i for i, cell in enumerate(table.y) if parse_number(str(cell)) is None)
        cell = str(table.y[wrong])[:40]
        raise ValueError(
            f"target {table.target!r} is {cell!r} in {table.place} {table.rows[wrong]}, and a "
            "regression needs numbers. For classes use --model logistic, softmax or mlp."
        )
    if table.y.min() == table.y.max():
        raise ValueError(
            f"target {table.target!r} is {table.y[0]:g} in every row: nothing to predict."
        )
    return table.y
