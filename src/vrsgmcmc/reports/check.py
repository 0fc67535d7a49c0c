"""The posterior predictive check: do data that the model simulates look like the data?

Each draw of the posterior simulates a data set. A statistic of the data is unusual when fewer than one
in forty of the simulated data sets lie on the same side of it (two-sided 95 %).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .figures import COLOURS, WIDTH, canvas, legend, plain, style
from .page import Section, Table, cell, join_words

BINS, MOST_COUNTS = 24, 30
TAIL = 0.025


class PredictiveCheck(NamedTuple):
    """Targets [row], and those that draws of the posterior simulate [draw, row].

    Numbers, counts (whole numbers from 0), or with `labels`, which name them, classes.
    """

    observed: Any
    simulated: Any
    labels: Sequence[str] = ()


class Bars(NamedTuple):
    """Shares of rows in bins: of the data, and the quantiles of those of simulated data."""

    names: Sequence[str]  # of the bins; empty where `edges` are numbers
    edges: Float[np.ndarray, " bins+1"]
    observed: Float[np.ndarray, " bins"]
    low: Float[np.ndarray, " bins"]  # 90 % of the simulated data sets are between these
    middle: Float[np.ndarray, " bins"]
    high: Float[np.ndarray, " bins"]


def check_section(check: PredictiveCheck) -> Section:
    """The check in words, as a figure and as a table of statistics."""
    observed, simulated = (np.asarray(values, np.float64) for values in check[:2])
    if simulated.ndim != 2 or observed.shape != simulated.shape[1:] or not simulated.size:
        raise ValueError(
            "PredictiveCheck: give [n] targets and [draws, n] simulated ones, got shapes "
            f"{observed.shape} and {simulated.shape}."
        )
    bars = count_bars(check, observed, simulated)
    rows, odd = [], []
    for name, own, drawn in statistics(check, bars, observed, simulated):
        low, high = np.quantile(drawn, (0.05, 0.95))
        below, above = np.mean(drawn <= own), np.mean(drawn >= own)
        if min(below, above) < TAIL:
            expected = f"{cell(float(low))} to {cell(float(high))}"
            odd.append(f"{name} {cell(float(own))}, where {expected} is expected")
        rows.append((name, own, low, high, f"{min(below, above):.1%}"))
    verdict = (
        f"No. Unusual for this model: {join_words(odd)}."
        if odd
        else "In these statistics, yes: each is within what the model simulates."
    )
    return Section(
        "Do simulated data look like the data?",
        verdict,
        figure=partial(check_figure, bars),
        caption=f"{simulated.shape[0]:,} data sets that draws of the posterior simulate: the median "
        "and the range of 90 % of them.",
        alt="Shares of the data in bins, with the range of simulated data; the table has statistics.",
        table=Table(
            ("statistic", "data", "simulated: from", "to (90 %)", "as far out"), rows,
        ),
    )  # fmt: skip


def count_bars(
    check: PredictiveCheck,
    observed: Float[np.ndarray, " row"],
    simulated: Float[np.ndarray, "draw row"],
) -> Bars:
    """The shares of classes, counts or intervals of numbers."""
    names: list[str] = []
    whole = np.all(observed == np.round(observed)) and np.all(simulated == np.round(simulated))
    if len(check.labels):
        names, edges = [str(name) for name in check.labels], np.arange(len(check.labels) + 1) - 0.5
    elif whole and observed.min() >= 0 and observed.max() <= MOST_COUNTS:
        edges = np.arange(observed.max() + 2) - 0.5
    else:
        low, high = np.quantile(observed, (0.005, 0.995))
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)

    def share(values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " bins"]:
        return np.histogram(values, edges)[0] / values.size

    drawn = np.stack([share(row) for row in simulated])
    return Bars(names, edges, share(observed), *np.quantile(drawn, (0.05, 0.5, 0.95), axis=0))


def statistics(
    check: PredictiveCheck,
    bars: Bars,
    observed: Float[np.ndarray, " row"],
    simulated: Float[np.ndarray, "draw row"],
) -> list[tuple[str, float, Float[np.ndarray, " draw"]]]:
    """Name, value of the data and values of the simulated data."""
    if bars.names:
        return [
            (f"share of {name}", float(np.mean(observed == k)), np.mean(simulated == k, axis=1))
            for k, name in enumerate(bars.names)
        ]
    functions: dict[str, Callable[..., Any]] = {
        "mean": np.mean, "standard deviation": np.std, "least": np.min, "largest": np.max,
    }  # fmt: skip
    if observed.min() >= 0 and np.any(observed == 0):
        functions["share of zeros"] = lambda values, axis=None: np.mean(values == 0, axis=axis)
    return [
        (name, float(function(observed)), function(simulated, axis=1))
        for name, function in functions.items()
    ]


@style()
def check_figure(bars: Bars, width: float = WIDTH) -> Figure:
    """Bars of the data, with points and ranges of simulated data."""
    figure, (axes,) = canvas(3.4, width=width)
    middle, size = (bars.edges[1:] + bars.edges[:-1]) / 2, np.diff(bars.edges)
    axes.bar(middle, bars.observed, 0.9 * size, color="#D5DEE6", label="data")
    axes.vlines(middle, bars.low, bars.high, color=COLOURS[1], linewidth=2, label="simulated, 90 %")
    axes.plot(middle, bars.middle, "o", color=COLOURS[1], markersize=4, label="simulated, median")
    axes.set_ylabel("share of rows")
    axes.set_ylim(bottom=0)
    if bars.names:
        longest = max(map(len, bars.names)) * len(bars.names)
        turn = {"rotation": 90} if longest > 11 * width else {}
        axes.set_xticks(middle, [plain(name, 20) for name in bars.names], **turn)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5 if width < WIDTH else 8))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    legend(figure, [axes])
    return figure
