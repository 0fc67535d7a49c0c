"""`result.plot_*`: the pictures of a result, as axes of pyplot figures, which notebooks show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vrsgmcmc.core import whole

from ..predict import predict
from ..scalars import Scalars, scalars
from .draws import autocorrelations, forest, ranks, traces
from .simulations import check_picture
from .style import GREY, MOST_CHAINS, style

if TYPE_CHECKING:
    from ..result import Result

FIRST = 20  # parameters, unless they are named
MOST = 100


def plot_trace(result: Result, names: Any) -> np.ndarray:
    chosen = choose(result, "plot_trace", names)
    values, labels = chosen.values(), chains(chosen)
    figure = traces(chosen.names, result.draw_steps, values, labels, make=pyplot.figure)
    return finish(figure, chosen, names is None)


def plot_forest(result: Result, names: Any) -> np.ndarray:
    chosen = choose(result, "plot_forest", names)
    figure = forest(chosen.names, chosen.values(), make=pyplot.figure)
    return finish(figure, chosen, names is None, lines=False)


def plot_rank(result: Result, names: Any) -> np.ndarray:
    chosen = choose(result, "plot_rank", names)
    figure = ranks(chosen.names, chosen.values(), chains(chosen), make=pyplot.figure)
    return finish(figure, chosen, names is None)


def plot_autocorr(result: Result, names: Any, lags: int) -> np.ndarray:
    lags = whole("plot_autocorr", "lags", lags)
    chosen = choose(result, "plot_autocorr", names)
    figure = autocorrelations(
        chosen.names, chosen.values(), chains(chosen), lags, make=pyplot.figure
    )
    return finish(figure, chosen, names is None)


def plot_ppc(
    result: Result, simulated: Any, observed: Any, *, x: Any, most: int, seed: int
) -> np.ndarray:
    observed = np.asarray(observed)
    if callable(simulated):
        simulated = predict(result, simulated, x, most=most, key=seed)
    simulated = np.asarray(simulated)
    if not observed.size or simulated.shape[1:] != observed.shape or not simulated.shape[0]:
        raise ValueError(
            f"plot_ppc: observed has the shape {list(observed.shape)}, so simulated has to be [draw, "
            f"{', '.join(map(str, observed.shape))}]; it is {list(simulated.shape)}."
        )
    for name, values in (("observed", observed), ("simulated", simulated)):
        if values.dtype.kind not in "biuf" or not np.all(np.isfinite(values)):
            raise ValueError(f"plot_ppc: {name} must be finite numbers; it is {values.dtype}.")
    figure = check_picture(
        simulated.reshape(len(simulated), -1).astype(float),
        observed.ravel().astype(float),
        pyplot.figure,
    )
    return np.array(figure.axes)


def choose(result: Result, where: str, names: Any) -> Scalars:
    chosen = scalars(result, where, names, FIRST)
    if chosen.count > MOST:
        raise ValueError(
            f"{where}: names chooses {chosen.count:,} parameters; a figure shows at most {MOST}. "
            f"Choose single ones: names=[{chosen.names[0]!r}, ...]."
        )
    return chosen


def chains(chosen: Scalars) -> list[str]:
    return [f"chain {chain}" for chain in chosen.chains[:MOST_CHAINS]]


@style()
def finish(figure: Figure, chosen: Scalars, first: bool, lines: bool = True) -> np.ndarray:
    """The axes that show something; a note says what is not in the figure."""
    notes = [f"the first {chosen.note}, names= chooses others"] if first and chosen.note else []
    count = len(chosen.chains)
    notes += [f"the first {MOST_CHAINS} of {count} chains"] if lines and count > MOST_CHAINS else []
    note = "; ".join(notes)
    if note and lines:
        figure.legends[0].set_title(note)  # a title of the figure would lie on the legend
        figure.legends[0].get_title().set_fontsize(9)
    elif note:
        figure.suptitle(note, fontsize=9, color=GREY)
    axes: list[Axes] = [each for each in figure.axes if each.axison]
    return np.array(axes)
