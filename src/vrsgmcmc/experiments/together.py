"""Several experiments on one page."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from vrsgmcmc.experiments import Outcome
from vrsgmcmc.experiments.statements import PAPER, SGLD, graded
from vrsgmcmc.reports import Claim, Report

HARDER = ("mlp-cifar10", "cnn4-cifar10", "resnet20-cifar10")


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


def wider_gap(records: Mapping[str, Mapping[str, Any]]) -> list[Claim]:
    """Does the harder network on CIFAR-10 gain more?"""
    gains = {name: gain(records[name]) for name in HARDER if name in records}
    gains = {name: value for name, value in gains.items() if value is not None}
    if len(gains) < 2:
        return []
    order = list(gains.values())
    rising = [a < b for a, b in pairwise(order)]
    return [
        Claim(
            "The gap between vrSG-MCMC and SGLD grows with the harder architecture.",
            graded(*rising, order[-1] > 0),
            "How much lower the test NLL of vrSG-MCMC is at the end: "
            + ", ".join(f"{name} {value:+.2%}" for name, value in gains.items())
            + ".",
        )
    ]


def gain(record: Mapping[str, Any]) -> float | None:
    """By which part the paper's method ends below SGLD; of several networks, the first one's."""
    networks = [r for r in (record, *record.values()) if isinstance(r, Mapping)]
    final = next(each["final"] for each in networks if "final" in each)
    if not {SGLD, PAPER} <= set(final):
        return None
    theirs, ours = (final[name]["test_nll"][0] for name in (SGLD, PAPER))
    return (theirs - ours) / theirs


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
