"""What a run gives back: draws, averages, cost, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, PyTree

from vrsgmcmc.core import State

from .setup import Setup
from .totals import NOT_MEASURED, Context, Divergence, Totals

if TYPE_CHECKING:
    import pandas
    import xarray


@dataclass(frozen=True)
class Result:
    """Draws and averages of a run, and what they cost."""

    load_draws: Callable[[], PyTree] = field(repr=False)
    averages: dict[str, PyTree]
    evaluations: int
    data_passes: float
    seconds: float
    state: State
    diverged: Bool[np.ndarray, " chain"]
    divergences: tuple[Divergence, ...]
    num_steps: int
    interrupted: bool
    settings: dict[str, Any]
    draw_steps: np.ndarray = field(repr=False)
    context: Context = field(repr=False)
    signal: int | None = None  # the number of the signal that ended the run
    run_dir: Path | None = None
    decision: Any = None  # what `vr.sample` chose by itself, and why
    record: Any = field(default=None, repr=False)  # how right the result is, once that is known
    assess: Callable[[Result], Any] | None = field(default=None, repr=False)

    @property
    def total_passes(self) -> float:
        """Evaluations of all chains together over N, with what the decision and the accuracy took."""
        return self.evaluations / self.settings["data_size"]

    def accuracy(self) -> Any:
        """How right the result is: bounds for the error of every mean and sd, and a verdict.

        Where `vr.sample` chose the sampler it is known already; else it is measured now, which takes
        about a quarter of the run's own evaluations.
        """
        if self.record is None and self.assess is not None:
            object.__setattr__(self, "record", self.assess(self))
        return self.record

    def __str__(self) -> str:
        ended = "interrupted" if self.interrupted else "finished"
        chains = len(self.diverged)
        lines = [
            f"{ended}: {chains} chains of {self.num_steps:,} steps, {self.total_passes:,.1f} passes "
            f"over {self.settings['data_size']:,} data in all, {self.seconds:.3g} s",
            *(str(each) for each in (self.decision, self.record, *self.divergences) if each),
        ]
        if self.decision is not None and self.record is None:
            lines.append(NOT_MEASURED)
        return "\n".join(lines)

    @cached_property
    def draws(self) -> PyTree:
        """Leaves [chain, draw, ...]; read from disk when they are first asked for. None: not stored."""
        return self.load_draws()

    def with_draws(self, draws: PyTree) -> Result:
        """This result with other draws, as many of each chain."""
        return replace(self, load_draws=partial(constant, draws))

    def summary(self, **options: Any) -> pandas.DataFrame:
        """Mean, sd, ESS and R-hat of every parameter, over the chains that stayed finite.

        `options` go to `arviz_stats.summary`, which takes about 5 ms per scalar: pick `var_names`
        for a large model. `.attrs["note"]` of the table says which chains were left out. The sd is
        that of a sample (ddof = 1), unless ArviZ rounds it or `fmt` is not its default.
        """
        from .tables import summary

        return summary(self, **options)

    def to_arviz(self) -> xarray.DataTree:
        """The draws in float64 as an `xarray.DataTree` with dimensions chain and draw, for ArviZ."""
        from .tables import to_arviz

        return to_arviz(self)

    def to_pandas(self, names: Any = None, *, form: str = "wide") -> pandas.DataFrame:
        """The draws of the chains that stayed finite: chain, draw, and a column for each parameter,
        or with `form="long"` a row for each number. `names` chooses parameters."""
        from .tables import to_pandas

        return to_pandas(self, names, form)

    def to_netcdf(self, path: Any) -> Path:
        """Write `to_arviz()` to a netCDF file, which `xarray.open_datatree` and ArviZ read."""
        from .tables import to_netcdf

        return to_netcdf(self, path)

    def attributes(self) -> dict[str, Any]:
        """Settings, cost and versions, as plain values."""
        from .tables import attributes

        return attributes(self)

    def predict(
        self, function: Callable, x: Any = None, *, most: int | None = 400, key: Any = None
    ) -> PyTree:
        """`function(params, x)` at `most` evenly spaced draws, as arrays [draw, ...]; None: at all.

        Draws are those of the chains that stayed finite, chain after chain. With a `key`,
        `function(params, x, key)` gets a key of its own for each draw, to simulate data.
        """
        from .predict import predict

        return predict(self, function, x, most=most, key=key)

    def predict_mean(
        self, function: Callable, x: Any = None, *, most: int | None = None, key: Any = None
    ) -> PyTree:
        """The mean of `predict` over all draws, without holding them: memory for one output."""
        from .predict import predict_mean

        return predict_mean(self, function, x, most=most, key=key)

    def log_likelihood(
        self, rows: Any = None, *, most: int | None = None
    ) -> Float[np.ndarray, "chain draw row"]:
        """loglik of every row of the data (or of some `rows`) at every draw (or at `most`).

        What does not fit in memory is refused before anything is computed. A posterior with `augment`
        sees each row with one fixed key.
        """
        from .likelihood import log_likelihood

        return log_likelihood(self, rows, most=most)

    def loo(self, *, most: int | None = None) -> Any:
        """Leave-one-out cross-validation (PSIS) by `arviz_stats.loo`, for `arviz_stats.compare`.

        The rows whose Pareto k is too large are named by a warning.
        """
        from .loo import loo

        return loo(self, most=most)

    def loo_subsample(
        self, observations: int = 400, *, most: int | None = None, seed: int = 0
    ) -> Any:
        """`loo` from some rows of large data, by `arviz_stats.loo_subsample`, with its own error."""
        from .loo import loo_subsample

        return loo_subsample(self, observations, most=most, seed=seed)

    def plot_trace(self, names: Any = None) -> Any:
        """Draws against steps, a line for each chain: axes of matplotlib, one for each parameter."""
        from .plots import plot_trace

        return plot_trace(self, names)

    def plot_forest(self, names: Any = None) -> Any:
        """Medians, and intervals with 50 % and 95 % of the draws: axes of matplotlib."""
        from .plots import plot_forest

        return plot_forest(self, names)

    def plot_rank(self, names: Any = None) -> Any:
        """Ranks of each chain's draws among all: level where chains agree. Axes of matplotlib."""
        from .plots import plot_rank

        return plot_rank(self, names)

    def plot_autocorr(self, names: Any = None, *, lags: int = 100) -> Any:
        """Autocorrelation of each chain: axes of matplotlib, one for each parameter."""
        from .plots import plot_autocorr

        return plot_autocorr(self, names, lags)

    def plot_ppc(
        self, simulated: Any, observed: Any, *, x: Any = None, most: int = 200, seed: int = 0
    ) -> Any:
        """Observed data beside data that the model simulates: axes of matplotlib.

        `simulated`: arrays [draw, ...], or a function(params, x, key) that makes one data set.
        """
        from .plots import plot_ppc

        return plot_ppc(self, simulated, observed, x=x, most=most, seed=seed)

    def _repr_html_(self) -> str:
        from .html import of_result

        return of_result(self)


def constant(value: Any) -> Any:
    """The value itself: `partial(constant, draws)` loads draws that are in memory."""
    return value


def make_result(
    setup: Setup,
    totals: Totals,
    state: State,
    averages: tuple,
    load_draws: Callable[[], PyTree],
    interrupted: bool = False,
    signal: int | None = None,
    run_dir: Path | None = None,
) -> Result:
    """The result of a run, made here or in an earlier process."""
    diverged = np.zeros(setup.num_chains, bool)
    diverged[[divergence.chain for divergence in totals.divergences]] = True
    evaluations = totals.evaluations(setup, state)
    last_step_size = float(np.mean(setup.step_sizes) * setup.schedule[-1])
    return Result(
        load_draws=load_draws,
        averages=dict(zip(setup.names, averages, strict=True)),
        evaluations=evaluations,
        data_passes=evaluations / (setup.program.size * setup.num_chains),
        seconds=totals.seconds,
        state=state,
        diverged=diverged,
        divergences=totals.divergences,
        num_steps=totals.steps,
        interrupted=interrupted,
        settings=setup.settings,
        draw_steps=setup.draw_steps(0, setup.draws_before(setup.first + totals.steps)),
        context=Context(
            setup.program.posterior,
            setup.setting.data,
            replace(setup.sampler, step_size=last_step_size),
        ),
        signal=signal,
        run_dir=run_dir,
    )
