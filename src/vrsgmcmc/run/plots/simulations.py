"""Observed data beside data that a model simulates: a posterior predictive check."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Num
from matplotlib.figure import Figure

from .style import COLOURS, canvas, legend, style

BINS = 30
MOST_KINDS = 40  # whole numbers that get a bin each


@style()
def check_picture(
    simulated: Num[np.ndarray, "draw n"], observed: Num[np.ndarray, " n"], make: Callable = Figure
) -> Figure:
    """Histograms: the observed one, and where 95 % of the simulated ones are, bin by bin."""
    edges = bin_edges(simulated, observed)
    densities = np.array([density(each, edges) for each in simulated])
    low, middle, high = np.quantile(densities, (0.025, 0.5, 0.975), axis=0)
    figure, (axes,) = canvas(3.6, make=make)
    band = {"color": COLOURS[3], "alpha": 0.4, "label": "simulated, 95 %"}
    axes.stairs(high, edges, baseline=low, fill=True, **band)
    axes.stairs(middle, edges, baseline=None, color=COLOURS[2], lw=1.3, label="simulated, median")
    line = {"color": "black", "lw": 2, "label": "observed"}
    axes.stairs(density(observed, edges), edges, baseline=None, **line)
    axes.set(ylabel="density of the data", ylim=(0, None))
    legend(figure, [axes])
    return figure


def density(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.histogram(values, edges, density=True)[0]


def bin_edges(simulated: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """A bin for each of a few whole numbers; else bins of one width, and the rest in the outer two."""
    both = np.concatenate([observed.ravel(), simulated.ravel()])
    low, high = both.min(), both.max()
    if high - low < MOST_KINDS and np.all(both == np.round(both)):
        return np.arange(low, high + 2) - 0.5
    left, right = np.quantile(both, (0.001, 0.999))
    if not left < right:
        left, right = low - 0.5, high + 0.5
    edges = np.linspace(left, right, BINS + 1)
    edges[0], edges[-1] = min(low, edges[0]), max(high, edges[-1])
    return edges
