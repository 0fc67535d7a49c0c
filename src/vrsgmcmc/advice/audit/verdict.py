"""The verdict: does it help, by how much, and what to change."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from vrsgmcmc.advice.audit.findings import Finding
from vrsgmcmc.core import Sampler
from vrsgmcmc.core.estimators import practical, saga, svrg

CLEAR = 0.9  # less noise than this times the other's is a gain
QUIET = 0.005  # inflation that nobody would see
SWEEPS = ("shuffled", "symmetric")


class Option(NamedTuple):
    """Another way to run, at its own cost per step."""

    change: str
    noise: float  # inflation due to gradient noise
    inflation: float  # total
    cost: float  # per-datum gradients per step


def changes(sampler: Sampler, size: int) -> Iterator[tuple[str, Sampler]]:
    """Ways to run that differ in one thing."""
    estimator: Any = sampler.estimator
    yield "half the step size", replace(sampler, step_size=sampler.step_size / 2)
    if estimator.name == "practical":
        n1, m = estimator.anchor_size, estimator.period
        if sampler.anchor_order not in SWEEPS:
            yield "anchor_order='shuffled'", replace(sampler, anchor_order="shuffled")
        if 4 * n1 <= size:
            larger = practical(4 * n1, m, estimator.average)
            yield f"anchor_size={4 * n1}", replace(sampler, estimator=larger)
        if m > 1:
            sooner = practical(n1, max(1, m // 2), estimator.average)
            yield f"period={max(1, m // 2)}", replace(sampler, estimator=sooner)
    if estimator.name in ("practical", "minibatch"):
        yield "svrg()", replace(sampler, estimator=svrg())
        yield "saga()", replace(sampler, estimator=saga(), order="without_replacement")
    if estimator.name != "saga" and sampler.order not in SWEEPS:
        yield "order='shuffled'", replace(sampler, order="shuffled")


def judge(
    name: str, own: Finding, other: Finding, cost: float, plain: int, options: list[Option]
) -> tuple[bool, str]:
    """One sentence: does it help, by how much, and what to change.

    Two ways are compared by noise x cost: for small steps noise is proportional to the step size, and
    the work for a given accuracy to cost / step size.
    """
    best = min(options, key=lambda option: option.noise * option.cost)
    worth = best.noise * best.cost < 0.67 * own.noise * cost and own.noise > QUIET
    change = f"change to {best.change} ({best.inflation:.1%} at {best.cost:.3g} gradients a step)"
    advice = "keep it"
    if worth:
        advice = change
    elif own.inflation > 0.2:
        advice = f"take a smaller step size: {own.inflation:.0%} is a lot"
    if not math.isfinite(own.inflation):
        return False, (
            f"no gain: with {name} variances grow without limit at this step size; "
            f"{change if worth else 'take a smaller one'}."
        )
    if name == "full":
        return False, (
            f"no gain: the full gradient has no noise to reduce; its step size alone makes posterior "
            f"variances {own.inflation:.1%} too wide."
        )
    if name == "minibatch":
        return False, (
            f"no gain: plain minibatches reduce nothing, and make posterior variances "
            f"{own.inflation:.1%} too wide; {advice}."
        )
    helps = own.noise < CLEAR * other.noise
    if max(own.noise, other.noise) < QUIET:
        return False, (
            f"no gain: at this step size gradient noise is not seen ({own.noise:.2%} with {name}, "
            f"{other.noise:.2%} with plain minibatches of {plain} at the same cost); take a larger "
            "step size or plain minibatches."
        )
    theirs = f"{other.inflation:.1%}" if math.isfinite(other.inflation) else "without limit"
    return helps, (
        f"{'gain' if helps else 'no gain'}: {name} makes posterior variances {own.inflation:.1%} too "
        f"wide, plain minibatches of {plain} at the same cost {theirs}; {advice}."
    )
