"""The report of one run: settings, cost, posterior, predictions and audit."""

import platform
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vrsgmcmc.core import DensityIntegrator
from vrsgmcmc.run import Result, need_model

from .accuracy import Accuracy, accuracy_sections
from .audit import Audit, audit_sections
from .calibration import LEVELS, Predictions, Probabilities, coverage, reliability
from .draws import posterior_sections
from .page import Report, Section, Table, cell
from .pictures import coverage_figure, reliability_figure
from .summary import Names, Summary, summarise

R_HAT, ESS = 1.01, 400  # limits of Vehtari et al. (2021)


def of_result(
    result: Result,
    *,
    title: str = "Report of a run",
    names: Names = None,
    audit: Audit | None = None,
    accuracy: Accuracy | None = None,
    predictive: Probabilities | Predictions | None = None,
    command: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Report:
    """The report of one run.

    - `names`: of the scalars, in the order of the parameters' single leaf; or a dict from leaves to
      names. Without: `w[3]`.
    - `audit`: of `vr.audit(result)`. `accuracy`: another record than `result.record`.
    - `predictive`: predictions for test data.
    - `command`, `facts`: the command of the run, and other facts about it (seeds, data).
    """
    need_model(result, "a report")
    summary = summarise(result, names)
    sections = [
        *divergence_sections(result),
        *accuracy_sections(accuracy or result.record),
        *posterior_sections(result, summary),
    ]
    if isinstance(predictive, Probabilities):
        sections.append(label_section(predictive))
    elif predictive is not None:
        sections.append(number_section(predictive))
    sections += [*audit_sections(audit), cost_section(result), settings_section(result)]
    attributes = result.attributes()
    all_facts = {
        **({} if command is None else {"command": command}),
        **(facts or {}),
        "versions": attributes["versions"],
        "Python": attributes["python"],
        "machine": f"{platform.system()} {platform.machine()}, JAX on {attributes['device']}",
    }
    return Report(title, lead(result, summary, audit), sections, facts=all_facts)


def lead(result: Result, summary: Summary | None, audit: Audit | None) -> str:
    """The first paragraphs of the page."""
    settings, chains = result.settings, len(result.diverged)
    sampler = result.context.sampler
    sentences = [
        f"{chains} chain{'s' if chains > 1 else ''} of {result.num_steps:,} steps with "
        f"{sampler.estimator.name} gradients and {sampler.integrator.name} dynamics on "
        f"{settings['data_size']:,} data."
    ]
    if result.interrupted:
        most = "" if result.decision is None else "at most "
        sentences.append(
            f"The run was interrupted: {most}{settings['num_steps']:,} steps were asked for."
        )
    if result.divergences:
        sentences.append(f"{len(result.divergences)} of the chains became non-finite.")
    sentences.append(convergence(summary) if summary else "There is no summary of draws.")
    text = " ".join(sentences)
    return text if audit is None else f"{text}\n\nAudit: {audit.verdict}"


def convergence(summary: Summary) -> str:
    """The smallest ESS and the largest R-hat in words, and whether they are good enough."""
    ess = np.where(np.isnan(summary.numbers["ess_bulk"]), np.inf, summary.numbers["ess_bulk"])
    r_hat = np.where(np.isnan(summary.numbers["r_hat"]), -np.inf, summary.numbers["r_hat"])
    few, far = int(ess.argmin()), int(r_hat.argmax())
    if not np.isfinite(ess[few]):
        return "The effective number of draws is not known."
    text = f"The smallest effective number of draws is {ess[few]:,.0f} ({summary.names[few]})"
    if np.isfinite(r_hat[far]):
        text += f", the largest R-hat {r_hat[far]:.3f} ({summary.names[far]})"
    if ess[few] >= ESS and r_hat[far] <= R_HAT:
        return f"{text}."
    return f"{text}. Below {ESS} draws or above R-hat {R_HAT}, run longer before relying on it."


def divergence_sections(result: Result) -> Iterator[Section]:
    """The chains that became non-finite, if any did."""
    if result.divergences:
        rows = [(*d[:5], "none" if d.row is None else d.row) for d in result.divergences]
        header = ("chain", "step", "|x| there", "step size", "step size to try", "bad data row")
        yield Section(
            "Chains that became non-finite",
            "They are frozen where they were, and left out of everything below.",
            table=Table(header, rows),
        )


def label_section(predictions: Probabilities) -> Section:
    bins = reliability(predictions)
    whose = "of label 1" if bins.binary else "of the likeliest class"
    total = int(bins.count.sum())
    return Section(
        "Predictions",
        f"On {total:,} test data: negative log-likelihood {cell(bins.nll, '.4f')}, "
        f"accuracy {bins.accuracy:.3f}, Brier score {bins.brier:.4f}. The expected calibration "
        f"error is {bins.ece:.3f}; with so many data a perfectly calibrated model would show about "
        f"{bins.calibrated_ece:.3f}.",
        figure=reliability_figure(bins),
        caption=f"Probabilities {whose}, in bins of width 0.1. Grey bars: where a calibrated model's "
        "points would lie 19 times in 20.",
        table=Table(
            ("predicted", "observed", "test data", "calibrated: from", "to"),
            list(zip(*bins[:5], strict=True)),
            (".3f", ".3f", ",.0f", ".3f", ".3f"),
        ),
        alt="Observed frequency against predicted probability, with the numbers of the table below.",
    )


def number_section(predictions: Predictions) -> Section:
    intervals = coverage(predictions)
    rows = [(f"{100 * a:.0f} %", 100 * intervals.at(a), 100 * intervals.chance(a)) for a in LEVELS]
    return Section(
        "Predictions",
        f"On {intervals.ranks.size:,} test data: root mean squared error of the predictive mean "
        f"{cell(intervals.rmse)}.",
        figure=coverage_figure(intervals),
        caption="Grey band: where a calibrated model's curve would pass 19 times in 20, at each level.",
        table=Table(("interval", "holds %", "± by chance"), rows, ("", ".1f", ".1f")),
        alt="Coverage of central predictive intervals, with the numbers of the table below.",
    )


def cost_section(result: Result) -> Section:
    sampler, chains = result.context.sampler, len(result.diverged)
    size, batch = result.settings["data_size"], sampler.batch_size
    varies = isinstance(sampler.integrator, DensityIntegrator)
    one = result.evaluations / chains
    step = one / result.num_steps if varies else sampler.cost_per_step(size)
    paired = sampler.estimator.cost(size, batch) == 2 * batch  # a current and an anchor gradient
    saved = result.num_steps * batch if paired else 0
    rows = [
        ("steps", result.num_steps, chains * result.num_steps),
        ("per-datum gradients", round(one), result.evaluations),
        ("data passes, every gradient counted", one / size, chains * one / size),
        ("data passes, a pair counted once", (one - saved) / size, chains * (one - saved) / size),
        ("seconds", None, result.seconds),
    ]
    included = "on average, the start included" if varies else "its share of refreshes included"
    text = f"A step costs {cell(step)} per-datum gradients, {included}. "
    if paired:
        text += (
            "It needs two gradients of each datum in its minibatch, one here and one at the anchor: "
            f"n1/m + 2 n2. Counted as n1/m + n2, as in the paper, a step costs {cell(step - batch)}. "
        )
    text += "Chains run at once where they can; seconds include compiling."
    return Section("Cost", text, table=Table(("", "one chain", "all chains"), rows))


def settings_section(result: Result) -> Section:
    settings = result.settings
    rows = [(name.replace("_", " "), describe_setting(settings[name])) for name in settings]
    if callable(settings["step_size"]):
        rows.append(("last step size", cell(result.context.sampler.step_size)))
    return Section("What was run", table=Table(("setting", "value"), rows))


def describe_setting(value: Any) -> str:
    """A setting in a few words, the same in every process."""
    if value is None:
        return "none"
    if callable(value):
        return "a schedule"
    if np.ndim(value) and np.size(value) > 8:
        return f"{np.size(value)} values from {cell(np.min(value))} to {cell(np.max(value))}"
    return cell(value)
