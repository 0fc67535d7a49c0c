"""The verdict: does it help, by how much, and what to change."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from vrsgmcmc.core import Sampler
from vrsgmcmc.core.estimators import saga, svrg
from vrsgmcmc.theory.exact import SWEEPS

from .effects import Effect

CLEAR = 0.9  # a gain is less noise than this times that of plain minibatches
QUIET = 0.005  # inflation that is negligible


class Option(NamedTuple):
    """An alternative sampler, at its own cost per step."""

    change: str
    noise: float  # inflation due to gradient noise
    inflation: float  # total
    cost: float  # per-datum gradients per step


def alternatives(sampler: Sampler, size: int) -> Iterator[tuple[str, Sampler]]:
    """Samplers that differ in one setting, each with the name of the change."""
    estimator: Any = sampler.estimator
    yield "half the step size", replace(sampler, step_size=sampler.step_size / 2)
    if estimator.name == "practical":
        n1, m = estimator.anchor_size, estimator.period
        if sampler.anchor_order not in SWEEPS:
            yield "anchor_order='shuffled'", replace(sampler, anchor_order="shuffled")
        if 4 * n1 <= size:
            larger = replace(estimator, anchor_size=4 * n1)
            yield f"anchor_size={4 * n1}", replace(sampler, estimator=larger)
        if m > 1:
            sooner = replace(estimator, period=m // 2)
            yield f"period={m // 2}", replace(sampler, estimator=sooner)
    if estimator.name in ("practical", "minibatch"):
        yield "svrg()", replace(sampler, estimator=svrg())
        yield "saga()", replace(sampler, estimator=saga(), order="without_replacement")
    if estimator.name != "saga" and sampler.order not in SWEEPS:
        yield "order='shuffled'", replace(sampler, order="shuffled")


def judge(
    name: str, own: Effect, cost: float, plain_size: int, options: list[Option]
) -> tuple[bool, str]:
    """Whether it helps, and the verdict: by how much, and what to change.

    The first option is plain minibatches of `plain_size`, which cost the same.

    Samplers are compared by noise x cost: for small steps noise is proportional to the step size, and
    the work for a fixed accuracy to cost / step size.
    """
    plain, minibatches = options[0], f"plain minibatches of {plain_size} at the same cost"
    best = min(options, key=lambda option: option.noise * option.cost)
    worthwhile = best.noise * best.cost < 0.67 * own.noise * cost and own.noise > QUIET
    change = f"change to {best.change} ({best.inflation:.1%} at {best.cost:.3g} gradients a step)"
    advice = "keep it"
    if worthwhile:
        advice = change
    elif own.inflation > 0.2:
        advice = f"take a smaller step size: {own.inflation:.0%} is a lot"
    if not math.isfinite(own.inflation):
        return False, (
            f"no gain: with {name} variances grow without limit at this step size; "
            f"{change if worthwhile else 'take a smaller one'}."
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
    helps = own.noise < CLEAR * plain.noise
    if max(own.noise, plain.noise) < QUIET:
        return False, (
            f"no gain: at this step size gradient noise is not seen ({own.noise:.2%} with {name}, "
            f"{plain.noise:.2%} with {minibatches}); take a larger step size or plain minibatches."
        )
    width = f"{plain.inflation:.1%}" if math.isfinite(plain.inflation) else "without limit"
    return helps, (
        f"{'gain' if helps else 'no gain'}: {name} makes posterior variances {own.inflation:.1%} too "
        f"wide, {minibatches} {width}; {advice}."
    )
