"""What a run gives back: draws, averages, cost, and what went wrong."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, PyTree

from vrsgmcmc.core import Data, Posterior, Sampler, State, distinct, named_leaves

from .setup import Setup

if TYPE_CHECKING:
    import pandas
    import xarray


class Divergence(NamedTuple):
    """A chain that became non-finite: where, how far out, and what to try."""

    chain: int
    step: int
    norm: float
    step_size: float
    try_step_size: float
    row: int | None = None  # of the data: its loglik or gradient is not finite there

    def __str__(self) -> str:
        smaller = f"ry a step size of {self.try_step_size:.2g}."
        text = (
            f"chain {self.chain} became non-finite at step {self.step} with step size "
            f"{self.step_size:.3g}; it is frozen where |x| was {self.norm:.3g}. "
        )
        if self.row is None:
            return f"{text}T{smaller}"
        return (
            f"{text}There loglik or its gradient is not finite for data row {self.row}: look at that "
            f"row, or make loglik safe for it. If the row is right, t{smaller}"
        )


class Context(NamedTuple):
    """What was sampled, and how: enough to look at the run again."""

    posterior: Posterior
    data: Data
    sampler: Sampler  # with the step size of the last step


class Totals(NamedTuple):
    """How far a run is, and what it has cost."""

    steps: int
    visits: int  # data that refreshes have visited, per chain
    search_cost: int  # evaluations that the search for a mode took
    seconds: float
    divergences: tuple[Divergence, ...]

    def evaluations(self, setup: Setup, state: State) -> int:
        """Per-datum gradient evaluations of all chains, which are in `state` [chain]."""
        return setup.evaluations(self.steps, self.visits, [state]) + self.search_cost

    def to_json(self) -> dict[str, Any]:
        divergences = [
            [d.chain, d.step, *map(repr, d[2:5]), *([] if d.row is None else [d.row])]
            for d in self.divergences
        ]
        return {
            "steps": self.steps,
            "visits": self.visits,
            "searched": self.search_cost,
            "seconds": self.seconds,
            "divergences": divergences,
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Totals:
        divergences = tuple(
            Divergence(chain, step, float(norm), float(h), float(smaller), *row)
            for chain, step, norm, h, smaller, *row in record["divergences"]
        )
        counts = record["steps"], record["visits"], record["searched"]
        return cls(*counts, record["seconds"], divergences)


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
            lines.append("How right it is was not measured.")
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
        from arviz_stats.summary import summary

        tree = self.to_arviz()
        options = {"round_to": "none", "kind": "all", "fmt": "wide", **options}
        table: Any = summary(tree, **options)
        if "sd" in table and options["round_to"] == "none":
            table["sd"] = sample_sds(tree, **options)
        table.attrs["note"] = tree.attrs["note"]
        return table

    def to_arviz(self) -> xarray.DataTree:
        """The draws in float64 as an `xarray.DataTree` with dimensions chain and draw, for ArviZ."""
        from arviz_base import from_dict

        if self.draws is None:
            raise ValueError(
                'no draws were kept (keep="averages"). result.averages holds the averages; run with '
                'keep="draws" for a table of draws.'
            )
        alive = np.flatnonzero(~self.diverged)
        if alive.size == 0:
            raise ValueError(
                "every chain became non-finite, so there is nothing to summarise. "
                + str(self.divergences[0])
            )
        names, leaves = zip(*named_leaves(self.draws), strict=True)
        names = distinct([name.replace("/", "_") for name in names], ("chain", "draw"))
        # ArviZ sums in the dtype of the draws, and in float32 1e5 terms lose digits
        posterior = {
            n: np.asarray(leaf)[alive].astype(np.float64)
            for n, leaf in zip(names, leaves, strict=True)
        }
        step = np.broadcast_to(self.draw_steps, (alive.size, self.draw_steps.size))
        tree = from_dict(
            {"posterior": posterior, "sample_stats": {"step": step}}, coords={"chain": alive}
        )
        tree.attrs.update(self.attributes())
        return tree

    def attributes(self) -> dict[str, Any]:
        """Settings, cost and versions, as plain values."""
        out = [divergence.chain for divergence in self.divergences]
        note = f"chains left out because they became non-finite: {out}" if out else "all chains"
        packages = {name: version(name) for name in ("vrsgmcmc", "jax", "numpy")}
        return {
            **{name: str(value) for name, value in self.settings.items()},
            "evaluations": self.evaluations,
            "data_passes": self.data_passes,
            "seconds": self.seconds,
            "num_steps_done": self.num_steps,
            "interrupted": int(self.interrupted),
            "diverged_chains": out,
            "note": note,
            "versions": ", ".join(f"{name} {number}" for name, number in packages.items()),
            "python": platform.python_version(),
            "device": jax.devices()[0].platform,
        }


def sample_sds(
    tree: xarray.DataTree, coords: Mapping[str, Any] | None = None, **options: Any
) -> pandas.Series:
    """The sds (ddof = 1) of the rows of ArviZ's wide table; its own ddof depends on its version."""
    from arviz_base import dataset_to_dataframe, extract

    choice = {n: v for n, v in options.items() if n in ("var_names", "filter_vars", "group")}
    posterior: Any = extract(tree, **choice, combined=False, keep_dataset=True)
    sds = posterior.sel(coords).std(("chain", "draw"), ddof=1).expand_dims(summary=["sd"])
    table: Any = dataset_to_dataframe(sds, sample_dims=["summary"])
    return table.loc["sd"]


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
