"""Several experiments on one page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from vrsgmcmc.experiments import Outcome
from vrsgmcmc.experiments.compare import graded
from vrsgmcmc.experiments.statements import PAPER, SGLD
from vrsgmcmc.reports import Claim, Report

HARDER = ("mlp-cifar10", "cnn4-cifar10", "resnet20-cifar10")
Rows: TypeAlias = Sequence[Mapping[str, Any]]  # of curves.csv


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
    held, words = [], []
    for axis, label in {"data_passes": "", "paper_passes": " as the paper counts"}.items():
        pairs = {n: [curve(curves[n], method, axis) for method in (SGLD, PAPER)] for n in known}
        until = min(x[-1] for pair in pairs.values() for x, _ in pair)
        losses = {n: [np.interp(until, x, y) for x, y in pair] for n, pair in pairs.items()}
        gains = {n: 1 - ours / theirs for n, (theirs, ours) in losses.items()}
        known_gains = np.isfinite(list(gains.values())).all()
        held += [a < b and b > 0 if known_gains else None for a, b in pairwise(gains.values())]
        listed = ", ".join(f"{name} {gain:+.1%}" for name, gain in gains.items())
        words.append(f"after {until:.3g} passes{label}: {listed}")
    return [
        Claim(
            "The gap between vrSG-MCMC and SGLD grows with the harder architecture.",
            graded(*held),
            f"How much lower the test NLL of vrSG-MCMC is {'; '.join(words)}.",
        )
    ]


def curve(rows: Rows, method: str, axis: str) -> tuple[np.ndarray, np.ndarray]:
    """Test NLL against a cost, the mean over seeds; of several networks, the first one's."""
    points = defaultdict(list)
    for row in rows:
        if row["method"] == method and row.get("norm") == rows[0].get("norm"):
            points[float(row[axis])].append(float(row["test_nll"]))
    return np.array(list(points)), np.array([np.mean(values) for values in points.values()])


def page(title: str, reports: Mapping[str, Report]) -> Report:
    """All sections and all claims, each with the name of its report."""
    return Report(
        title,
        "\n\n".join(f"{name}: {report.lead}" for name, report in reports.items()),
        [
            section._replace(title=f"{name}: {section.title}")
            for name, report in reports.items()
            for section in report.sections
        ],
        [
            claim._replace(text=f"{name}: {claim.text}")
            for name, report in reports.items()
            for claim in report.claims
        ],
    )
