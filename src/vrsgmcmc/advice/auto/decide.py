"""Which sampler, for this posterior and these data?

One mode: the chain moves in the metric of the curvature there. Where all of the run is affordable with
full gradients, NUTS; else a control variate at the mode, of order 2 where that pays, with BAOAB. A
network, several modes, or no mode within the allowance: shuffled minibatches (`search.py`).

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
from .centre import center_at_mode, complete
from .decision import Decision
from .mode import FAR, finite_starts, laplace_mean, seek_mode
from .named import fit_named
from .request import ACCURACY, NUTS_GRADIENTS, Request, is_nuts
from .residuals import Residuals, measure_residuals
from .schedule import with_length
from .search import decide_by_search
from .site import Site
from .trial import try_out

SMALL = 500  # parameters: with more of them than data, and no glm, a model is taken for a network
LARGEST_DENSE, LARGEST_LOW_RANK = 2_000, 100_000  # parameters
SHARE, LEAST_PASSES, GLM_PASSES = 0.15, 4.0, 15.0
NOMINAL = 400.0  # passes that a run without a budget is thought to take
FEW = 2e6  # evaluations that any run without a budget can afford
SEARCH, GLM_SEARCH = 0.6, 0.75  # of the pilot's allowance, for the mode and the curvature
MORE = (
    1 / 3
)  # of a budget, for them if they are not reached: without a mode the rest is of little use
MODES = 0.25  # of the allowance, for a look at other modes
KINKS = 0.05  # of it, to look for kinks
MODES_LEAST = 2e4  # evaluations for it, where there is no budget
DRAWS = 4  # of the Gaussian approximation, at which residuals are measured
NUTS_MOST = 5e7  # evaluations that a run with full gradients may take
NUTS_WARM_UP = 50  # steps: in z there is little to tune
LEAST_BUDGET = 5.0  # passes


def decide(
    key: Any, posterior: core.Posterior, data: core.Data, init: Any, request: Request
) -> Decision:
    """The decision for a request: a pure function of its arguments, but for a budget in seconds."""
    began, size = time.monotonic(), core.data_size(data)
    params = run.as_params(init(core.fold(key, 2**20)) if run.is_function(init) else init)
    dimension, glm = core.tree.size(params), isinstance(posterior, core.GLM)
    most = pilot_allowance(request, size, glm)
    spent = 0

    def search(why: str, network: bool = True) -> Decision:
        decision = decide_by_search(key, posterior, data, init, request, why, spent)
        return replace(decision, network=network)

    if posterior.augment is not None:
        return search("the data are augmented, so no point is a mode for all of them")
    if posterior.network:
        return search("a network has many equal modes")
    if dimension > max(size, SMALL) and not glm:
        return search(f"{dimension:,} parameters are more than the {size:,} data")
    if request.evaluations < LEAST_BUDGET * size:
        raise ValueError(
            f"sample(budget=...): {request.evaluations / size:.3g} passes are too few to find the mode "
            f"and to sample around it. Give at least {LEAST_BUDGET:g} passes."
        )
    kind = metric_kind(request, dimension)
    share = (GLM_SEARCH if glm else SEARCH) * most
    longest = (
        share if wants_nuts(request, size) else MORE * min(request.evaluations, NOMINAL * size)
    )
    try:
        located, cost = seek_mode(posterior, data, params, kind, share, longest, request.seed)
    except run.Saddle:
        if glm:
            raise
        modes = (
            "no mode was found, because the log posterior curves upwards, as that of a network does"
        )
        return replace(search(modes), modes=modes)
    spent += cost
    reached = located.distance < FAR
    if not reached and not wants_nuts(request, size):
        return search(
            f"the search for a mode ended {located.distance:.2g} posterior standard deviations away "
            "from it (scale the columns alike, start elsewhere, or give a larger budget)",
            network=False,
        )
    notes, orders, metric = list(located.notes), [1, 2], located.metric
    if not reached:
        modes = f"no mode was reached: the search ended {located.distance:.2g} sds away from one"
    elif isinstance(posterior, core.GLM) and posterior.concave:
        modes = "one mode, because the log posterior is concave"
    else:
        least = 0.0 if np.isfinite(request.evaluations) else MODES_LEAST
        options = {"key": core.fold(key, 2**20 + 1), "most": max(MODES * most, least)}
        ends = run.find_modes(posterior, data, init, located, **options)
        spent, modes = spent + ends.evaluations, str(ends)
        if ends.count > 1:
            return replace(search(modes), modes=modes)
        options = {"most": KINKS * most if np.isfinite(request.evaluations) else np.inf}
        kinks, cost = run.has_kinks(posterior, data, located, core.fold(key, 2**20 + 4), **options)
        spent += cost
        spent += run.check_gradient(posterior, data, located, core.fold(key, 2**20 + 5), **options)
        if kinks:
            metric, cost = run.gradient_metric(posterior, data, located)
            spent, orders = spent + cost, [1]
            notes.append(
                "The Hessian at the mode says little about the posterior an sd away (kinks, or strong "
                "bends): the metric comes from the gradients' spread."
            )
    site = Site(posterior, data, located.params, metric)
    chain_metric = None if request.metric is None else metric
    if isinstance(request.metric, core.Metric):
        chain_metric = request.metric
    considered: list[str] = []
    chain_method = "vmap"
    if wants_nuts(request, size):
        warm_up = NUTS_WARM_UP if reached else 4 * NUTS_WARM_UP
        integrator = request.value("integrator", run.nuts(warm_up=warm_up))
        sampler = core.Sampler(full(), integrator, 0.5, size, metric=chain_metric)
        chain_method = "sequential"
        why = (
            f"N = {size:,} is small enough for full gradients: about "
            f"{NUTS_GRADIENTS * request.ess * size:.1e} evaluations, and no bias."
        )
    elif any(request.names(name) for name in ("estimator", "integrator", "order")):
        estimator = request.value("estimator", control_variate())
        batch_size = request.value("batch_size", named_batch(estimator, size))
        left = max(most - spent, 0.1 * most)
        estimator, cost = complete(estimator, site, located, batch_size, left, request.seed)
        spent += cost
        sampler = core.Sampler(
            estimator,
            request.value("integrator", splitting("BAOAB", scale.FRICTION)),
            None,
            batch_size,
            request.value("order", "without_replacement"),
            request.value("anchor_order", "without_replacement"),
            request.clip,
            chain_metric,
        )
        core.check_pair(posterior, sampler.estimator, sampler.integrator)
        core.check_metric(sampler.integrator, chain_metric)
        sampler, cost = fit_named(site, sampler, request.seed)
        spent += cost
        why = "Estimator or integrator were given; the step size follows their noise at the mode."
    else:
        if located.likelihood_hessian is None:
            orders = [1]
        series = []
        for order in orders:
            allowance = max(most - spent, 0.1 * most) / 2
            draws = DRAWS if allowance > 2 * DRAWS * size else 1
            options = {"draws": draws, "allowance": allowance, "seed": request.seed}
            series.append(
                measure_residuals(posterior, data, located.params, metric, order, **options)
            )
            spent += series[-1].evaluations
        choice, considered = choose_scale(series, size, glm, request, spent)
        sampler, cost = control_variate_sampler(site, located, series, choice, request)
        sampler, spent = replace(sampler, metric=chain_metric), spent + cost
        why = reason(choice, series, exact=located.likelihood_hessian is not None)
    decision = Decision(
        sampler=sampler,
        starts=finite_starts(site, core.fold(key, 2**20 + 3), request.num_chains),
        num_chains=request.num_chains,
        burn_in=0,
        thin=1,
        steps=(),
        ess=request.ess,
        evaluations=int(spent),
        allowance=request.evaluations,
        chain_method=chain_method,
        mode=located.params if reached else None,
        laplace_mean=laplace_mean(site, located) if reached else None,
        laplace_sd=site.standard_deviations() if reached else None,
        modes=modes,
        why=why,
        notes=tuple(notes),
        considered=tuple(considered),
    )
    if not wants_nuts(request, size):
        decision = tried(decision, site, request, most)
    return with_length(decision, site, request, began)


def named_batch(estimator: core.Estimator, size: int) -> int:
    """Rows of a minibatch for an estimator that the caller names: few beside its anchor."""
    anchor = estimator.refresh_size(size)
    return max(1, min(100, size // 4, anchor // 10 if 0 < anchor < size else size))


def pilot_allowance(request: Request, size: int, glm: bool) -> float:
    """Evaluations for mode, curvature, noise and trial."""
    limited = np.isfinite(request.evaluations)
    most = max(LEAST_PASSES * size, SHARE * (request.evaluations if limited else NOMINAL * size))
    if glm and not wants_nuts(request, size):
        return min(most, GLM_PASSES * size)
    return most if limited else max(most, FEW)


def metric_kind(request: Request, dimension: int) -> str:
    if isinstance(request.metric, str) and request.metric != "auto":
        return request.metric
    if dimension <= LARGEST_DENSE:
        return "hessian"
    return "low_rank" if dimension <= LARGEST_LOW_RANK else "diagonal"


def wants_nuts(request: Request, size: int) -> bool:
    """Whether the whole run is affordable with full gradients."""
    if request.names("integrator"):
        return is_nuts(request.integrator)
    if any(request.names(name) for name in ("estimator", "batch_size", "order")) or request.clip:
        return False
    cost = NUTS_GRADIENTS * request.ess * size
    return cost <= min(NUTS_MOST, (1 - SHARE) * request.evaluations)


def choose_scale(
    series: list[Residuals], size: int, glm: bool, request: Request, spent: float
) -> tuple[scale.Scale, list[str]]:
    """The order, hot rows, batch and step of a control variate, and what else there was."""
    per_row = {1: 2, 2: 3 if glm else 4}
    allowance = (1 - ACCURACY) * request.evaluations - spent
    rows = request.value("batch_size", None)
    choices = [
        scale.choose(
            [(each, per_row[each.order])], size, request.ess, allowance, rows, request.num_chains
        )
        for each in series
    ]
    best = min(choices, key=lambda choice: choice.price)
    considered = [
        f"control variate of order {each.order}: {each.price:,.0f} evaluations for an effective draw"
        for each in choices
    ]
    considered.append(f"full gradients (NUTS): about {NUTS_GRADIENTS * size:,.0f}")
    return best, considered


def control_variate_sampler(
    site: Site, located: Any, series: list[Residuals], choice: scale.Scale, request: Request
) -> tuple[core.Sampler, int]:
    """The sampler of a choice, and what was evaluated for it."""
    residuals = next(each for each in series if each.order == choice.order)
    hot = residuals.top[: choice.hot]
    estimator, cost = center_at_mode(site, located, choice.order, hot)
    step = float(f"{choice.step_size:.3g}")
    integrator = splitting("BAOAB", scale.FRICTION)
    return core.Sampler(estimator, integrator, step, choice.batch_size, clip=request.clip), cost


def reason(choice: scale.Scale, series: list[Residuals], exact: bool) -> str:
    """Why this scale, in a sentence."""
    noise = f"Its noise widens variances by {choice.inflation:.2g} of themselves."
    if choice.order == 1 and len(series) == 1:
        why = "second derivatives say little here" if exact else "the exact Hessian takes too long"
        return f"A control variate of order 1: {why}. {noise}"
    if choice.hot:
        noise += f" {choice.hot} rows of high leverage are visited at every step."
    return f"Order {choice.order} is the cheaper of the two for an effective draw. {noise}"


def tried(decision: Decision, site: Site, request: Request, most: float) -> Decision:
    """The decision after a trial, which may have made the step size smaller."""
    allowance = max(most - decision.evaluations, 0.1 * most)
    trial = try_out(site, decision.sampler, 0.03, allowance, request.seed)
    notes = (*decision.notes, trial.note) if trial.note else decision.notes
    spent = decision.evaluations + trial.evaluations
    return replace(decision, sampler=trial.sampler, evaluations=spent, notes=notes)
