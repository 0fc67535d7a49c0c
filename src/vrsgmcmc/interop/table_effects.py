"""What the columns of a table do to its target: effects in standardised and in the columns' own units.

With design values (value - center) / scale and a target y_center + y_scale * (design target),

    own weight = y_scale * weight / scale,
    own intercept = y_center + y_scale * (intercept - sum_j weight_j center_j / scale_j),

and exp(weight / scale) is the ratio of odds or rates for one more unit of the column.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vrsgmcmc.datasets.tables import Column, Design
from vrsgmcmc.models.table import Family

if TYPE_CHECKING:
    import pandas

QUANTILES = {"low_90": 0.05, "low_50": 0.25, "median": 0.5, "high_50": 0.75, "high_90": 0.95}
MOST_LINES = 60  # of a printed table


class Moments(NamedTuple):
    """Mean, sd, and the ends of the central 50 and 90 % intervals of a quantity."""

    mean: float
    sd: float
    low_90: float
    low_50: float
    median: float
    high_50: float
    high_90: float


class Effect(NamedTuple):
    """One quantity of a model: what the target does for one unit more of a column, and the like."""

    name: str  # "carat", "cut: Ideal instead of Fair", "noise sd"
    kind: str  # "intercept", "cut point", a column's kind, "noise", "group sd" or "group level"
    outcome: str  # of several classes: "Gentoo instead of Adelie"
    standardised: Moments  # for one sd more of a number, on the scale of the linear predictor
    own: Moments  # for one unit more of the column, in the target's units
    ratio: Moments | None  # of odds or rates, for one unit more
    positive: float  # the probability that it is above 0


@dataclass(frozen=True)
class Effects:
    """The effects of a result: a sequence of `Effect`, a text table, or a frame of pandas."""

    rows: tuple[Effect, ...]
    title: str
    ratio: str  # "odds ratio", "rate ratio" or ""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.rows)

    def __getitem__(self, key: int | str | tuple[str, str]) -> Effect:
        """By number, by name, or by name and outcome."""
        if isinstance(key, int):
            return self.rows[key]
        name, outcome = (key, None) if isinstance(key, str) else key
        hits = [r for r in self.rows if r.name == name and outcome in (None, r.outcome)]
        if len(hits) != 1:
            some = f"{len(hits)} outcomes: {', '.join(repr(r.outcome) for r in hits)}"
            names = ", ".join(dict.fromkeys(r.name for r in self.rows[:20]))
            raise KeyError(f"effect {key!r}: {some if hits else f'there are {names}'}.")
        return hits[0]

    def to_pandas(self) -> "pandas.DataFrame":
        """One row per effect; moments of the standardised scale and of ratios have prefixes."""
        import pandas

        records = []
        for row in self.rows:
            scales = {"": row.own, "standardised_": row.standardised}
            if self.ratio:
                nothing = Moments(*[np.nan] * len(Moments._fields))
                scales["ratio_"] = row.ratio or nothing
            values = {
                f"{p}{field}": v for p, m in scales.items() for field, v in m._asdict().items()
            }
            head = {"name": row.name, "outcome": row.outcome, "kind": row.kind}
            records.append({**head, **values, "positive": row.positive})
        return pandas.DataFrame(records)

    def __str__(self) -> str:
        header = ["", "mean", "sd", "90 % interval", "P(> 0)"]
        header += [self.ratio, "90 % interval"] if self.ratio else []
        lines = [header, *(text_of(row, bool(self.ratio)) for row in self.rows[:MOST_LINES])]
        widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
        text = [
            "  ".join(
                [line[0].ljust(widths[0])]
                + [cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True)]
            ).rstrip()
            for line in lines
        ]
        if len(self.rows) > MOST_LINES:
            text.append(f"... and {len(self.rows) - MOST_LINES} more: see .rows or .to_pandas()")
        return "\n".join([self.title, *text])


def text_of(row: Effect, ratio: bool) -> list[str]:
    """The cells of a line."""

    def cells(moments: Moments) -> str:
        return f"{plain(moments.low_90)} to {plain(moments.high_90)}"

    name = f"{row.name} ({row.outcome})" if row.outcome else row.name
    line = [name, plain(row.own.mean), plain(row.own.sd, 2), cells(row.own), f"{row.positive:.0%}"]
    if ratio:
        line += [plain(row.ratio.mean), cells(row.ratio)] if row.ratio else ["", ""]
    return line


def plain(value: float, digits: int = 3) -> str:
    """A number with so many digits, without an exponent where it is readable."""
    if not 1e-3 <= abs(value) < 1e7:
        return f"{value:.{digits}g}"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def effects(family: Family, design: Design, draws: Mapping[str, Any]) -> Effects:
    """The effects of draws with leaves [draw, ...]."""
    target, width = design.target, family.width
    number = target.kind == "number"
    center, unit = (target.center, target.scale) if number else (0.0, 1.0)
    rows: list[Effect] = []

    def add(name: str, kind: str, outcome: str, values: Any, own: Any, ratio: Any = None) -> None:
        moments = (moments_of(values), moments_of(own))
        quotient = None if ratio is None or not family.ratio else moments_of(np.exp(ratio))
        rows.append(Effect(name, kind, outcome, *moments, quotient, float(np.mean(own > 0))))

    intercept = flat(draws["intercept"], width)  # [draw, 1, width]
    weights = flat(draws["weights"], width) if "weights" in draws else intercept[:, :0]
    scales = np.array([column.scale for column in design.columns])[:, None]
    centers = np.array([column.center for column in design.columns])[:, None]
    with np.errstate(over="ignore"):
        slopes = weights / scales
        shift = np.sum(slopes * centers, 1)
        for k, outcome in enumerate(outcomes(family, target.labels)):
            if family.name == "ordinal":
                steps = np.cumsum(np.exp(np.asarray(draws["log_gaps"], np.float64)), -1)
                steps = np.concatenate([np.zeros_like(steps[:, :1]), steps], 1)
                for below, above, step in zip(
                    target.labels[:-1], target.labels[1:], steps.T, strict=True
                ):
                    cut = step - intercept[:, 0, 0]
                    add(f"{below} | {above}", "cut point", "", cut, cut + shift[:, 0])
            else:
                own = center + unit * (intercept[:, 0, k] - shift[:, k])
                add("intercept", "intercept", outcome, intercept[:, 0, k], own)
            for j, column in enumerate(design.columns):
                slope = unit * slopes[:, j, k]
                add(label_of(column), column.kind, outcome, weights[:, j, k], slope, slope)
        for name, label in (
            ("log_sd", "noise sd"),
            ("log_scale", "noise scale"),
            ("log_dispersion", "dispersion"),
        ):
            if name in draws:
                value = np.exp(np.asarray(draws[name], np.float64))
                add(label, "noise", "", value, unit * value)
        for group in design.groups:
            parts = draws["groups"][group.name]
            sd = np.exp(flat(parts["log_sd"], width))
            levels = sd * flat(parts["levels"], width)
            for k, outcome in enumerate(outcomes(family, target.labels)):
                name = f"sd of (1 | {group.name})"
                add(name, "group sd", outcome, sd[:, 0, k], unit * sd[:, 0, k])
                for level, values in zip(group.levels, levels[:, :, k].T, strict=True):
                    name, own = f"{group.name}: {level}", unit * values
                    add(name, "group level", outcome, values, own, own)
    return Effects(tuple(rows), title_of(family, design), family.ratio)


def flat(leaf: Any, width: int) -> Float[np.ndarray, "draw j k"]:
    values = np.asarray(leaf, np.float64)
    return values.reshape(len(values), -1, width)


def moments_of(values: np.ndarray) -> Moments:
    ends = dict(zip(QUANTILES, np.quantile(values, list(QUANTILES.values())), strict=True))
    with np.errstate(all="ignore"):
        mean, sd = np.mean(values), np.std(values, ddof=1)
    return Moments(float(mean), float(sd), **{name: float(end) for name, end in ends.items()})


def outcomes(family: Family, labels: Sequence[str]) -> tuple[str, ...]:
    """Of softmax: each class against the first; else there is nothing to tell apart."""
    if family.name != "softmax":
        return ("",)
    return tuple(f"{label} instead of {labels[0]}" for label in labels[1:])


def label_of(column: Column) -> str:
    """What a column is called in words."""
    if column.kind == "level" and column.sources:
        instead = f" instead of {column.reference}" if column.reference else ""
        return f"{column.sources[0]}: {column.level}{instead}"
    if column.kind == "missing" and column.sources:
        return f"{column.sources[0]}: missing"
    if column.kind == "date":
        return f"{column.name} (per day)"
    return column.name


def title_of(family: Family, design: Design) -> str:
    """What the numbers are, as a sentence."""
    target = design.target
    what = {
        "number": f"Change of {target.name}",
        "count": f"Change of the logarithm of the mean of {target.name}",
        "classes": f"Change of the log odds of {target.name}",
    }[target.kind]
    if family.name == "logistic":
        what += f" = {target.labels[1]}"
    if family.name == "ordinal":
        what += " to be higher"
    return f"{what} for one unit more of a column, in the column's own units:"
