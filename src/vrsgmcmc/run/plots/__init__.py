"""Pictures of draws by matplotlib, and the style of all figures of the library."""

from .draws import autocorrelations, forest, ranks, traces
from .simulations import check_picture
from .style import (
    COLOURS,
    DASHES,
    GREY,
    GRID,
    INK,
    MOST_CHAINS,
    NARROW,
    PHONE,
    POINTS,
    WIDTH,
    canvas,
    heading,
    legend,
    plain,
    style,
)
from .views import plot_autocorr, plot_forest, plot_ppc, plot_rank, plot_trace

__all__ = [
    "COLOURS",
    "DASHES",
    "GREY",
    "GRID",
    "INK",
    "MOST_CHAINS",
    "NARROW",
    "PHONE",
    "POINTS",
    "WIDTH",
    "autocorrelations",
    "canvas",
    "check_picture",
    "forest",
    "heading",
    "legend",
    "plain",
    "plot_autocorr",
    "plot_forest",
    "plot_ppc",
    "plot_rank",
    "plot_trace",
    "ranks",
    "style",
    "traces",
]
