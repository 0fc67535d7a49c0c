"""What a model of the library says about its table: effects of the columns on the target."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from vrsgmcmc.reports import Answer, Effect, PredictiveCheck
from vrsgmcmc.run import Result

from .problem import Problem

MOST_NUMBERS = 10**8  # draws times parameters of which effects are made
MOST_EFFECTS = 2000  # of an answer, the strongest
MOST_CHECKED = 5000  # rows that are simulated for the predictive check
EFFECTS = ("number", "level", "date", "missing", "interaction", "group level")


def answer_of(problem: Problem, result: Result, findings: Any) -> Answer | None:
    """The effects of the columns; None for networks, own models, and without draws."""
    table = problem.table
    if table is None or table.family.name == "mlp" or result.draws is None or result.diverged.all():
        return None
    if result.draw_steps.size * len(result.diverged) * problem.dimension > MOST_NUMBERS:
        return None
    target, family = table.design.target, table.family
    name, event = target.name, f"{target.name} = {target.labels[-1]}" if target.labels else ""
    questions = {
        "logistic": f"What goes with {event}?",
        "softmax": f"What goes with each class of {name}?",
        "ordinal": f"What goes with a higher {name}?",
    }
    subject = {"logistic": event, "ordinal": f"a higher {name}"}.get(family.name) or name
    effects = list(effects_of(problem, result))
    if len(effects) > MOST_EFFECTS:
        effects = sorted(effects, key=lambda each: -each.certain)[:MOST_EFFECTS]
    *treatment, prior = problem.notes
    if family.name == "ordinal":
        *treatment, prior = (*treatment[:-1], prior, treatment[-1])
    return Answer(
        question=questions.get(family.name, f"What goes with a higher {name}?"),
        target=subject,
        scale=family.ratio or f"difference in {name}",
        effects=effects,
        reference=1.0 if family.ratio else 0.0,
        baseline=findings.page_baseline,
        scores=findings.page_scores,
        treatment=treatment,
        prior=prior.partition(" Prior: ")[2],
    )


def effects_of(problem: Problem, result: Result) -> Iterator[Effect]:
    """An effect for each column and outcome, and for each level of a group."""
    table = problem.table
    ratio = bool(table.family.ratio)
    outside = np.exp if ratio else np.asarray
    columns = iter(table.design.columns)
    for each in table.effects(result):
        if each.kind == "intercept":  # of a further outcome
            columns = iter(table.design.columns)
        if each.kind not in EFFECTS:
            continue
        group, column, unit, step, step_unit = each.outcome, each.name, "", 1.0, ""
        if each.kind == "group level":
            of, _, _ = each.name.partition(": ")
            group = f"(1 | {of})" + f", {each.outcome}" * bool(each.outcome)
            column = each.name
        else:
            design = next(columns)
            column = design.sources[0] if design.sources else each.name
            if each.kind in ("number", "interaction", "date"):
                per = "day" if each.kind == "date" else "unit"
                unit, step = f"per {per}", design.scale
                step_unit = f"per {design.scale:.3g}{' days' * (per == 'day')} (1 sd)"
        own = each.own
        mean = outside(own.mean)
        sd = each.ratio.sd if ratio and each.ratio is not None else own.sd
        ends = [outside(end) for end in (own.low_50, own.high_50, own.low_90, own.high_90)]
        certain = max(each.positive, 1 - each.positive)
        name = each.name.removesuffix(" (per day)")
        yield Effect(
            name, *map(float, (mean, sd, *ends, certain)), unit=unit, group=group, column=column,
            step=step, step_unit=step_unit,
        )  # fmt: skip


def check_of(problem: Problem, result: Result) -> PredictiveCheck | None:
    """Targets that the model simulates for the training rows, beside the targets."""
    table = problem.table
    if table is None or result.draws is None or result.diverged.all():
        return None
    design = some_rows(table.design, MOST_CHECKED)
    target = design.target
    observed = target.center + target.scale * design.y if target.kind == "number" else design.y
    return PredictiveCheck(observed, table.simulate(result, design), target.labels)


def some_rows(design: Any, most: int) -> Any:
    """At most so many rows of a design, evenly spaced."""
    if len(design.y) <= most:
        return design
    index = np.linspace(0, len(design.y) - 1, most).round().astype(int)
    groups = tuple(group._replace(codes=group.codes[index]) for group in design.groups)
    return design._replace(
        x=design.x[index], y=design.y[index], rows=design.rows[index], groups=groups
    )
