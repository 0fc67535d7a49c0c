"""Colours, letters and an empty figure: what all figures of the library have in common.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#E69F00", "#D55E00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#000000", "#7F5539")
DASHES = 4 * ("-", (0, (5, 1.5)))
WIDTH = 7.2  # inches: letters stay legible on a phone
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


def canvas(
    height: float, rows: int = 1, columns: int = 1, make: Callable = Figure, **options: Any
) -> tuple[Figure, Any]:
    """An empty figure as wide as a page, and its axes, row by row.

    A `Figure` of its own is not in pyplot's global state; `make=pyplot.figure` shows itself.
    """
    figure = make(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options).ravel()


def legend(figure: Figure, axes: Axes) -> None:
    """A legend above the figure, in columns of about the same length."""
    handles, labels = axes.get_legend_handles_labels()
    columns = 3 if len(labels) in (3, 5, 6) else 4
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)
