"""Colours, letters and an empty figure: what all figures of the library have in common.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish.
"""

from collections.abc import Callable, Sequence
from functools import partial
from textwrap import wrap
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#E69F00", "#D55E00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#000000", "#7F5539")
DASHES = 4 * ("-", (0, (5, 1.5)))
WIDTH, PHONE = 7.2, 3.8  # inches, at 96 pixels
NARROW = 5.0  # a figure that is less wide has its parts one above the other
GREY, GRID, INK = "#8C8C8C", "#E5E5E5", "#333333"
POINTS = 300  # of a trace, about
MOST_CHAINS = 6  # colours that are easy to distinguish

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 2.0,
    "savefig.dpi": 130,
    "svg.hashsalt": "vrsgmcmc",  # the same figure is the same file
    "svg.fonttype": "path",
}
style = partial(matplotlib.rc_context, STYLE)  # as a context, or as the decorator `@style()`


def plain(text: str, longest: int = 60) -> str:
    """A label for matplotlib: dollars start no formula, no control character breaks the file."""
    label = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    if len(label) > longest:
        label = f"{label[: longest - 9]}…{label[-8:]}"  # the end of a name is its index
    return label.replace("$", r"\$")


def heading(text: str, width: float, longest: int = 100) -> str:
    """A title in lines that fit into this many inches."""
    return "\n".join(plain(line, longest) for line in wrap(text[:300], int(11 * width))) or ""


def canvas(
    height: float,
    rows: int = 1,
    columns: int = 1,
    width: float = WIDTH,
    make: Callable = Figure,
    **options: Any,
) -> tuple[Figure, Any]:
    """An empty figure, and its axes, row by row.

    A `Figure` of its own is not in pyplot's global state; `make=pyplot.figure` shows itself.
    """
    figure = make(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options).ravel()


def legend(figure: Figure, grid: Sequence[Axes]) -> None:
    """A legend of all axes above the figure, in columns that fit its width."""
    handles: dict[str, Any] = {}
    for axes in grid:
        handles |= {
            label: line for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
    if not handles:
        return
    most = 3 if len(handles) in (3, 5, 6) else 4
    fit = int(96 * figure.get_figwidth() / (8.5 * max(map(len, handles)) + 55))
    options: Any = {"loc": "outside upper center", "ncols": max(1, min(most, fit))}
    figure.legend([*handles.values()], [*handles], frameon=False, **options)
