"""Is variance reduction helping this run?

A step injects noise of a known strength, 2 h T per parameter for SGLD, and the error of the gradient
estimate adds h^2 V to it. `audit` measures V where the chain is and says what it does to the answer:

    noise ratio     gradient noise against injected noise: h V/(2T), with a friction f h V/(2 f T)
    at rest         the same at zero frequency, which is what a chain of small steps feels: an
                    anchor's error is the same for m steps and counts m times; a sweep's errors cancel
    inflation       how much too wide the posterior variances become, the full gradient's own share
                    (the step size) included

beside the same for plain minibatches at the same cost per step. Up to `theory.local.LARGEST`
parameters, inflation comes from the local Gaussian model (`theory/predict.py`); for larger models, and
for sgnht, it is the ratio at rest, its limit for small steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.advice.audit.findings import KNOWN, MOST_ROWS, measured, predicted
from vrsgmcmc.advice.audit.verdict import Option, changes, judge
from vrsgmcmc.core import (
    ORDERS,
    Params,
    Posterior,
    Sampler,
    State,
    check_pair,
    check_sizes,
    named_leaves,
    one_of,
    positive,
    whole,
)
from vrsgmcmc.core.estimators import minibatch
from vrsgmcmc.run import Context, Result, as_data
from vrsgmcmc.theory import LARGEST, local


class Block(NamedTuple):
    """One leaf of the parameters."""

    name: str
    parameters: int
    ratio: float  # gradient noise against injected noise, at one step
    at_rest: float  # the same at zero frequency
    plain: float  # at zero frequency, for plain minibatches at the same cost
    inflation: float


@dataclass(frozen=True)
class Audit:
    """What gradient noise does to a run."""

    estimator: str
    helps: bool
    verdict: str
    inflation: float  # mean over parameters; 0.1: variances are 10 % too wide
    plain_inflation: float  # plain minibatches at the same cost per step
    full_inflation: float  # the full gradient at the same step size
    drift: float  # spread of alpha_i - beta_i against that of alpha_i: 0 at the anchor
    cost: float  # per-datum gradients per step, refreshes included
    plain_batch_size: int
    blocks: tuple[Block, ...]
    options: tuple[Option, ...]
    variances: Any  # predicted, like the parameters; None for large models
    evaluations: int  # what the audit itself cost

    def __str__(self) -> str:
        rows = [("block", "parameters", "ratio", "at rest", "plain", "inflation")]
        rows += [
            (
                b.name,
                str(b.parameters),
                *(f"{v:.3g}" for v in (b.ratio, b.at_rest, b.plain, b.inflation)),
            )
            for b in self.blocks
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join([self.verdict, "", *table])

    def plot(self, path: Any = None) -> Any:
        """Inflation of this run, of plain minibatches and of the full gradient; noise by block."""
        from vrsgmcmc.reports import audit_figure

        return audit_figure(self, path)


def audit(
    source: Result | Posterior,
    data: Any = None,
    state: State | None = None,
    *,
    estimator: Any = None,
    integrator: Any = None,
    step_size: float | None = None,
    batch_size: int = 10,
    order: str = "without_replacement",
    anchor_order: str = "without_replacement",
) -> Audit:
    """Audit a result, or a state of a chain: `audit(posterior, data, state, estimator=..., ...)`.

    A state is `result.state`, or one that you made with `vr.kernel`. The centre of the local model is
    the mean of the draws where there are any, else the mean position of the chains.
    """
    if isinstance(source, Result):
        if data is not None or state is not None:
            raise TypeError(
                "audit(result) takes nothing else: a result knows its data and settings."
            )
        context, state, points = of_result(source)
    else:
        if state is None or estimator is None or integrator is None or step_size is None:
            raise TypeError(
                "audit(posterior, data, state, estimator=..., integrator=..., step_size=...) needs all "
                "of these; or pass a result alone."
            )
        if not isinstance(state, State):
            raise TypeError(f"state must be a vr.State, got {type(state).__name__}.")
        check_pair(source, estimator, integrator)
        for name, value in (("order", order), ("anchor_order", anchor_order)):
            one_of("audit", name, value, ORDERS)
        data, size = as_data(data)
        batch_size = whole("audit", "batch_size", batch_size)
        check_sizes("audit", estimator, size, batch_size)
        step_size = positive("audit", "step_size", step_size)
        sampler = Sampler(estimator, integrator, step_size, batch_size, order, anchor_order)
        context = Context(source, data, sampler)
        if not jnp.ndim(state.step):
            state = State(*jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], tuple(state)))
        points = state.position
    center = jax.tree.map(lambda leaf: jnp.mean(jnp.asarray(leaf), 0).astype(leaf.dtype), points)
    if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(center)):
        raise ValueError("audit: the position is not finite; audit a run that stayed finite.")
    return _audit(context, state, center)


def of_result(result: Result) -> tuple[Context, State, Params]:
    """The chains that stayed finite: settings, states, and points whose mean is the centre."""
    if result.diverged.all():
        raise ValueError(f"every chain became non-finite. {result.divergences[0]}")
    alive = np.flatnonzero(~result.diverged)
    state = jax.tree.map(lambda leaf: leaf[alive], result.state)
    if result.draws is None:
        return result.context, state, state.position
    points = jax.tree.map(lambda leaf: leaf[alive].reshape(-1, *leaf.shape[2:]), result.draws)
    return result.context, state, points


def _audit(context: Context, state: State, center: Params) -> Audit:
    size = jax.tree.leaves(context.data)[0].shape[0]
    cost = context.sampler.cost_per_step(size)
    plain_size = int(np.clip(round(cost), 1, size))
    plain = replace(context.sampler, estimator=minibatch(), batch_size=plain_size)
    others = context._replace(sampler=plain)
    dimension = sum(leaf.size for leaf in jax.tree.leaves(center))
    model = None
    if dimension <= LARGEST and context.sampler.integrator.name in KNOWN:
        model = local(context.posterior, context.data, center, rows=MOST_ROWS)
        own, other = predicted(model, context.sampler, center), predicted(model, plain, center)
    else:
        own, other = measured(context, state, center), measured(others, state, center)
    options = [Option("plain minibatches", other.noise, other.inflation, plain_size)]
    if model is not None:
        for change, sampler in changes(context.sampler, size):
            there = predicted(model, sampler, center)
            options.append(
                Option(change, there.noise, there.inflation, sampler.cost_per_step(size))
            )
    blocks = tuple(
        Block(name, leaf.size, *own.blocks[name][:2], other.blocks[name][1], own.blocks[name][2])
        for name, leaf in named_leaves(center)
    )
    helps, verdict = judge(context.sampler.estimator.name, own, other, cost, plain_size, options)
    if context.sampler.integrator.name == "sgnht":
        verdict += " That is at most: the thermostat takes up noise as it adapts."
    return Audit(
        estimator=context.sampler.estimator.name,
        helps=helps,
        verdict=verdict,
        inflation=own.inflation,
        plain_inflation=other.inflation,
        full_inflation=own.full,
        drift=own.drift,
        cost=cost,
        plain_batch_size=plain_size,
        blocks=blocks,
        options=tuple(options),
        variances=own.variances,
        evaluations=own.evaluations + other.evaluations if model is None else model.evaluations,
    )
