"""Several experiments on one page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np

from vrsgmcmc.experiments.claims import PAPER, SGLD
from vrsgmcmc.experiments.compare import graded, or_unknown
from vrsgmcmc.experiments.settings import Outcome
from vrsgmcmc.reports import Claim, Report

HARDER = ("mlp-cifar10", "cnn4-cifar10", "resnet20-cifar10")
Rows: TypeAlias = Sequence[Mapping[str, Any]]  # of curves.csv
Line: TypeAlias = tuple[np.ndarray, np.ndarray]


def joined(title: str, kind: str, parts: Mapping[str, Outcome]) -> Outcome:
    """One outcome out of some that differ in one thing: its name is a column of every table."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for name, part in parts.items():
        for table, rows in part.tables.items():
            tables.setdefault(table, []).extend({kind: name, **row} for row in rows)
    return Outcome(
        page(title, {name: part.report for name, part in parts.items()}),
        tables,
        {name: part.record for name, part in parts.items()},
        "\n\n".join(f"{name}\n{part.text}" for name, part in parts.items()),
    )


def wider_gap(curves: Mapping[str, Rows]) -> list[Claim]:
    """Does the harder network on CIFAR-10 gain more, after as many passes as all of them made?"""
    known = [n for n in HARDER if {SGLD, PAPER} <= {row["method"] for row in curves.get(n, ())}]
    if len(known) < 2:
        return []
    ladder = {
        label: (level, rows)
        for level, name in enumerate(known)
        for label, rows in by_network(name, curves[name]).items()
    }
    held, words = [], []
    for axis, label in {"data_passes": "", "paper_passes": " as the paper counts"}.items():
        pairs = {
            n: [curve(rows, m, axis) for m in (SGLD, PAPER)] for n, (_, rows) in ladder.items()
        }
        until = min(x[-1] for pair in pairs.values() for x, _ in pair)
        gains = {n: gain(until, *pair) for n, pair in pairs.items()}
        for easier, harder in permutations(ladder, 2):
            if ladder[harder][0] == ladder[easier][0] + 1:
                a, b = gains[easier], gains[harder]
                held.append(a < b and b > 0 if np.isfinite(a + b) else None)
        told = (f"{n} {or_unknown(g, f'{g:+.1%}')}" for n, g in gains.items())
        words.append(f"after {until:.3g} passes{label}: {', '.join(told)}")
    return [
        Claim(
            "The gap between vrSG-MCMC and SGLD grows with the harder architecture.",
            graded(*held),
            f"How much lower the test NLL of vrSG-MCMC is {'; '.join(words)}.",
        )
    ]


def by_network(name: str, rows: Rows) -> dict[str, Rows]:
    """The rows of each network of an experiment."""
    norms = dict.fromkeys(row.get("norm") for row in rows)
    return {
        name if norm is None else f"{name}, {norm}": [
            row for row in rows if row.get("norm") == norm
        ]
        for norm in norms
    }


def gain(until: float, theirs: Line, ours: Line) -> float:
    """How much lower our loss is, after so many passes."""
    return float(1 - np.interp(until, *ours) / np.interp(until, *theirs))


def curve(rows: Rows, method: str, axis: str) -> Line:
    """Test NLL against a cost, the mean over seeds."""
    points = defaultdict(list)
    for row in rows:
        if row["method"] == method:
            points[float(row[axis])].append(float(row["test_nll"]))
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
