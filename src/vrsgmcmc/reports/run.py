"""The report of one run: the answer, how sure it is, predictions, diagnostics, audit and cost."""

import platform
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vrsgmcmc.core import DensityIntegrator, tree
from vrsgmcmc.run import Result

from .accuracy import Accuracy, accuracy_sections, describe_accuracy, name_parameters
from .answer import Answer, answer_section, summarise_answer
from .audit import Audit, audit_sections
from .calibration import Predictions, Probabilities
from .check import PredictiveCheck, check_section
from .draws import convergence, estimate_sections, posterior_sections
from .page import Report, Section, Table, cell
from .predictive import predictive_sections
from .summary import Names, Summary, summarise

LONGEST = 160  # letters of a setting: a metric prints its whole matrix


def of_result(
    result: Result,
    *,
    title: str = "Report of a run",
    names: Names = None,
    audit: Audit | None = None,
    accuracy: Accuracy | None = None,
    predictive: Probabilities | Predictions | None = None,
    answer: Answer | None = None,
    check: PredictiveCheck | None = None,
    scores: Mapping[str, float] | None = None,
    command: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Report:
    """The report of one run: what it says, how sure that is, predictions, and then the sampler.

    - `names`: of the scalars, in the order of the parameters' single leaf; or a dict from leaves to
      names. Without: `w[3]`.
    - `audit`: of `vr.audit(result)`. `accuracy`: another record than `result.record`.
    - `predictive`: predictions for test data. `scores`: more scores of the model for them.
    - `answer`: the effects of a model of a table. Without: the page begins with the parameters.
    - `check`: data that the model simulates, beside the data.
    - `command`, `facts`: the command of the run, and other facts about it (seeds, data).
    """
    summary = summarise(result, names)
    accuracy = name_parameters(accuracy or result.record, result.draws, names)
    own, baseline = (answer.scores, answer.baseline) if answer else ({}, {})
    estimates = list(estimate_sections(result, names, open_table=answer is None))
    sections = [
        *divergence_sections(result),
        *(estimates if answer is None else [answer_section(answer)]),
        *accuracy_sections(accuracy),
        *predictive_sections(predictive, {**(scores or {}), **own}, baseline),
        *([] if check is None else [check_section(check)]),
        *posterior_sections(result, summary),
        *([] if answer is None else estimates),
        *audit_sections(audit),
        *([] if answer is None else treatment_sections(answer)),
        cost_section(result),
        settings_section(result),
    ]
    attributes = result.attributes()
    all_facts = {
        **({} if command is None else {"command": command}),
        **(facts or {}),
        "versions": attributes["versions"],
        "Python": attributes["python"],
        "machine": f"{platform.system()} {platform.machine()}, JAX on {attributes['device']}",
    }
    text = lead(result, summary, accuracy, answer)
    if accuracy is None and audit is not None:
        text += f"\n\nAudit: {audit.verdict}"
    return Report(title, text, sections, facts=all_facts)


def lead(
    result: Result, summary: Summary | None, accuracy: Accuracy | None, answer: Answer | None
) -> str:
    """The first paragraphs of the page: the answer, and how sure it is."""
    sentences = []
    if result.interrupted:
        most = "" if result.decision is None else "at most "
        sentences.append(
            f"The run was interrupted: {most}{result.settings['num_steps']:,} steps were asked for."
        )
    if result.divergences:
        sentences.append(
            f"{len(result.divergences)} of {len(result.diverged)} chains became non-finite."
        )
    if accuracy is not None:
        sentences.append(describe_accuracy(accuracy))
    else:
        sentences.append(convergence(summary) if summary else "There is no summary of draws.")
    text = summarise_answer(answer) if answer else describe_size(result)
    return f"{text}\n\n{' '.join(sentences)}"


def describe_size(result: Result) -> str:
    """How many parameters, from how many data, and how."""
    sampler, chains = result.context.sampler, len(result.diverged)
    count = tree.size(result.state.position) // chains
    return (
        f"{count:,} parameter{'s' * (count != 1)} from {result.settings['data_size']:,} data: "
        f"{chains} chain{'s' * (chains > 1)} of {result.num_steps:,} steps with "
        f"{sampler.estimator.name} gradients and {sampler.integrator.name} dynamics."
    )


def treatment_sections(answer: Answer) -> Iterator[Section]:
    """What was done to the table, and what was assumed."""
    if answer.treatment or answer.prior:
        text = f"Prior: {answer.prior}" if answer.prior else ""
        yield Section("From the table to the model", text, points=answer.treatment)


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
    text = cell(value)
    return text if len(text) <= LONGEST else f"{type(value).__name__}: {text[:LONGEST]} …"
