"""The sections of a report that show draws and averages."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import sem

from vrsgmcmc.run import Result

from .page import Section, Table
from .pictures import MOST_CHAINS, POINTS, ranks, traces
from .summary import FEWEST_DRAWS, MOST_SCALARS, Names, Summary, pick

R_HAT, ESS = 1.01, 400  # limits of Vehtari et al. (2021)
MOST_LISTED = 2000  # parameters of a table
MOST_DRAWN = 6  # parameters in the trace and rank plots


def estimate_sections(
    result: Result, names: Names = None, *, open_table: bool = True
) -> Iterator[Section]:
    """Means and intervals of the parameters: of some in a table, of all behind a click."""
    alive = np.flatnonzero(~result.diverged)
    if result.draws is None or not alive.size or result.draw_steps.size < FEWEST_DRAWS:
        return
    labels, draws, total = pick(result.draws, leading=2, names=names, most=MOST_LISTED)
    draws = draws[alive].reshape(-1, len(labels))
    low, high = np.quantile(draws, (0.05, 0.95), axis=0)
    certain = np.maximum((draws > 0).mean(0), (draws < 0).mean(0))
    mean, sd = draws.mean(0), draws.std(0, ddof=1)
    rows = list(zip(labels, mean, sd, low, high, [f"{p:.1%}" for p in certain], strict=True))
    places = decimals(sd)
    header = ("parameter", "mean", "sd", "90 % from", "to", "sign certain")
    table = Table(header, rows, ("", places, places, places, places))
    clear = int(np.sum(certain >= 0.95))
    which = "All" if len(rows) == total else f"{len(rows):,} of"
    short = table._replace(rows=rows[:MOST_SCALARS]) if open_table else None
    hidden = len(rows) > MOST_SCALARS or not open_table
    yield Section(
        "What was estimated" if open_table else "Parameters of the model",
        describe_part(len(rows), total, "parameters")
        + f"The sign is at least 95 % certain for {clear:,} of {len(rows):,} parameters. Mean, sd "
        "and 90 % interval of the posterior.",
        table=short,
        more=[(f"{which} {total:,} parameters", table)] if hidden else [],
    )


def posterior_sections(result: Result, summary: Summary | None) -> Iterator[Section]:
    """Diagnostics, traces and ranks of the draws, and the averages."""
    if summary is not None:
        yield posterior_table(summary)
        yield from mixing(result, summary)
    elif result.draws is not None:
        yield Section(
            "Did the chains agree?",
            "Every chain became non-finite."
            if result.diverged.all()
            else f"{result.draw_steps.size} draws of each chain are too few to summarise: "
            f"{FEWEST_DRAWS} are needed.",
        )
    alive = np.flatnonzero(~result.diverged)
    if result.averages and alive.size:
        names, values, total = pick(result.averages, leading=1)
        values = values[alive]
        error = sem(values) if alive.size > 1 else [None] * len(names)
        yield Section(
            "Averages over every step",
            describe_part(len(names), total, "averages")
            + "Means over chains; the standard error is that of chains that differ.",
            table=Table(
                ("average", "mean", "standard error"),
                list(zip(names, values.mean(0), error, strict=True)),
            ),
        )


def posterior_table(summary: Summary) -> Section:
    rows = zip(summary.names, *summary.numbers.values(), strict=True)
    places = decimals(summary.numbers["sd"])
    return Section(
        "Did the chains agree?",
        convergence(summary)
        + "\n\n"
        + describe_part(len(summary.names), summary.total, "parameters")
        + "Mean and standard deviation of the draws; the Monte Carlo standard error of the mean; the "
        "effective number of draws in the bulk and in the tails; R-hat, which is 1 when the chains "
        "agree.",
        table=Table(
            ("parameter", "mean", "sd", "MC error", "ESS bulk", "ESS tail", "R-hat"),
            list(rows),
            ("", places, places, decimals(summary.numbers["mcse_mean"], 2), ",.0f", ",.0f", ".3f"),
        ),
    )


def convergence(summary: Summary) -> str:
    """The smallest ESS and the largest R-hat in words, and whether they are good enough."""
    ess = np.where(np.isnan(summary.numbers["ess_bulk"]), np.inf, summary.numbers["ess_bulk"])
    r_hat = np.where(np.isnan(summary.numbers["r_hat"]), -np.inf, summary.numbers["r_hat"])
    few, far = int(ess.argmin()), int(r_hat.argmax())
    if not np.isfinite(ess[few]):
        return "The effective number of draws is not known."
    least = f"{ess[few]:,.0f} ({summary.names[few]})"
    text = f"The smallest effective number of draws in the bulk is {least}"
    if np.isfinite(r_hat[far]):
        text += f", the largest R-hat {r_hat[far]:.3f} ({summary.names[far]})"
    if ess[few] >= ESS and r_hat[far] <= R_HAT:
        return f"{text}."
    return f"{text}. Below {ESS} draws or above R-hat {R_HAT}, run longer before relying on it."


def describe_part(count: int, total: int, what: str) -> str:
    return f"{count} of {total:,} {what}, evenly spread over the leaves. " if count < total else ""


def decimals(values: Any, digits: int = 3) -> str:
    """The format of a column: this many significant digits of its median."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    if not sizes.size:
        return ".3g"
    after = digits - 1 - int(np.floor(np.log10(np.median(sizes))))
    return f",.{max(0, after)}f" if after <= 6 else f".{digits - 1}e"


def mixing(result: Result, summary: Summary) -> Iterator[Section]:
    """Traces and ranks of the parameters with the fewest effective draws."""
    ess = summary.numbers["ess_bulk"]
    worst = np.sort(np.argsort(np.where(np.isnan(ess), -1, ess), kind="stable")[:MOST_DRAWN])
    names = [summary.names[j] for j in worst]
    draws, count = summary.draws[:, :, worst], len(summary.chains)
    labels = [f"chain {chain}" for chain in summary.chains[:MOST_CHAINS]]
    which = "The parameters with the fewest effective draws. " * (len(names) < len(summary.names))
    which += f"The first {MOST_CHAINS} of {count} chains. " * (count > MOST_CHAINS)
    every = -(-result.draw_steps.size // POINTS)
    often = {1: "Every draw", 2: "Every second draw"}.get(every, f"One draw in {every}")
    yield Section(
        "Traces",
        figure=partial(traces, names, result.draw_steps, draws, labels),
        caption=f"{which}{often}. Chains that explore the same range, without drift, are good.",
        alt=f"Traces of {len(names)} parameters over the steps of {count} chains; the table "
        "above has their R-hat.",
    )
    yield Section(
        "Ranks",
        figure=partial(ranks, names, draws, labels),
        caption=f"{which}How often draws of each chain have a rank among the draws of all, relative "
        "to an even share: close to 1 everywhere when the chains agree.",
        alt=f"Rank histograms of {len(names)} parameters for {count} chains; the table above "
        "has their R-hat.",
    )
