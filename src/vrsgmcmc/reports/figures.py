"""Colours and style of all figures, curves with labels at their ends, and files.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish. No figure uses
pyplot, which would keep it in global state.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator
from scipy.optimize import isotonic_regression

COLOURS = ("#E69F00", "#D55E00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#000000", "#7F5539")
DASHES, DOTS = 4 * ("-", (0, (5, 1.5))), 8 * ((0, (1, 1.2)),)
LINE_STYLES = list(zip(2 * COLOURS, DASHES + DOTS, strict=True))
WIDTH, PHONE = 7.2, 3.8  # inches, at 96 pixels
NARROW = 5.0  # a figure that is less wide has its parts one above the other
GREY, GRID, INK = "#8C8C8C", "#E5E5E5", "#333333"

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


class Panel(NamedTuple):
    """The lines of one pair of axes."""

    title: str
    lines: Mapping[str, tuple[np.ndarray, np.ndarray]]  # name -> x, y
    log_y: bool = False
    level: tuple[str, float] | None = None  # a name and the height of a grey line
    points: Mapping[str, tuple[np.ndarray, ...]] = {}  # name -> x, y, half the length of a bar
    bands: Mapping[str, tuple[np.ndarray, np.ndarray]] = {}  # name -> lower, upper


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
    height: float, rows: int = 1, columns: int = 1, width: float = WIDTH, **options: Any
) -> tuple[Figure, Any]:
    """An empty figure, and its axes, row by row."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options).ravel()


@style()
def curves(panels: Sequence[Panel], width: float = WIDTH, *, x_label: str) -> Figure:
    """Panels one above the other with a common logarithmic x axis.

    Names stand at the ends of lines, or above the panels of a narrow figure.
    """
    narrow = width < NARROW
    extra = 0.25 * max(len(panel.lines) + (panel.level is not None) for panel in panels) * narrow
    figure, grid = canvas((2.9 if narrow else 3.6) * len(panels) + extra, len(panels), width=width,
                          sharex=True)  # fmt: skip
    for axes, panel in zip(grid, panels, strict=True):
        names = []
        for (name, (x, y)), (colour, dash) in zip(panel.lines.items(), LINE_STYLES, strict=False):
            axes.plot(x, y, color=colour, linestyle=dash, label=plain(name, 36))
            if name in panel.bands:
                axes.fill_between(x, *panel.bands[name], color=colour, alpha=0.15, linewidth=0)
            if name in panel.points:
                where, height, half = panel.points[name]
                axes.errorbar(where, height, half, fmt="o", markersize=4, color=colour)
            names.append((name, colour, *end_of(x, y)))
        y_scale = "log" if panel.log_y else "linear"
        axes.set(title=heading(panel.title, width), xscale="log", yscale=y_scale)
        if panel.level is not None:
            name, height = panel.level
            line = {"color": GREY, "linewidth": 1.2, "zorder": 0, "label": plain(name, 36)}
            axes.axhline(height, **line)
            names.append((name, GREY, max(end for _, _, end, _ in names), height))
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        if not narrow:
            label_ends(axes, names)
    grid[-1].set_xlabel(heading(x_label, 0.8 * width))
    if narrow:
        legend(figure, grid)
    for axis in (grid[-1].xaxis, *(axes.yaxis for axes in grid)):
        if axis.get_scale() == "log":
            plain_decades(axis)
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    return figure


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


def plain_decades(axis: Axis) -> None:
    """Set few tick marks: at 1, 2, 5 of a few decades, at 1 of many, evenly in less than one."""
    low, high = axis.get_view_interval()
    decades = np.log10(high / low)
    axis.set_minor_formatter(NullFormatter())
    if decades < 1:
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        axis.set_minor_locator(NullLocator())
    else:
        few = (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(subs=few if decades < 2.5 else (1.0,), numticks=12))


def end_of(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """The last finite point of a line; the last point if none is finite."""
    index = np.flatnonzero(np.isfinite(y))
    last = index[-1] if index.size else -1
    return x[last], y[last]


def label_ends(axes: Axes, names: Sequence[tuple[str, str, float, float]]) -> None:
    """Write each name to the right of its line's end, moved apart where they would overlap."""
    gap = 0.075
    axes.autoscale_view()  # the limits are needed now, not when the figure is drawn
    to_axes = axes.transScale + axes.transLimits
    ordered = sorted(names, key=lambda item: finite(item[3]))
    ends = np.array([finite(to_axes.transform((x, y))[1]) for _, _, x, y in ordered])
    # The heights nearest to `ends`, in order, at least `gap` apart: a monotone regression.
    room = gap * np.arange(len(ends))
    height = np.clip(isotonic_regression(ends - room).x, 0, 1 - room[-1]) + room
    options: Any = {"textcoords": "axes fraction", "va": "center", "annotation_clip": False}
    for (name, colour, x, y), h in zip(ordered, height, strict=True):
        axes.annotate(plain(name), xy=(x, y), xytext=(1.02, h), color=colour, **options)


def save(figure: Figure, path: Path) -> list[str]:
    """Write path.png and path.svg; returns the names of the files."""
    files = {f"{path.name}.{kind}": content for kind, content in render(figure).items()}
    for name, content in files.items():
        path.with_name(name).write_bytes(content)
    return list(files)


def render(figure: Figure, *kinds: str) -> dict[str, bytes]:
    """The figure as bytes, by format: png and svg, or only one of them."""
    files = {}
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # shown as a box
        for kind in kinds or ("png", "svg"):
            content = BytesIO()
            options: Any = {"metadata": {"Date": None}} if kind == "svg" else {}
            figure.savefig(content, format=kind, **options)
            figure.set_layout_engine("none")  # a second layout would move the axes a little
            files[kind] = content.getvalue()
    return files


def finite(value: float) -> float:
    """The value, or 0 if it is not finite."""
    return float(value) if np.isfinite(value) else 0.0
