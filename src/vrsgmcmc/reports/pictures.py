"""Pictures of runs: intervals of several, reliability, coverage."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vrsgmcmc.run.plots import COLOURS, GREY, canvas, legend, plain, style

from .calibration import Coverage, Reliability


@style()
def intervals(
    names: Sequence[str],
    runs: Sequence[str],
    mean: Float[np.ndarray, "run d"],
    sd: Float[np.ndarray, "run d"],
) -> Figure:
    """Means with one standard deviation to both sides, in the units of the first run."""
    unit = np.where(sd[0] > 0, sd[0], 1.0)
    middle, half = (mean - mean[0]) / unit, sd / unit
    place = np.arange(len(names))[::-1]
    shifts = np.linspace(0.3, -0.3, len(runs))
    figure, (axes,) = canvas(1.3 + (0.16 * len(runs) + 0.14) * len(names))
    axes.axvline(0, color=GREY, linewidth=1, zorder=0)
    for run, shift, x, width, colour in zip(runs, shifts, middle, half, COLOURS, strict=False):
        axes.errorbar(
            x, place + shift, xerr=width, fmt="o", markersize=4, color=colour, label=plain(run)
        )
    axes.set_yticks(place, [plain(name, 24) for name in names])
    axes.set_xlabel("distance from the first run's mean, in its standard deviations")
    legend(figure, axes)
    return figure


@style()
def reliability_figure(bins: Reliability) -> Figure:
    """Observed frequencies against predicted probabilities, and the number of data in each bin."""
    figure, (left, right) = canvas(3.9, columns=2, width_ratios=(1.25, 1))
    left.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    left.vlines(bins.probability, bins.low, bins.high, color="#CFCFCF", linewidth=7)
    left.plot(bins.probability, bins.frequency, "o-", color=COLOURS[2], markersize=6)
    left.set(xlim=(0, 1), ylim=(-0.02, 1.02), aspect="equal")
    left.set(xlabel="predicted probability", ylabel="observed frequency", title="reliability")
    right.bar(bins.probability, bins.count, 0.06, color=COLOURS[2])
    right.set(xlim=(0, 1), xlabel="predicted probability", title="test data in each bin")
    right.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


@style()
def coverage_figure(coverage: Coverage) -> Figure:
    """The fraction of targets in central intervals against the level of the intervals."""
    level = np.linspace(0, 1, 101)
    band = 1.96 * coverage.chance(level)
    figure, (axes,) = canvas(3.9)
    axes.fill_between(level, level - band, level + band, color="#DDDDDD", linewidth=0)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    axes.plot(level, coverage.at(level), color=COLOURS[2])
    axes.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal", title="coverage of central intervals")
    axes.set(xlabel="should hold this fraction of targets", ylabel="holds this fraction")
    return figure
