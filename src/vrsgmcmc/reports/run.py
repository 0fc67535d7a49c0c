"""The report of one run: what was run, what it cost, the posterior, and whether to believe it."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vrsgmcmc.reports.calibration import LEVELS, Predictions, Probabilities, coverage, reliability
from vrsgmcmc.reports.figures import audit_figure
from vrsgmcmc.reports.page import Report, Section, Table, cell
from vrsgmcmc.reports.pictures import (
    MOST_CHAINS,
    POINTS,
    coverage_figure,
    ranks,
    reliability_figure,
    traces,
)
from vrsgmcmc.reports.summary import FEWEST_DRAWS, Names, Summary, pick, summarise
from vrsgmcmc.run import Result

MOST_DRAWN = 6  # parameters in the trace and rank plots
R_HAT, ESS = 1.01, 400  # what Vehtari et al. (2021) ask for


def of_result(
    result: Result,
    *,
    title: str = "Report of a run",
    names: Names = None,
    audit: Any = None,
    predictive: Probabilities | Predictions | None = None,
    command: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Report:
    """The report of one run.

    - `names`: of the scalars, in the order of the parameters' single leaf; or a dict from leaves to
      names. Without: `w[3]`.
    - `audit`: what `vr.audit(result)` found. `predictive`: predictions for test data.
    - `command`, `facts`: how the run was started, and what else should be known (seeds, data).
    """
    summary = summarise(result, names)
    sections = [*trouble(result), *posterior(result, summary)]
    if predictive is not None:
        sections.append(
            labels(predictive) if isinstance(predictive, Probabilities) else numbers(predictive)
        )
    sections += [*audited(audit), cost(result), settings(result)]
    attributes = result.attributes()
    made = {
        **({} if command is None else {"command": command}),
        **(facts or {}),
        "versions": attributes["versions"],
        "Python": attributes["python"],
        "machine": f"{platform.system()} {platform.machine()}, JAX on {attributes['device']}",
    }
    return Report(title, lead(result, summary, audit), sections, facts=made)


def lead(result: Result, summary: Summary | None, audit: Any) -> str:
    chosen, chains = result.settings, len(result.diverged)
    sampler = result.context.sampler
    told = [
        f"{chains} chain{'s' if chains > 1 else ''} of {result.num_steps:,} steps with "
        f"{sampler.estimator.name} gradients and {sampler.integrator.name} dynamics on "
        f"{chosen['data_size']:,} data."
    ]
    if result.interrupted:
        told.append(f"The run was interrupted: {chosen['num_steps']:,} steps were asked for.")
    if result.divergences:
        told.append(f"{len(result.divergences)} of the chains became non-finite.")
    told.append(convergence(summary) if summary else "There is no summary of draws.")
    text = " ".join(told)
    return text if audit is None else f"{text}\n\nAudit: {audit.verdict}"


def convergence(summary: Summary) -> str:
    """The worst numbers, and whether they are good enough."""
    ess = np.where(np.isnan(summary.numbers["ess_bulk"]), np.inf, summary.numbers["ess_bulk"])
    r_hat = np.where(np.isnan(summary.numbers["r_hat"]), -np.inf, summary.numbers["r_hat"])
    few, far = int(ess.argmin()), int(r_hat.argmax())
    if not np.isfinite(ess[few]):
        return "The effective number of draws is not known."
    text = f"The smallest effective number of draws is {ess[few]:,.0f} ({summary.names[few]})"
    if np.isfinite(r_hat[far]):
        text += f", the largest R-hat {r_hat[far]:.3f} ({summary.names[far]})"
    fine = ess[few] >= ESS and r_hat[far] <= R_HAT
    return text + (
        "."
        if fine
        else f". Below {ESS} draws or above R-hat {R_HAT}, run longer before relying on it."
    )


def trouble(result: Result) -> Iterator[Section]:
    if result.divergences:
        rows = [tuple(divergence) for divergence in result.divergences]
        yield Section(
            "Chains that became non-finite",
            "They are frozen where they were, and left out of everything below.",
            table=Table(("chain", "step", "|x| there", "step size", "step size to try"), rows),
        )


def posterior(result: Result, summary: Summary | None) -> Iterator[Section]:
    if summary is not None:
        yield posterior_table(summary)
        yield from mixing(result, summary)
    elif result.draws is not None:
        yield Section(
            "Posterior",
            "Every chain became non-finite."
            if result.diverged.all()
            else f"{result.draw_steps.size} draws of each chain are too few to summarise: "
            f"{FEWEST_DRAWS} are needed.",
        )
    alive = np.flatnonzero(~result.diverged)
    if result.averages and alive.size:
        names, values, total = pick(result.averages, leading=1)
        values = values[alive]
        error = (
            values.std(0, ddof=1) / np.sqrt(alive.size) if alive.size > 1 else [None] * len(names)
        )
        yield Section(
            "Averages over every step",
            counted(len(names), total, "averages")
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
        "Posterior",
        counted(len(summary.names), summary.total, "parameters")
        + "Mean and standard deviation of the draws; the Monte Carlo standard error of the mean; the "
        "effective number of draws in the bulk and in the tails; R-hat, which is 1 when the chains "
        "agree.",
        table=Table(
            ("parameter", "mean", "sd", "MC error", "ESS bulk", "ESS tail", "R-hat"),
            list(rows),
            ("", places, places, decimals(summary.numbers["mcse_mean"], 2), ",.0f", ",.0f", ".3f"),
        ),
    )


def counted(shown: int, total: int, what: str) -> str:
    return f"{shown} of {total:,} {what}, evenly spread over the leaves. " if shown < total else ""


def decimals(values: Any, digits: int = 3) -> str:
    """One format for a column, with so many digits of its typical number."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    if not sizes.size:
        return ".3g"
    after = digits - 1 - int(np.floor(np.log10(np.median(sizes))))
    return f",.{max(0, after)}f" if after <= 6 else f".{digits - 1}e"


def mixing(result: Result, summary: Summary) -> Iterator[Section]:
    ess = summary.numbers["ess_bulk"]
    worst = np.sort(np.argsort(np.where(np.isnan(ess), -1, ess), kind="stable")[:MOST_DRAWN])
    names = [summary.names[j] for j in worst]
    draws, listed = summary.draws[:, :, worst], summary.chains.tolist()
    which = (
        ""
        if len(names) == len(summary.names)
        else "The parameters with the fewest effective draws. "
    )
    if len(listed) > MOST_CHAINS:
        which += f"The first {MOST_CHAINS} of {len(listed)} chains. "
    every = -(-result.draw_steps.size // POINTS)
    often = {1: "Every draw", 2: "Every second draw"}.get(every, f"One draw in {every}")
    yield Section(
        "Traces",
        figure=traces(names, result.draw_steps, draws, listed),
        caption=f"{which}{often}. Chains that explore the same range, without drift, are good.",
        alt=f"Traces of {len(names)} parameters over the steps of {len(listed)} chains; the table "
        "above has their R-hat.",
    )
    yield Section(
        "Ranks",
        figure=ranks(names, draws, listed),
        caption=f"{which}How often draws of each chain have a rank among the draws of all, relative "
        "to an even share: close to 1 everywhere when the chains agree.",
        alt=f"Rank histograms of {len(names)} parameters for {len(listed)} chains; the table above "
        "has their R-hat.",
    )


def labels(given: Probabilities) -> Section:
    found = reliability(given)
    whose = "of label 1" if found.binary else "of the likeliest class"
    total = int(found.count.sum())
    return Section(
        "Predictions",
        f"On {total:,} test data: negative log-likelihood {cell(found.nll, '.4f')}, "
        f"accuracy {found.accuracy:.3f}, Brier score {found.brier:.4f}. The expected calibration "
        f"error is {found.ece:.3f}; with so many data a perfectly calibrated model would show about "
        f"{found.expected:.3f}.",
        figure=reliability_figure(found),
        caption=f"Probabilities {whose}, in bins of width 0.1. Grey bars: where a calibrated model's "
        "points would lie 19 times in 20.",
        table=Table(
            ("predicted", "observed", "test data", "calibrated: from", "to"),
            list(zip(*found[:5], strict=True)),
            (".3f", ".3f", ",.0f", ".3f", ".3f"),
        ),
        alt="Observed frequency against predicted probability, with the numbers of the table below.",
    )


def numbers(given: Predictions) -> Section:
    found = coverage(given)
    rows = [(f"{100 * a:.0f} %", 100 * found.at(a), 100 * found.chance(a)) for a in LEVELS]
    return Section(
        "Predictions",
        f"On {found.ranks.size:,} test data: root mean squared error of the predictive mean "
        f"{cell(found.rmse)}.",
        figure=coverage_figure(found),
        caption="Grey band: where a calibrated model's curve would pass 19 times in 20, at each level.",
        table=Table(("interval", "holds %", "± by chance"), rows, ("", ".1f", ".1f")),
        alt="Coverage of central predictive intervals, with the numbers of the table below.",
    )


def audited(audit: Any) -> Iterator[Section]:
    if audit is None:
        return
    figure = audit_figure(audit)
    figure.suptitle("")  # the verdict is the text
    verdict = audit.verdict[:1].upper() + audit.verdict[1:]
    yield Section(
        "Is variance reduction helping?",
        f"{verdict}\n\nA ratio is gradient noise against injected noise, at one step and at rest (as a "
        "chain of small steps feels it); plain is that of minibatches at the same cost. Inflation is "
        "how much too wide the posterior variances become.",
        figure=figure,
        caption=f"A step costs {cell(audit.cost)} per-datum gradients, refreshes included.",
        table=Table(
            ("block", "parameters", "ratio", "at rest", "plain", "inflation"),
            [tuple(block) for block in audit.blocks],
            ("", ",", *[".3g"] * 3, "+.1%"),
        ),
        alt=f"Posterior variances are too wide by {audit.inflation:.1%}; with plain minibatches by "
        f"{audit.plain_inflation:.1%}, with the full gradient by {audit.full_inflation:.1%}.",
    )
    if audit.options:
        yield Section(
            "Other ways to run",
            "What the same model expects of each.",
            table=Table(
                ("change", "inflation by noise", "inflation", "gradients per step"),
                [tuple(option) for option in audit.options],
                ("", "+.1%", "+.1%", ".4g"),
            ),
        )


def cost(result: Result) -> Section:
    sampler, chains = result.context.sampler, len(result.diverged)
    size, batch = result.settings["data_size"], sampler.batch_size
    step = sampler.cost_per_step(size)
    paired = sampler.estimator.cost(size, batch) == 2 * batch  # a current and an anchor gradient
    saved = result.num_steps * batch if paired else 0
    one = result.evaluations / chains
    rows = [
        ("steps", result.num_steps, chains * result.num_steps),
        ("per-datum gradients", round(one), result.evaluations),
        ("data passes, every gradient counted", one / size, chains * one / size),
        ("data passes, a pair counted once", (one - saved) / size, chains * (one - saved) / size),
        ("seconds", None, result.seconds),
    ]
    text = f"A step costs {cell(step)} per-datum gradients, its share of refreshes included. "
    if paired:
        text += (
            "It needs two gradients of each datum in its minibatch, one here and one at the anchor: "
            f"n1/m + 2 n2. Counted as n1/m + n2, as in the paper, a step costs {cell(step - batch)}. "
        )
    text += "Chains run at once where they can; seconds include compiling."
    return Section("Cost", text, table=Table(("", "one chain", "all chains"), rows))


def settings(result: Result) -> Section:
    rows = [(name.replace("_", " "), setting(value)) for name, value in result.settings.items()]
    if callable(result.settings["step_size"]):
        rows.append(("last step size", cell(result.context.sampler.step_size)))
    return Section("What was run", table=Table(("setting", "value"), rows))


def setting(value: Any) -> str:
    """A setting in a few words, the same in every process."""
    if value is None:
        return "none"
    if callable(value):
        return "a schedule"
    if np.ndim(value) and np.size(value) > 8:
        return f"{np.size(value)} values from {cell(np.min(value))} to {cell(np.max(value))}"
    return cell(value)
