"""Several experiments on one page."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np

from vrsgmcmc.reports import Claim, Report

from .claims import name_readings
from .curves import grade, if_finite
from .methods import PAPER, SGLD
from .settings import Outcome

HARDER = ("mlp-cifar10", "cnn4-cifar10", "resnet20-cifar10")
Rows: TypeAlias = Sequence[Mapping[str, Any]]  # of curves.csv
Curve: TypeAlias = tuple[np.ndarray, np.ndarray]  # cost, loss


def join(title: str, column: str, parts: Mapping[str, Outcome]) -> Outcome:
    """One outcome of several parts; every table gets a column with the name of the part."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for name, part in parts.items():
        for table, rows in part.tables.items():
            tables.setdefault(table, []).extend({column: name, **row} for row in rows)
    return Outcome(
        page(title, {name: part.report for name, part in parts.items()}),
        tables,
        {name: part.record for name, part in parts.items()},
        "\n\n".join(f"{name}\n{part.text}" for name, part in parts.items()),
    )


def wider_gap(curves: Mapping[str, Rows]) -> list[Claim]:
    """The claim that harder networks on CIFAR-10 gain more, at the least of their final costs."""
    names = [n for n in HARDER if {SGLD, PAPER} <= {row["method"] for row in curves.get(n, ())}]
    if len(names) < 2:
        return []
    ladder = {
        label: (level, rows)
        for level, name in enumerate(names)
        for label, rows in by_network(name, curves[name]).items()
    }
    claim = compare_gaps(ladder, "test_nll")
    if any("test_sample_nll" not in row for _, rows in ladder.values() for row in rows):
        return [claim]
    return [name_readings(claim, compare_gaps(ladder, "test_sample_nll"))]


def compare_gaps(ladder: Mapping[str, tuple[int, Rows]], score: str) -> Claim:
    """The claim, of one score; `ladder`: network -> how hard it is, and its curves."""
    conditions, words = [], []
    for axis, label in {"data_passes": "", "paper_passes": " as the paper counts"}.items():
        pairs = {
            n: [curve(rows, m, axis, score) for m in (SGLD, PAPER)]
            for n, (_, rows) in ladder.items()
        }
        until = min(x[-1] for pair in pairs.values() for x, _ in pair)
        gains = {n: gain(until, *pair) for n, pair in pairs.items()}
        for easier, harder in permutations(ladder, 2):
            if ladder[harder][0] == ladder[easier][0] + 1:
                a, b = gains[easier], gains[harder]
                conditions.append(a < b and b > 0 if np.isfinite(a + b) else None)
        listed = ", ".join(f"{n} {if_finite(g, f'{g:+.1%}')}" for n, g in gains.items())
        words.append(f"after {until:.3g} passes{label}: {listed}")
    return Claim(
        "The gap between vrSG-MCMC and SGLD grows with the harder architecture.",
        grade(*conditions),
        f"How much lower the test NLL of vrSG-MCMC is {'; '.join(words)}.",
    )


def by_network(name: str, rows: Rows) -> dict[str, Rows]:
    """The rows of each network of an experiment."""
    norms = dict.fromkeys(row.get("norm") for row in rows)
    labels = {norm: name if norm is None else f"{name}, {norm}" for norm in norms}
    return {label: [r for r in rows if r.get("norm") == norm] for norm, label in labels.items()}


def gain(until: float, theirs: Curve, ours: Curve) -> float:
    """The relative reduction of the loss at a cost."""
    return float(1 - np.interp(until, *ours) / np.interp(until, *theirs))


def curve(rows: Rows, method: str, axis: str, score: str = "test_nll") -> Curve:
    """A score against a cost, the mean over seeds."""
    points = defaultdict(list)
    for row in rows:
        if row["method"] == method:
            points[float(row[axis])].append(float(row[score]))
    return np.array(list(points)), np.array([np.mean(values) for values in points.values()])


def page(title: str, reports: Mapping[str, Report]) -> Report:
    """All sections and all claims, each with the name of its report."""
    return Report(
        title,
        "\n\n".join(
            f"{name}: {paragraph}"
            for name, report in reports.items()
            for paragraph in report.lead.split("\n\n")
        ),
        [
            section._replace(topic=f"{name}, {section.topic}" if section.topic else name)
            for name, report in reports.items()
            for section in report.sections
        ],
        [
            claim._replace(text=f"{name}: {claim.text}")
            for name, report in reports.items()
            for claim in report.claims
        ],
    )
