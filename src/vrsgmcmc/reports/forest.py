"""The forest plot: effects with their 50 % and 90 % intervals, one line each."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from .figures import (
    COLOURS,
    GREY,
    GRID,
    NARROW,
    WIDTH,
    canvas,
    heading,
    plain,
    plain_decades,
    style,
)

PALE = "#9DBFD9"
WIDEST = 12  # times the range of means and 50 % intervals: longer lines are cut


class Line(NamedTuple):
    """One effect."""

    name: str
    unit: str
    mean: float
    low_50: float
    high_50: float
    low_90: float
    high_90: float
    clear: bool  # whether its direction is

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self[2:7]).all())


@style()
def forest(
    panels: Sequence[tuple[str, Sequence[Line]]],
    width: float = WIDTH,
    *,
    label: str,
    reference: float,
) -> Figure:
    """A panel for each named group of lines; ratios (reference 1) have a logarithmic axis.

    In a narrow figure the name of an effect stands above its line, not beside it.
    """
    narrow = width < NARROW
    row = 0.46 if narrow else 0.32
    heights = [0.25 + row * len(lines) for _, lines in panels] or [1.0]
    figure, grid = canvas(
        sum(heights) + 0.35 * len(heights) + 0.5, len(heights), width=width,
        height_ratios=heights, sharex=True,
    )  # fmt: skip
    for axes, (title, lines) in zip(grid, panels, strict=False):
        axes.set_title(heading(title, width), fontweight="bold")
        draw_panel(axes, lines, width, reference)
    lowest, highest = limits([line for _, lines in panels for line in lines], reference)
    grid[-1].set(xlim=(lowest, highest), xlabel=plain(label))
    if reference == 1:
        ratio_marks(grid[-1].xaxis)
    else:
        grid[-1].xaxis.set_major_locator(MaxNLocator(4 if narrow else 7))
    grid[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    return figure


def draw_panel(axes: Axes, lines: Sequence[Line], width: float, reference: float) -> None:
    narrow = width < NARROW
    if reference == 1:
        axes.set_xscale("log")
    axes.axvline(reference, color=GREY, linewidth=1, zorder=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    places = np.arange(len(lines))[::-1]
    names = [f"{line.name}, {line.unit}" if line.unit else line.name for line in lines]
    for place, line in zip(places, lines, strict=True):
        if line.finite:
            colour = COLOURS[2] if line.clear else PALE
            axes.hlines(place, line.low_90, line.high_90, color=colour, linewidth=1.6)
            axes.hlines(place, line.low_50, line.high_50, color=colour, linewidth=5)
            axes.plot(line.mean, place, "o", color="white", markeredgecolor=colour, markersize=6)
    axes.set_ylim(-0.6, len(lines) - (0.1 if narrow else 0.4))
    axes.tick_params(axis="y", length=0)
    if narrow:
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        for place, name in zip(places, names, strict=True):
            text = plain(name, int(12.5 * width))
            at = {"xy": (0, place + 0.42), "xycoords": axes.get_yaxis_transform()}
            axes.annotate(text, **at, fontsize=9, va="center", annotation_clip=False)
    else:
        axes.set_yticks(places, [plain(name, 44) for name in names])


def ratio_marks(axis: Axis) -> None:
    """Marks at round ratios, more of them close to 1."""
    plain_decades(axis)
    low, high = axis.get_view_interval()
    if 2 < high / low < 20:
        axis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0), numticks=12))
        axis.set_minor_locator(NullLocator())


def limits(lines: Sequence[Line], reference: float) -> tuple[float, float]:
    """The range of the axis: all of the lines, without tails that would hide the rest."""
    rows = [line[2:7] for line in lines if line.finite]
    table = np.array([*rows, (reference,) * 5])
    if reference == 1:
        table = np.log(np.maximum(table, 1e-300))
    middle = table[:, :3].min(), table[:, :3].max()
    size = (middle[1] - middle[0]) or 1.0
    low = max(table.min(), middle[0] - WIDEST * size) - 0.05 * size
    high = min(table.max(), middle[1] + WIDEST * size) + 0.05 * size
    return (np.exp(low), np.exp(high)) if reference == 1 else (low, high)
