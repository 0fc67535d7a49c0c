"""Pictures of one run: traces, ranks, reliability, coverage."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import rankdata

from .calibration import Coverage, Reliability
from .figures import COLOURS, DASHES, GREY, NARROW, WIDTH, canvas, legend, plain, style

POINTS = 300  # of a trace, about
MOST_CHAINS = 6  # colours that are easy to distinguish
RANK_BINS = 20
MOST_POINTS = 1500  # of a scatter plot: more are not told apart


@style()
def traces(
    names: Sequence[str],
    steps: Int[np.ndarray, " draw"],
    draws: Float[np.ndarray, "chain draw d"],
    labels: Sequence[str],
    width: float = WIDTH,
) -> Figure:
    """One panel for each parameter, a line for each of the chains that have a label."""
    every = -(-len(steps) // POINTS)
    figure, grid = canvas(1.35 * len(names) + 0.9, len(names), width=width, sharex=True)
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
) -> Figure:
    """Histograms of the ranks of a chain's draws among all draws: 1 where chains agree."""
    columns = min(2 if width < NARROW else 3, len(names))
    rows = -(-len(names) // columns)
    bins = int(np.clip(draws.shape[1] // 10, 2, RANK_BINS))
    figure, grid = canvas(1.9 * rows + 0.9, rows, columns, width=width, sharex=True, sharey=True)
    for axes in grid[len(names) :]:
        axes.set_axis_off()
    for j, (axes, name) in enumerate(zip(grid, names, strict=False)):
        place = rankdata(draws[:, :, j]).reshape(draws.shape[:2]) / draws[:, :, j].size
        axes.axhline(1, color=GREY, linewidth=1, zorder=0)
        for label, own, colour, dash in zip(labels, place, COLOURS, DASHES, strict=False):
            counts, edges = np.histogram(own, bins, (0, 1))
            height, line = counts * bins / own.size, {"color": colour, "ls": dash, "lw": 1.3}
            axes.stairs(height, edges, baseline=None, label=label, **line)
        axes.set_title(plain(name, 24 if width > NARROW else 18))
        axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    grid[0].set_ylim(bottom=0)
    figure.supxlabel("rank among all draws", fontsize=11)
    legend(figure, grid[:1])
    return figure


@style()
def intervals(
    names: Sequence[str],
    runs: Sequence[str],
    mean: Float[np.ndarray, "run d"],
    sd: Float[np.ndarray, "run d"],
    width: float = WIDTH,
) -> Figure:
    """Means with one standard deviation to both sides, in the units of the first run."""
    unit = np.where(sd[0] > 0, sd[0], 1.0)
    middle, half = (mean - mean[0]) / unit, sd / unit
    place = np.arange(len(names))[::-1]
    shifts = np.linspace(0.3, -0.3, len(runs))
    figure, (axes,) = canvas(1.3 + (0.16 * len(runs) + 0.14) * len(names), width=width)
    axes.axvline(0, color=GREY, linewidth=1, zorder=0)
    for run, shift, x, bar, colour in zip(runs, shifts, middle, half, COLOURS, strict=False):
        options = {"fmt": "o", "markersize": 4, "color": colour, "label": plain(run, 36)}
        axes.errorbar(x, place + shift, xerr=bar, **options)
    axes.set_yticks(place, [plain(name, 24 if width > NARROW else 14) for name in names])
    axes.set_xlabel("distance from the first run's mean, in its sds")
    legend(figure, [axes])
    return figure


@style()
def reliability_figure(bins: Reliability, width: float = WIDTH, name: str = "") -> Figure:
    """Observed frequencies against predicted probabilities, and the number of data in each bin."""
    if width < NARROW:
        figure, (left, right) = canvas(5.6, rows=2, width=width, height_ratios=(2, 1))
    else:
        figure, (left, right) = canvas(3.9, columns=2, width=width, width_ratios=(1.25, 1))
    whose = f"probability of {plain(name, 20)}" if name else "predicted probability"
    left.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    left.vlines(bins.probability, bins.low, bins.high, color="#CFCFCF", linewidth=7)
    left.plot(bins.probability, bins.frequency, "o-", color=COLOURS[2], markersize=6)
    left.set(xlim=(0, 1), ylim=(-0.02, 1.02), aspect="equal")
    left.set(xlabel=whose, ylabel="observed frequency", title="reliability")
    right.bar(bins.probability, bins.count, 0.06, color=COLOURS[2])
    right.set(xlim=(0, 1), xlabel=whose, title="test data in each bin")
    right.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


@style()
def coverage_figure(coverage: Coverage, width: float = WIDTH) -> Figure:
    """The fraction of targets in central intervals against the level of the intervals."""
    level = np.linspace(0, 1, 101)
    band = 1.96 * coverage.chance(level)
    figure, (axes,) = canvas(3.9, width=width)
    axes.fill_between(level, level - band, level + band, color="#DDDDDD", linewidth=0)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    axes.plot(level, coverage.at(level), color=COLOURS[2])
    axes.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal", title="coverage of central intervals")
    axes.set(xlabel="should hold this fraction of targets", ylabel="holds this fraction")
    return figure


@style()
def residual_figure(
    mean: Float[np.ndarray, " n"], residuals: Float[np.ndarray, " n"], width: float = WIDTH
) -> Figure:
    """Residuals against predictions, with the running median."""
    figure, (axes,) = canvas(3.4, width=width)
    some = np.unique(np.linspace(0, len(mean) - 1, min(len(mean), MOST_POINTS)).astype(int))
    axes.axhline(0, color=GREY, linewidth=1)
    axes.plot(mean[some], residuals[some], ".", color=COLOURS[3], markersize=4, alpha=0.6)
    parts = np.array_split(np.argsort(mean), min(12, max(1, len(mean) // 10)))
    middle = [[np.median(values[part]) for part in parts] for values in (mean, residuals)]
    axes.plot(*middle, color=COLOURS[1], label="running median")
    axes.set(xlabel="predicted", ylabel="observed minus predicted")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4 if width < NARROW else 7))
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    legend(figure, [axes])
    return figure
