"""Pictures of draws: traces, ranks, autocorrelations, intervals."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import rankdata

from .style import COLOURS, DASHES, GREY, NARROW, POINTS, WIDTH, canvas, legend, plain, style

RANK_BINS = 20
WIDE, INNER = 0.95, 0.5  # of the draws, in the intervals of a forest


@style()
def traces(
    names: Sequence[str],
    steps: Int[np.ndarray, " draw"],
    draws: Float[np.ndarray, "chain draw d"],
    labels: Sequence[str],
    width: float = WIDTH,
    make: Callable = Figure,
) -> Figure:
    """One panel for each parameter, a line for each of the chains that have a label."""
    every = -(-len(steps) // POINTS)
    figure, grid = canvas(1.35 * len(names) + 0.9, len(names), width=width, make=make, sharex=True)
    for j, (axes, name) in enumerate(zip(grid, names, strict=True)):
        for label, values, colour in zip(labels, draws, COLOURS, strict=False):
            axes.plot(steps[::every], values[::every, j], color=colour, lw=0.8, label=label)
        axes.set_title(plain(name, int(12 * width)))
        axes.yaxis.set_major_locator(MaxNLocator(3))
    grid[-1].set_xlabel("step")
    legend(figure, grid[:1])
    return figure


@style()
def ranks(
    names: Sequence[str],
    draws: Float[np.ndarray, "chain draw d"],
    labels: Sequence[str],
    width: float = WIDTH,
    make: Callable = Figure,
) -> Figure:
    """Histograms of the ranks of a chain's draws among all draws: 1 where chains agree."""
    figure, grid = panels(names, width, make, sharex=True, sharey=True)
    bins = int(np.clip(draws.shape[1] // 10, 2, RANK_BINS))
    for j, axes in enumerate(grid):
        place = rankdata(draws[:, :, j]).reshape(draws.shape[:2]) / draws[:, :, j].size
        axes.axhline(1, color=GREY, linewidth=1, zorder=0)
        for label, own, colour, dash in zip(labels, place, COLOURS, DASHES, strict=False):
            counts, edges = np.histogram(own, bins, (0, 1))
            height, line = counts * bins / own.size, {"color": colour, "ls": dash, "lw": 1.3}
            axes.stairs(height, edges, baseline=None, label=label, **line)
        axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    grid[0].set_ylim(bottom=0)
    figure.supxlabel("rank among all draws", fontsize=11)
    legend(figure, grid[:1])
    return figure


@style()
def autocorrelations(
    names: Sequence[str],
    draws: Float[np.ndarray, "chain draw d"],
    labels: Sequence[str],
    lags: int,
    make: Callable = Figure,
) -> Figure:
    """The autocorrelation of each chain that has a label, up to a lag in draws."""
    figure, grid = panels(names, WIDTH, make, sharex=True, sharey=True)
    values = autocorrelation(draws, lags)
    for j, axes in enumerate(grid):
        axes.axhline(0, color=GREY, linewidth=1, zorder=0)
        for label, own, colour, dash in zip(labels, values, COLOURS, DASHES, strict=False):
            axes.plot(own[:, j], color=colour, ls=dash, lw=1.3, label=label)
    figure.supxlabel("lag in draws", fontsize=11)
    legend(figure, grid[:1])
    return figure


def autocorrelation(
    draws: Float[np.ndarray, "chain draw d"], lags: int
) -> Float[np.ndarray, "chain lag d"]:
    """sum_t c_t c_{t+k} / sum_t c_t^2, c the distance from the chain's mean; NaN for a constant."""
    count = draws.shape[1]
    centred = draws - draws.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(centred, 2 * count, axis=1)) ** 2
    sums = np.fft.irfft(power, 2 * count, axis=1)[:, : min(lags + 1, count)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.ptp(draws, axis=1, keepdims=True) > 0, sums / sums[:, :1], np.nan)


@style()
def forest(
    names: Sequence[str], draws: Float[np.ndarray, "chain draw d"], make: Callable = Figure
) -> Figure:
    """Medians and central intervals of the draws of all chains together."""
    levels = [0.5, *(0.5 + sign * part / 2 for part in (WIDE, INNER) for sign in (-1, 1))]
    middle, low, high, left, right = np.quantile(draws.reshape(-1, len(names)), levels, axis=0)
    place = np.arange(len(names))[::-1]
    figure, (axes,) = canvas(1.2 + 0.33 * len(names), make=make)
    axes.axvline(0, color=GREY, linewidth=1, zorder=0)
    axes.hlines(place, low, high, color=COLOURS[2], linewidth=1.5)
    axes.hlines(place, left, right, color=COLOURS[2], linewidth=5)
    axes.plot(middle, place, "o", color="white", markeredgecolor=COLOURS[2], markersize=6)
    axes.set_yticks(place, [plain(name, 24) for name in names])
    axes.set(
        ylim=(-0.6, len(names) - 0.4), title=f"median, {NARROW:.0%} and {WIDE:.0%} of the draws"
    )
    return figure


def panels(
    names: Sequence[str], width: float, make: Callable, **options: bool
) -> tuple[Figure, Sequence]:
    """A figure with small panels, up to three in a row, and a title over each."""
    columns = min(2 if width < NARROW else 3, len(names))
    rows = -(-len(names) // columns)
    figure, grid = canvas(1.9 * rows + 0.9, rows, columns, width, make, **options)
    for axes in grid[len(names) :]:
        axes.set_axis_off()
    for axes, name in zip(grid, names, strict=False):
        axes.set_title(plain(name, 24 if width > NARROW else 18))
    return figure, grid[: len(names)]
