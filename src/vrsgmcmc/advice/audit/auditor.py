"""Is variance reduction helping this run?

A step injects noise of variance 2 h T per parameter (SGLD), and the error of the gradient estimate adds
h^2 V to it. `audit` measures V at a handful of draws (without draws at the centre) and computes

    noise ratio     gradient noise over injected noise: h V/(2T), with a friction f h V/(2 f T)
    at rest         the same at zero frequency, which determines the effect of small steps: an anchor's
                    error stays for m steps and counts m times; the errors of a sweep cancel
    inflation       how much too wide the posterior variances become, including the share of the step
                    size, which the full gradient has, too

and the same for plain minibatches at the same cost per step. Up to `theory.LARGEST` parameters,
inflation comes from the local Gaussian model (`theory/forecast/forecast.py`). For larger models, and
for sgnht, it is the ratio at rest, its limit for small steps. Where there is a local model, the draws
are compared with it (`evidence.py`): a chain that is elsewhere gets no advice but this.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core
from vrsgmcmc.core import Estimator, Integrator, Params, Posterior, Sampler, State
from vrsgmcmc.core.estimators import minibatch
from vrsgmcmc.run import Context, Result, as_data, html, need_model
from vrsgmcmc.theory import LARGEST, local

from .effects import LINEAR, MOST_ROWS, Effect, measure_effect, predict_effect
from .evidence import Evidence, find_contradiction, gather_evidence
from .verdict import Option, alternatives, judge

STATES = 4  # at which the noise is measured
HEADER = ("block", "parameters", "ratio", "at rest", "plain", "inflation")


class Block(NamedTuple):
    """One leaf of the parameters."""

    name: str
    parameters: int
    ratio: float  # gradient noise over injected noise, at one step
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
    drift: float  # variance of alpha_i - beta_i over that of alpha_i: 0 at the anchor
    cost: float  # per-datum gradients per step, refreshes included
    plain_batch_size: int
    blocks: tuple[Block, ...]
    options: tuple[Option, ...]
    variances: Any  # predicted, like the parameters; None for large models
    evaluations: int  # cost of the audit itself
    evidence: Evidence | None = None  # the draws against the model; None for large models
    holds: bool = True  # False: the draws contradict the model, and the verdict says how

    def __str__(self) -> str:
        rows = [HEADER]
        rows += [
            (block.name, str(block.parameters), *(f"{number:.3g}" for number in block[2:]))
            for block in self.blocks
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        evidence = [] if self.evidence is None else ["", str(self.evidence)]
        return "\n".join([self.verdict, "", *table, *evidence])

    def _repr_html_(self) -> str:
        blocks = html.table(HEADER, self.blocks, ("", ",", *[".3g"] * 4))
        evidence = [] if self.evidence is None else str(self.evidence).split("\n")
        return html.document(self.verdict, blocks, html.paragraphs(evidence))

    def plot(self, path: Any = None) -> Any:
        """Inflation of this run, of plain minibatches and of the full gradient; noise by block."""
        from vrsgmcmc.reports import audit_figure

        return audit_figure(self, path)


def audit(
    source: Result | Posterior,
    data: Any = None,
    state: State | None = None,
    *,
    estimator: Estimator | None = None,
    integrator: Integrator | None = None,
    step_size: float | None = None,
    batch_size: int = 10,
    order: str = "without_replacement",
    anchor_order: str = "without_replacement",
) -> Audit:
    """Audit a result, or a state of a chain: `audit(posterior, data, state, estimator=..., ...)`.

    A state is `result.state`, or one from `vr.kernel`. The centre of the local model is the mean of
    the draws, or without draws the mean position of the chains.
    """
    if isinstance(source, Result):
        if data is not None or state is not None:
            raise TypeError(
                "audit(result) takes nothing else: a result knows its data and settings."
            )
        need_model(source, "audit")
        context, state, draws = finite_chains(source)
    else:
        if state is None or estimator is None or integrator is None or step_size is None:
            raise TypeError(
                "audit(posterior, data, state, estimator=..., integrator=..., step_size=...) needs all "
                "of these; or pass a result alone."
            )
        if not isinstance(state, State):
            raise TypeError(f"state must be a vr.State, got {type(state).__name__}.")
        core.check_pair(source, estimator, integrator)
        for name, value in (("order", order), ("anchor_order", anchor_order)):
            core.one_of("audit", name, value, core.ORDERS)
        data, size = as_data(data)
        batch_size = core.whole("audit", "batch_size", batch_size)
        core.check_sizes("audit", estimator, size, batch_size)
        step_size = core.positive("audit", "step_size", step_size)
        sampler = Sampler(estimator, integrator, step_size, batch_size, order, anchor_order)
        context = Context(source, data, sampler)
        if not jnp.ndim(state.step):
            state = State(*jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], tuple(state)))
        draws = None
    points = draws
    if draws is None:
        points = jax.tree.map(lambda leaf: jnp.asarray(leaf)[:, None], state.position)
    center = jax.tree.map(lambda leaf: jnp.mean(leaf, (0, 1)).astype(leaf.dtype), points)
    if not core.all_finite(center):
        raise ValueError("audit: the position is not finite; audit a run that stayed finite.")
    return audit_at(context, state, center, draws)


def finite_chains(result: Result) -> tuple[Context, State, Any]:
    """Settings, states and draws (or None) of the chains that stayed finite."""
    if result.diverged.all():
        raise ValueError(f"every chain became non-finite. {result.divergences[0]}")
    alive = np.flatnonzero(~result.diverged)
    state = jax.tree.map(lambda leaf: leaf[alive], result.state)
    if result.draws is None:
        return result.context, state, None
    return result.context, state, jax.tree.map(lambda leaf: leaf[alive], result.draws)


def some_states(draws: Params) -> Params:
    """A handful of draws, evenly spread over chains and time, leaves [state, ...]."""
    chains, count = jax.tree.leaves(draws)[0].shape[:2]
    each = np.linspace(0, count - 1, STATES + 2).round().astype(int)[1:-1]
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[np.arange(STATES) % chains, each], draws)


def audit_at(context: Context, state: State, center: Params, draws: Any = None) -> Audit:
    """The audit at a state, with the local model at `center`, the mean of the draws."""
    posterior, data, sampler = context
    if sampler.metric is not None:
        raise ValueError(
            "audit: this run moves in a metric, and an audit knows steps in the parameters themselves. "
            "result.accuracy() says how right it is."
        )
    name, size = sampler.estimator.name, core.data_size(data)
    cost = sampler.cost_per_step(size)
    plain_size = int(np.clip(round(cost), 1, size))
    plain_sampler = replace(sampler, estimator=minibatch(), batch_size=plain_size)
    samplers, model = [("plain minibatches", plain_sampler)], None
    if core.tree.size(center) <= LARGEST and sampler.integrator.name in LINEAR:
        states = None if draws is None else some_states(draws)
        model = local(posterior, data, center, rows=MOST_ROWS, states=states)
        samplers += alternatives(sampler, size)

    def effect(sampler: Sampler) -> Effect:
        if model is None:
            return measure_effect(posterior, data, sampler, state)
        return predict_effect(model, sampler, center)

    own, *others = [effect(sampler), *(effect(other) for _, other in samplers)]
    plain = others[0]
    options = [
        Option(change, there.noise, there.inflation, other.cost_per_step(size))
        for (change, other), there in zip(samplers, others, strict=True)
    ]
    blocks = []
    for block, leaf in core.named_leaves(center):
        ratio, at_rest, inflation = own.blocks[block]
        blocks.append(Block(block, leaf.size, ratio, at_rest, plain.blocks[block][1], inflation))
    helps, verdict = judge(name, own, cost, plain_size, options)
    if sampler.integrator.name == "sgnht":
        verdict += " That is at most: the thermostat takes up noise as it adapts."
    evidence = contradiction = None
    evaluations = own.evaluations + plain.evaluations
    if model is not None:
        evidence = gather_evidence(posterior, data, center, model, own.variances, draws)
        contradiction = find_contradiction(evidence)
        evaluations = model.evaluations + size
        if model.unresolved:
            verdict += (
                f" The curvature of {model.unresolved} of {len(model.curvature)} directions is not "
                "resolved: the data hardly determine them, and the model takes a floor there."
            )
    return Audit(
        estimator=name,
        helps=helps and contradiction is None,
        verdict=contradiction or verdict,
        inflation=own.inflation,
        plain_inflation=plain.inflation,
        full_inflation=own.full,
        drift=own.drift,
        cost=cost,
        plain_batch_size=plain_size,
        blocks=tuple(blocks),
        options=tuple(options),
        variances=own.variances,
        evaluations=evaluations,
        evidence=evidence,
        holds=contradiction is None,
    )
