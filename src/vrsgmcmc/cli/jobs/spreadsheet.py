"""Predictions as rows of a CSV file that no spreadsheet runs as formulas."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")  # how a cell begins that may be a formula


def spreadsheet_text(name: str) -> str:
    """A name that no spreadsheet runs as a formula: with an apostrophe in front where it could be one.

    A name that begins with an apostrophe gets another, so that taking one off gives the name back.
    """
    try:
        float(name)  # -1 is a number, and no formula
    except ValueError:
        return f"'{name}" if name.startswith(FORMULA) else name
    return name


def class_rows(
    numbers: np.ndarray,
    labels: Sequence[str],
    probabilities: np.ndarray,
    actual: np.ndarray | None = None,
    limits: Sequence[np.ndarray] = (),
) -> list[dict[str, Any]]:
    """Rows with the likeliest class and the probability of each; `limits`: of these, [row, class]."""
    table = []
    for i, row in enumerate(numbers):
        cells: dict[str, Any] = {"row": int(row)}
        if actual is not None:
            cells["actual"] = spreadsheet_text(labels[int(actual[i])]) if actual[i] >= 0 else ""
        cells["predicted"] = spreadsheet_text(labels[int(probabilities[i].argmax())])
        cells |= {
            f"P({name})": f"{p:.6g}" for name, p in zip(labels, probabilities[i], strict=True)
        }
        for end, limit in zip(("low_90", "high_90"), limits, strict=False):
            cells |= {
                f"{end}({name})": f"{p:.6g}" for name, p in zip(labels, limit[i], strict=True)
            }
        table.append(cells)
    return table


def number_rows(
    numbers: np.ndarray, columns: Mapping[str, np.ndarray | None]
) -> list[dict[str, Any]]:
    """Rows with the numbers of each column; NaN is an empty cell."""
    present = {name: column for name, column in columns.items() if column is not None}
    return [
        {"row": int(row)} | {n: number_text(column[i]) for n, column in present.items()}
        for i, row in enumerate(numbers)
    ]


def number_text(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"
