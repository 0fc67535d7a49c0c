"""Pictures: curves with labels at their ends, and marginals against a reference.

The colours are those of Okabe and Ito, which colour-blind readers tell apart. Figures are made without
pyplot: nothing is shown, and no state outlives a call.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator
from scipy.ndimage import gaussian_filter1d

COLOURS = (
    *("#E69F00", "#D55E00", "#0072B2", "#56B4E9"),
    *("#009E73", "#CC79A7", "#000000", "#7F5539"),
)
DASHES = 4 * ("-", (0, (5, 1.5)))
LOOKS = [
    *zip(COLOURS, DASHES, strict=True),  # and again, dotted
    *((colour, (0, (1, 1.2))) for colour in COLOURS),
]
WIDTH = 7.2  # inches: letters stay legible on a phone
GREY = "#8C8C8C"
INK = "#333333"
DRAWS_COUNTED = 2000  # in the width of a smoothed marginal: draws of a chain depend on each other

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


class Panel(NamedTuple):
    title: str
    lines: Mapping[str, tuple[np.ndarray, np.ndarray]]  # name -> x, y
    log_y: bool = False
    level: tuple[str, float] | None = None  # a name and the height of a grey line
    points: Mapping[str, tuple[np.ndarray, ...]] = {}  # name -> x, y, half the length of a bar
    bands: Mapping[str, tuple[np.ndarray, np.ndarray]] = {}  # name -> lower, upper


@contextmanager
def style() -> Any:
    """Our fonts and lines for what is drawn inside."""
    with matplotlib.rc_context(STYLE):
        yield


def plain(text: str, longest: int = 60) -> str:
    """A name as it is: no dollar starts a formula, no control character breaks a file."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    if len(shown) > longest:
        shown = f"{shown[: longest - 9]}…{shown[-8:]}"  # an index stands at the end
    return shown.replace("$", r"\$")


def curves(panels: Sequence[Panel], *, x_label: str) -> Figure:
    """Panels one above the other over a common logarithmic axis; names stand at the ends of lines."""
    with style():
        figure = Figure(figsize=(WIDTH, 3.6 * len(panels)), layout="constrained")
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, panel in zip(grid, panels, strict=True):
            names = []
            for (name, (x, y)), (colour, dash) in zip(panel.lines.items(), LOOKS, strict=False):
                axes.plot(x, y, color=colour, linestyle=dash)
                if name in panel.bands:
                    axes.fill_between(x, *panel.bands[name], color=colour, alpha=0.15, linewidth=0)
                if name in panel.points:
                    where, height, half = panel.points[name]
                    axes.errorbar(where, height, half, fmt="o", markersize=4, color=colour)
                names.append((name, colour, *end_of(x, y)))
            axes.set(title=plain(panel.title, 100), xscale="log")
            if panel.level is not None:
                name, height = panel.level
                axes.axhline(height, color=GREY, linewidth=1.2, zorder=0)
                names.append((name, GREY, max(end for _, _, end, _ in names), height))
            if panel.log_y:
                axes.set_yscale("log")
            axes.grid(axis="y", color="#E5E5E5", linewidth=0.8)
            axes.set_axisbelow(True)
            label_ends(axes, names)
        grid[-1].set_xlabel(x_label)
        for axis in (grid[-1].xaxis, *(axes.yaxis for axes in grid)):
            if axis.get_scale() == "log":
                plain_decades(axis)
            axis.set_major_formatter(lambda value, _: f"{value:g}")
        return figure


def plain_decades(axis: Axis) -> None:
    """Marks at 1, 2, 5 of a few decades, at 1 of many, evenly in less than one: a handful."""
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
    """The last point of a line that can be drawn, or where there is none its last."""
    drawn = np.flatnonzero(np.isfinite(y))
    last = drawn[-1] if drawn.size else -1
    return x[last], y[last]


def label_ends(axes: Axes, names: Sequence[tuple[str, str, float, float]]) -> None:
    """Write each name to the right of its line's end, moved apart where they would overlap."""
    gap = 0.075
    axes.autoscale_view()  # the limits are needed now, not when the figure is drawn
    to_axes = axes.transScale + axes.transLimits
    ordered = sorted(names, key=lambda item: finite(item[3]))
    wanted = np.array([finite(to_axes.transform((x, y))[1]) for _, _, x, y in ordered])
    # The heights nearest to `wanted`, in order, at least `gap` apart: a monotone regression.
    room = gap * np.arange(len(wanted))
    height = np.clip(isotonic(wanted - room), 0, 1 - room[-1]) + room
    for (name, colour, x, y), h in zip(ordered, height, strict=True):
        axes.annotate(
            plain(name),
            xy=(x, y),
            xytext=(1.02, h),
            textcoords="axes fraction",
            color=colour,
            va="center",
            annotation_clip=False,
        )


def isotonic(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The nearest non-decreasing sequence: neighbours that violate the order are averaged."""
    blocks: list[list[float]] = []
    for value in values:
        blocks.append([value])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    return np.concatenate([np.full(len(block), np.mean(block)) for block in blocks])


def marginals(
    names: Sequence[str],
    reference: Float[np.ndarray, "draws d"],
    methods: Mapping[str, Float[np.ndarray, "_ d"]],
) -> Figure:
    """One small panel for each coordinate: the reference filled in grey, a line for each method."""
    columns = 3
    count = -(-len(names) // columns)
    with style():
        figure = Figure(figsize=(9.5, 2.1 * count + 0.9), layout="constrained")
        grid = np.ravel(figure.subplots(count, columns))
        for axes in grid[len(names) :]:
            axes.set_axis_off()
        for j, (axes, name) in enumerate(zip(grid, names, strict=False)):
            middle, width = np.mean(reference[:, j]), np.std(reference[:, j])
            x = np.linspace(middle - 4.5 * width, middle + 4.5 * width, 200)
            axes.fill_between(
                x, density(reference[:, j], x), color="#D9D9D9", label="full gradient"
            )
            for (method, draws), colour, dash in zip(
                methods.items(), COLOURS, DASHES, strict=False
            ):
                axes.plot(
                    x,
                    density(draws[:, j], x),
                    color=colour,
                    linestyle=dash,
                    linewidth=1.5,
                    label=plain(method),
                )
            axes.set_title(plain(name.replace("_", " ")))
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(NullLocator())
            axes.spines["left"].set_visible(False)
        figure.legend(
            *grid[0].get_legend_handles_labels(),
            loc="outside upper center",
            ncols=3,
            frameon=False,
        )
        return figure


def density(draws: Float[np.ndarray, " n"], x: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """A kernel estimate on an even grid, with Silverman's width: a histogram, smoothed."""
    step = x[1] - x[0]
    width = np.std(draws) * (4 / (3 * min(len(draws), DRAWS_COUNTED))) ** 0.2
    bins = np.concatenate([x - step / 2, [x[-1] + step / 2]])
    counts = np.histogram(draws, bins)[0] / (len(draws) * step)
    return gaussian_filter1d(counts, width / step, mode="constant")


def save(figure: Figure, path: Path) -> list[str]:
    """Write path.png and path.svg; returns the names of the files."""
    files = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "svg")]
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # shown as a box
        figure.savefig(files[0])
        figure.set_layout_engine("none")  # found just now; to find it again would move it a little
        figure.savefig(files[1], metadata={"Date": None})
    return [file.name for file in files]


def finite(value: float) -> float:
    """A length that can be drawn: none, for what has no limit or was not measured."""
    return float(value) if np.isfinite(value) else 0.0


def audit_figure(audit: Any, path: Any = None) -> Figure:
    """An audit: how much too wide, beside plain minibatches and the full gradient; noise by block."""
    with style():
        figure = Figure(figsize=(WIDTH, 2.6 + 0.32 * len(audit.blocks)), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
        bars = {
            audit.estimator: (audit.inflation, COLOURS[2]),
            f"minibatches of {audit.plain_batch_size}": (audit.plain_inflation, COLOURS[1]),
            "full gradient": (audit.full_inflation, GREY),
        }
        place = np.arange(len(bars))[::-1]
        left.barh(
            place, [100 * finite(v) for v, _ in bars.values()], color=[c for _, c in bars.values()]
        )
        told = {True: "", False: ": no limit"}
        left.set_yticks(place, [plain(n) + told[np.isfinite(v)] for n, (v, _) in bars.items()])
        left.set(title="posterior variances too wide by", xlabel="%")
        names = [plain(block.name, 24) for block in audit.blocks]
        rows = np.arange(len(names))[::-1]
        for shift, field, colour, label in (
            (0.2, "at_rest", COLOURS[2], plain(audit.estimator)),
            (-0.2, "plain", COLOURS[1], f"minibatches of {audit.plain_batch_size}"),
        ):
            values = [finite(getattr(block, field)) for block in audit.blocks]
            right.barh(rows + shift, values, 0.38, color=colour, label=label)
        right.axvline(1, color=GREY, linewidth=1)
        right.set_yticks(rows, names)
        right.set(title="gradient / injected noise, at rest")
        right.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.1), ncols=2)
        figure.suptitle(fill(audit.verdict, 84).replace("$", r"\$"), fontsize=10, x=0.01, ha="left")
        if path is not None:
            figure.savefig(Path(path))
    return figure
