"""Which sampler, for this posterior and these data?

One mode: the chain moves in the metric of the curvature there. NUTS where all of the run is affordable
with full gradients, or where minibatches are too noisy (`adapt.py` looks at its metric); else a control
variate at the mode, of order 2 where that pays, with BAOAB. A network, several modes, or no mode within
the allowance: shuffled minibatches (`search.py`).

A budget pays for everything. Mode, curvature, noise and trial take at most max(4 passes, 15 %) of it,
for a `vr.glm` at most 15 passes; up to a third where the mode is not reached in that.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from vrsgmcmc import core, run
from vrsgmcmc.core.estimators import control_variate, full
from vrsgmcmc.core.integrators import splitting

from . import scale
from .adapt import adapt_metric
from .allowance import (
    NOMINAL,
    affords_nuts,
    check_budget,
    check_memory,
    metric_kind,
    pilot_allowance,
    wants_nuts,
)
from .centre import complete
from .control import choose_control_variate
from .decision import Choice, Decision
from .mode import FAR, SADDLE, curvature_at, finite_starts, laplace_mean, look_around, seek_mode
from .named import fit_named
from .request import NUTS_GRADIENTS, Request, is_nuts
from .schedule import with_length
from .search import decide_by_search
from .site import Site
from .trial import try_out

SMALL = 500  # parameters: with more of them than data, and no glm, a model is taken for a network
SEARCH, GLM_SEARCH = 0.6, 0.75  # of the pilot's allowance, for the mode and the curvature
MORE = 1 / 3  # of a budget, where a mode is not reached: without one the rest is of no use
ADAPTATION = 5e4  # passes for a metric of NUTS, where there is no budget
NUTS_WARM_UP = 50  # steps: in z there is little to tune


def decide(
    key: Any, posterior: core.Posterior, data: core.Data, init: Any, request: Request
) -> Decision:
    """The decision for a request: a pure function of its arguments, but for a budget in seconds."""
    began = time.monotonic()
    params = run.as_params(init(core.fold(key, 2**20)) if run.is_function(init) else init)
    check_memory(request, params)
    decision = make_decision(key, posterior, data, init, params, request, began)
    return replace(decision, seconds=time.monotonic() - began)


def make_decision(
    key: Any,
    posterior: core.Posterior,
    data: core.Data,
    init: Any,
    params: core.Params,
    request: Request,
    began: float,
) -> Decision:
    """By the mode if there is one, else by a search; `began`: when the clock of the budget started."""
    size = core.data_size(data)
    dimension, glm = core.tree.size(params), isinstance(posterior, core.GLM)
    nuts, most, spent = wants_nuts(request, size), pilot_allowance(request, size, glm), 0

    def search(why: str, network: bool = True, modes: str = "") -> Decision:
        decision = decide_by_search(key, posterior, data, init, request, why, spent)
        return replace(decision, network=network, modes=modes)

    if posterior.augment is not None:
        return search("the data are augmented, so no point is a mode for all of them")
    if posterior.network:
        return search("a network has many equal modes")
    if dimension > max(size, SMALL) and not glm:
        return search(f"{dimension:,} parameters are more than the {size:,} data")
    check_budget(request, size)
    share = (GLM_SEARCH if glm else SEARCH) * most
    longest = share if nuts else MORE * min(request.evaluations, NOMINAL * size)
    kind = metric_kind(request, dimension)
    try:
        located, spent = seek_mode(posterior, data, params, kind, share, longest, request.seed)
    except run.Saddle:
        if glm:
            raise
        if not (nuts and dimension <= SMALL):
            return search(SADDLE, modes=SADDLE)
        located = curvature_at(posterior, data, params)
        spent = located.evaluations
    reached = located.distance < FAR
    if not reached and not nuts:
        return search(
            f"the search for a mode ended {located.distance:.2g} posterior standard deviations away "
            "from it (scale the columns alike, start elsewhere, or give a larger budget)",
            network=False,
        )
    around = look_around(posterior, data, init, key, located, request, most)
    spent += around.evaluations
    if around.count > 1:
        return search(around.modes, modes=around.modes)
    site = Site(posterior, data, located.params, around.metric)
    if nuts:
        why = (
            f"N = {size:,} is small enough for full gradients: about "
            f"{NUTS_GRADIENTS * request.ess * size:.1e} evaluations, and no bias."
        )
        choice = choose_nuts(request, size, reached, why)
    elif any(request.names(name) for name in ("estimator", "integrator", "order")):
        choice = choose_named(site, located, request, max(most - spent, 0.1 * most))
    else:
        choice = choose_control_variate(site, located, request, around.bends, most, spent)
        if choice.price > NUTS_GRADIENTS * size and affords_nuts(request, size):
            why = "Minibatches are too noisy here: full gradients cost less for an effective draw."
            other = choose_nuts(request, size, reached, why)
            choice = other._replace(evaluations=choice.evaluations, considered=choice.considered)
    metric = around.metric if isinstance(request.metric, str) else request.metric
    decision = Decision(
        sampler=replace(choice.sampler, metric=metric),
        starts=finite_starts(site, core.fold(key, 2**20 + 3), request.num_chains),
        num_chains=request.num_chains,
        burn_in=0,
        thin=1,
        steps=(),
        ess=request.ess,
        evaluations=int(spent + choice.evaluations),
        allowance=request.evaluations,
        chain_method=choice.chain_method,
        mode=located.params if reached else None,
        laplace_mean=laplace_mean(site, located) if reached else None,
        laplace_sd=site.standard_deviations() if reached else None,
        modes=around.modes,
        why=choice.why,
        notes=(*located.notes, *around.notes),
        considered=choice.considered,
    )
    if not is_nuts(decision.sampler.integrator):
        decision = after_trial(decision, site, request, most)
    elif not request.names("metric"):
        decision = after_adaptation(decision, site, request, most, core.fold(key, 2**20 + 6))
    return with_length(decision, site, request, began)


def choose_nuts(request: Request, size: int, reached: bool, why: str) -> Choice:
    """NUTS with full gradients, which needs no mode to be right, but then more warm-up."""
    warm_up = NUTS_WARM_UP if reached else 4 * NUTS_WARM_UP
    integrator = request.value("integrator", run.nuts(warm_up=warm_up))
    sampler = core.Sampler(full(), integrator, 0.5, size)
    return Choice(sampler, why, chain_method="sequential")


def choose_named(site: Site, located: run.Located, request: Request, allowance: float) -> Choice:
    """What the caller names, completed; the step size follows its noise at the mode."""
    estimator = request.value("estimator", control_variate())
    batch_size = request.value("batch_size", named_batch(estimator, site.size))
    estimator, cost = complete(estimator, site, located, batch_size, allowance, request.seed)
    sampler = core.Sampler(
        estimator,
        request.value("integrator", splitting("BAOAB", scale.FRICTION)),
        None,
        batch_size,
        request.value("order", "without_replacement"),
        request.value("anchor_order", "without_replacement"),
        request.clip,
        site.metric if isinstance(request.metric, str) else request.metric,
    )
    core.check_pair(site.posterior, sampler.estimator, sampler.integrator)
    core.check_metric(sampler.integrator, sampler.metric)
    sampler, more = fit_named(site, sampler, request.seed)
    why = "Estimator or integrator were given; the step size follows their noise at the mode."
    return Choice(sampler, why, cost + more)


def named_batch(estimator: core.Estimator, size: int) -> int:
    """Rows of a minibatch for an estimator that the caller names: few beside its anchor."""
    anchor = estimator.refresh_size(size)
    return max(1, min(100, size // 4, anchor // 10 if 0 < anchor < size else size))


def after_trial(decision: Decision, site: Site, request: Request, most: float) -> Decision:
    """The decision after a trial, which may have made the step size smaller."""
    allowance = max(most - decision.evaluations, 0.1 * most)
    trial = try_out(site, decision.sampler, scale.LARGEST_INFLATION, allowance, request.seed)
    notes = (*decision.notes, trial.note) if trial.note else decision.notes
    spent = decision.evaluations + trial.evaluations
    return replace(decision, sampler=trial.sampler, evaluations=spent, notes=notes)


def after_adaptation(
    decision: Decision, site: Site, request: Request, most: float, key: Any
) -> Decision:
    """The decision of NUTS with a metric that suits the posterior, where that at the mode does not."""
    limited = np.isfinite(request.evaluations)
    allowance = most - decision.evaluations if limited else ADAPTATION * site.size
    integrator, reached = decision.sampler.integrator, decision.mode is not None
    fit = adapt_metric(site, decision.starts, integrator, allowance, key, reached)
    return replace(
        decision,
        sampler=replace(decision.sampler, metric=fit.metric),
        starts=fit.starts,
        evaluations=decision.evaluations + fit.evaluations,
        notes=(*decision.notes, *fit.notes),
    )
