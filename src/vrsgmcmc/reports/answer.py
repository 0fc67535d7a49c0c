"""The answer of a model to its question: effects, in words and as sections of a page.

An effect is a difference, or a ratio where the model is one of odds or rates. Its direction is clear
when the posterior probability of its sign is at least 95 %. Effects of columns in different units are
compared at `step` units, which is one standard deviation of the column:

    difference -> step difference,          ratio -> ratio^step.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .forest import Line, forest
from .page import Section, Table, cell, join_words

CLEAR = 0.95  # probability of a sign
FEW, FEW_OF_GROUP = 5, 3  # effects in words: of all, and of each group where there are several
MOST_GROUPS = 8  # of which words are made
MOST_DRAWN = 20  # effects in the forest plot


class Effect(NamedTuple):
    """One line of the forest plot; numbers are for one `unit`, on the answer's `scale`."""

    name: str  # "age", "cut: Ideal instead of Fair"
    mean: float
    sd: float
    low_50: float
    high_50: float
    low_90: float
    high_90: float
    certain: float  # probability that the effect has the direction of its mean
    unit: str = ""  # "per 1 year"
    group: str = ""  # the class that it belongs to, or "(1 | g)"
    column: str = ""  # of the table, where several effects are of one column
    step: float = 1.0  # the units of `step_unit`
    step_unit: str = ""  # "per 11.8 years (1 sd)"

    @classmethod
    def of_draws(
        cls, name: str, draws: Float[np.ndarray, " draw"], *, ratio: bool = False, **fields
    ) -> "Effect":
        """The effect with these draws; `ratio`: they are logarithms, and the mean is geometric."""
        draws = np.asarray(draws, np.float64).ravel()
        outside = np.exp if ratio else np.asarray
        limits = outside(np.quantile(draws, (0.25, 0.75, 0.05, 0.95)))
        mean, sd = outside(draws.mean()), outside(draws).std()
        certain = max(np.mean(draws > 0), np.mean(draws < 0))
        numbers: Any = map(float, (mean, sd, *limits, certain))
        return cls(name, *numbers, **fields)


class Answer(NamedTuple):
    """What a model of a table says about its target."""

    question: str  # "What goes with a higher price?"
    target: str  # "price", "diabetes = yes"
    scale: str  # "odds ratio", "rate ratio", "difference in price"
    effects: Sequence[Effect]
    reference: float = 0.0  # no effect: 1 for ratios, 0 for differences
    baseline: Mapping[str, float] = {}  # scores of the prediction that uses no column
    scores: Mapping[str, float] = {}  # of the model, for the same test rows
    treatment: Sequence[str] = ()  # what was done to the table
    prior: str = ""

    @property
    def ratio(self) -> bool:
        return self.reference == 1

    @property
    def noun(self) -> str:
        """What becomes higher or lower."""
        if self.ratio:
            noun = self.scale.removesuffix(" ratio")
            return noun if self.grouped else f"{noun} of {self.target}"
        return self.scale.removeprefix("difference in ")

    @property
    def grouped(self) -> bool:
        return len({effect.group for effect in self.effects}) > 1

    def groups(self) -> list[tuple[str, list[Effect]]]:
        """The effects of each group, the strongest first."""
        names = list(dict.fromkeys(effect.group for effect in self.effects))
        ordered = sorted(self.effects, key=lambda each: names.index(each.group))
        return [
            (name, sorted(group, key=self.size, reverse=True))
            for name, group in groupby(ordered, lambda each: each.group)
        ]

    def at_step(self, effect: Effect, value: float) -> float:
        """A number of an effect, for its step in place of one unit."""
        return value**effect.step if self.ratio else value * effect.step

    def size(self, effect: Effect) -> float:
        """How strong an effect is, at its step; 0 for one that is not finite."""
        value = self.at_step(effect, effect.mean)
        value = abs(math.log(value)) if self.ratio and value > 0 else abs(value)
        return value if math.isfinite(value) else 0.0

    def rises(self, effect: Effect) -> bool:
        return effect.mean > self.reference


def is_clear(effect: Effect) -> bool:
    return effect.certain >= CLEAR


def headline(effects: Sequence[Effect], few: int) -> list[Effect]:
    """The clear effects that words are about: the strongest of each column."""
    first: dict[str, Effect] = {}
    for effect in filter(is_clear, effects):
        first.setdefault(effect.column or effect.name, effect)
    return list(first.values())[:few]


def summarise_answer(answer: Answer) -> str:
    """The first sentences of a page: what goes with more, what with less, and what is not clear."""
    sentences = []
    for name, effects in answer.groups()[:MOST_GROUPS]:
        clear = headline(effects, FEW_OF_GROUP if answer.grouped else FEW)
        up, down = ([e.name for e in clear if answer.rises(e) == way] for way in (True, False))
        go = "go" if answer.noun.startswith("odds") else "goes"
        parts = [
            f"{way} {answer.noun} {go} with {join_words(names)}"
            for way, names in (("higher", up), ("lower", down))
            if names
        ]
        text = "; ".join(parts) or f"no effect on the {answer.noun} has a clear direction"
        text = f"{name}: {text}" if name else text[:1].upper() + text[1:]
        sentences.append(f"{text}.")
    total, clear = len(answer.effects), sum(map(is_clear, answer.effects))
    if total and clear < total:
        sentences.append(f"The direction is clear for {clear} of {total:,} effects.")
    return " ".join(sentences)


def describe_effect(answer: Answer, effect: Effect) -> str:
    """One effect in words, with its interval: "age, per 1 year: 3 % higher odds (...)"."""
    mean, low, high = (
        answer.at_step(effect, value) for value in (effect.mean, effect.low_90, effect.high_90)
    )
    unit = effect.step_unit or effect.unit
    label = f"{effect.name}, {unit}" if unit else effect.name
    way = "higher" if mean > answer.reference else "lower"
    if not answer.ratio:
        size = f"{answer.noun} {way} by {number(abs(mean))}"
        return f"{label}: {size} (90 % interval {number(low)} to {number(high)})."
    noun, interval = answer.scale.removesuffix(" ratio"), f"{number(low)} to {number(high)}"
    if mean >= 2:
        size = f"{number(mean)} times the {noun}"
    elif mean <= 0.5:
        size = f"the {noun} divided by {number(1 / mean) if mean else '∞'}"
    else:
        size = f"{100 * abs(mean - 1):.2g} % {way} {noun}"
    return f"{label}: {size} ({answer.scale} {number(mean)}, 90 % interval {interval})."


def number(value: float) -> str:
    """Three digits; all digits of a large whole number."""
    return cell(float(value), ",.0f" if 1e3 <= abs(value) < 1e7 else ".3g")


def answer_section(answer: Answer) -> Section:
    """The effects in words, as a forest plot, and all of them in a table."""
    groups = answer.groups()
    few = FEW_OF_GROUP if answer.grouped else FEW
    points, unclear = [], []
    for name, effects in groups:
        if len(points) < FEW * MOST_GROUPS:
            words = [describe_effect(answer, effect) for effect in headline(effects, few)]
            points += [f"{name}: {text}" if name else text for text in words]
        unclear += [
            f"{effect.name} ({name})" if name else effect.name
            for effect in effects
            if not is_clear(effect)
        ]
    if unclear:
        more = f" and {len(unclear) - 2 * FEW} more" if len(unclear) > 2 * FEW else ""
        listed = ", ".join(unclear[: 2 * FEW])
        points.append(
            f"No clear direction (less than {100 * CLEAR:.0f} % certain): {listed}{more}."
        )
    drawn = sorted(answer.effects, key=answer.size, reverse=True)[:MOST_DRAWN]
    panels = [
        (name, [line(answer, effect) for effect in effects if effect in drawn])
        for name, effects in groups
    ]
    which = f"The {len(drawn)} strongest of {len(answer.effects):,} effects. " * (
        len(drawn) < len(answer.effects)
    )
    return Section(
        answer.question,
        "An effect compares rows that differ in one column and agree in the others. It tells what goes "
        "with what in these data, not what causes what.",
        figure=partial(
            forest,
            [panel for panel in panels if panel[1]],
            label=answer.scale,
            reference=answer.reference,
        ),
        caption=f"{which}Dot: mean; thick line: 50 % interval; thin line: 90 % interval. Pale: the "
        "direction is not clear.",
        alt=f"Forest plot of the {answer.scale} of {len(drawn)} effects; the table below has the "
        "numbers.",
        points=points,
        more=[(f"All {len(answer.effects):,} effects", effect_table(answer))],
    )


def line(answer: Answer, effect: Effect) -> Line:
    """An effect as it is drawn, at its step."""
    numbers = (effect.mean, *effect[3:7])
    mean, low_50, high_50, low_90, high_90 = (answer.at_step(effect, each) for each in numbers)
    unit, clear = effect.step_unit or effect.unit, is_clear(effect)
    return Line(effect.name, unit, mean, low_50, high_50, low_90, high_90, clear)


def effect_table(answer: Answer) -> Table:
    """All effects, for one unit."""
    header = ["effect", "unit", "mean", "sd", "50 % from", "to", "90 % from", "to", "certain"]
    rows = [
        [
            each.name,
            each.unit or None,
            *map(number, (each.mean, each.sd, *each[3:7])),
            f"{each.certain:.1%}",
        ]
        for _, group in answer.groups()
        for each in group
    ]
    if answer.grouped:
        header.insert(0, "group")
        names = [name for name, group in answer.groups() for _ in group]
        rows = [[name, *row] for name, row in zip(names, rows, strict=True)]
    return Table(header, rows)
