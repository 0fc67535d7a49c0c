"""Which sampler, for this posterior and these data?

One mode: the chain moves in the metric of the curvature there. Where all of the run is affordable with
full gradients, NUTS; else a control variate at the mode, of order 2 where that pays, with BAOAB. A
network, several modes, or no mode within the allowance: shuffled minibatches (`search.py`).

A budget pays for everything. Mode, curvature, noise and trial take at most max(4 passes, 15 %) of it,
for a `vr.glm` at most 15 passes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core, run
from vrsgmcmc.core.estimators import control_variate, full
from vrsgmcmc.core.integrators import splitting

from . import length, scale
from .decision import Decision
from .named import fit_named
from .request import Request
from .residuals import Residuals, measure_residuals
from .search import decide_by_search
from .site import Site
from .trial import try_out

LARGEST_DENSE, LARGEST_LOW_RANK = 2_000, 100_000  # parameters
SHARE, LEAST_PASSES, GLM_PASSES = 0.15, 4.0, 15.0
NOMINAL = 400.0  # passes that a run without a budget is thought to take
FEW = 2e6  # evaluations that any run without a budget can afford
SEARCH = 0.6  # of the pilot's allowance, for the mode and the curvature
MODES_LEAST = 2e4  # evaluations, at the least, for a look at several modes
FAR = 0.3  # sds from the mode, root mean square: nothing is built around such a point
DRAWS = 4  # of the Gaussian approximation, at which residuals are measured
NUTS_GRADIENTS = 8.0  # of all data, for an effective draw
NUTS_MOST = 5e7  # evaluations that a run with full gradients may take
NUTS_WARM_UP = 50
WIDE = np.sqrt(2.0)  # sds: how far the starts are spread
ACCURACY = 0.3  # of a budget, for the look at the result
PACE_STEPS = 150  # of a run that is timed
RELAXATION = 20.0  # time units of burn-in
DRAWS_PER_ESS = 4.0  # draws that are kept


def decide(
    key: Any, posterior: core.Posterior, data: core.Data, init: Any, request: Request
) -> Decision:
    """The decision for a request: a pure function of its arguments, but for a budget in seconds."""
    began, size = time.monotonic(), core.data_size(data)
    params = run.as_params(init(core.fold(key, 2**20)) if run.is_function(init) else init)
    dimension, glm = core.tree.size(params), isinstance(posterior, core.GLM)
    most = pilot_allowance(request, size, glm)
    spent = 0

    def search(why: str) -> Decision:
        return decide_by_search(key, posterior, data, init, request, why, spent)

    if posterior.augment is not None:
        return search("the data are augmented, so no point is a mode for all of them")
    if posterior.network:
        return search("a network has many equal modes")
    if dimension > size and not glm:
        return search(f"{dimension:,} parameters are more than the {size:,} data")
    kind = metric_kind(request, dimension)
    located = run.locate_mode(
        posterior, data, params, kind=kind, most=SEARCH * most, seed=request.seed
    )
    spent += located.evaluations
    if not located.distance < FAR:
        return search(
            f"the search for a mode ended {located.distance:.2g} posterior standard deviations away "
            "from it (scale the columns alike, start elsewhere, or give a larger budget)"
        )
    options = {"key": core.fold(key, 2**20 + 1), "most": max(0.1 * most, MODES_LEAST)}
    ends = run.find_modes(posterior, data, init, located, **options)
    spent += ends.evaluations
    if ends.count > 1:
        return search(str(ends))
    notes, orders = list(located.notes), [1, 2]
    kinks, cost = run.has_kinks(posterior, data, located, core.fold(key, 2**20 + 4))
    spent += cost
    metric = located.metric
    if kinks:
        metric, cost = run.gradient_metric(posterior, data, located)
        spent, orders = spent + cost, [1]
        notes.append("The log-likelihood has kinks: the metric comes from the gradients' spread.")
    site = Site(posterior, data, located.params, metric)
    chain_metric = None if request.metric is None else metric
    if isinstance(request.metric, core.Metric):
        chain_metric = request.metric
    considered: list[str] = []
    chain_method = "vmap"
    if wants_nuts(request, size):
        integrator = request.value("integrator", run.nuts(warm_up=NUTS_WARM_UP))
        sampler = core.Sampler(full(), integrator, 0.5, size, metric=chain_metric)
        chain_method = "sequential"
        why = (
            f"{size:,} data are few enough for full gradients: about "
            f"{NUTS_GRADIENTS * request.ess * size:.1e} evaluations, and no bias."
        )
    elif any(request.names(name) for name in ("estimator", "integrator", "order")):
        sampler = core.Sampler(
            request.value("estimator", control_variate(located.params)),
            request.value("integrator", splitting("BAOAB", scale.FRICTION)),
            None,
            request.value("batch_size", min(100, max(1, size // 4))),
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
            allowance = max(most - spent, 0.2 * most) / 2
            draws = DRAWS if allowance > 2 * DRAWS * size else 1
            options = {"draws": draws, "allowance": allowance, "seed": request.seed}
            series.append(
                measure_residuals(posterior, data, located.params, metric, order, **options)
            )
            spent += series[-1].evaluations
        choice, considered = choose_scale(series, size, glm, request, spent)
        sampler = control_variate_sampler(site, located, series, choice, request)
        sampler = replace(sampler, metric=chain_metric)
        why = reason(choice, series)
    decision = Decision(
        sampler=sampler,
        starts=site.draws(core.fold(key, 2**20 + 3), request.num_chains, WIDE),
        num_chains=request.num_chains,
        burn_in=0,
        thin=1,
        steps=(),
        ess=request.ess,
        evaluations=int(spent),
        allowance=request.evaluations,
        chain_method=chain_method,
        mode=located.params,
        laplace_sd=site.standard_deviations(),
        modes=str(ends),
        why=why,
        notes=tuple(notes),
        considered=tuple(considered),
    )
    if not wants_nuts(request, size):
        decision = tried(decision, site, request, most)
    return with_length(decision, site, request, began)


def pilot_allowance(request: Request, size: int, glm: bool) -> float:
    """Evaluations for mode, curvature, noise and trial."""
    limited = np.isfinite(request.evaluations)
    most = max(LEAST_PASSES * size, SHARE * (request.evaluations if limited else NOMINAL * size))
    most = min(most, GLM_PASSES * size) if glm else most
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
        return getattr(request.integrator, "name", "") == "nuts"
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
        scale.choose([(each, per_row[each.order])], size, request.ess, allowance, rows)
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
) -> core.Sampler:
    residuals = next(each for each in series if each.order == choice.order)
    index = jnp.asarray(residuals.top[: choice.hot], jnp.int32)
    options: dict[str, Any] = {"hot": core.rows(site.data, index) if choice.hot else None}
    if located.gradient is not None:
        options["gradient"] = likelihood_gradient(site, located.gradient)
    if choice.order == 2:
        options["hessian"] = np.asarray(located.likelihood_hessian, kind_of(site.mode))
        options["linear"] = isinstance(site.posterior, core.GLM)
    estimator = control_variate(site.mode, order=choice.order, **options)
    step = float(f"{choice.step_size:.3g}")
    return core.Sampler(
        estimator, splitting("BAOAB", scale.FRICTION), step, choice.batch_size, clip=request.clip
    )


def likelihood_gradient(site: Site, gradient: np.ndarray) -> core.Params:
    """G(c): the gradient at the mode without the prior's part."""
    row, unravel = ravel_pytree(core.prior_gradient(site.posterior, site.mode))
    return unravel(jnp.asarray(gradient - np.asarray(row, np.float64), row.dtype))


def kind_of(params: core.Params) -> Any:
    return jnp.result_type(*jax.tree.leaves(params))


def reason(choice: scale.Scale, series: list[Residuals]) -> str:
    """Why this scale, in a sentence."""
    noise = f"Its noise widens variances by {choice.inflation:.2g} of themselves."
    if choice.order == 1 and len(series) == 1:
        return f"A control variate of order 1: the exact Hessian would take too long. {noise}"
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


def with_length(decision: Decision, site: Site, request: Request, began: float) -> Decision:
    """The decision with burn-in, thinning, and the steps after which the draws are looked at."""
    sampler, size, chains = decision.sampler, site.size, request.num_chains
    nuts = getattr(sampler.integrator, "name", "") == "nuts"
    step = 1.0 if nuts else float(sampler.step_size)
    if sampler.metric is None and not nuts:
        step /= float(site.standard_deviations().max())
    friction = getattr(sampler.integrator, "friction", 1.0)
    each = 1.5 if nuts else max(2 * float(friction), 2.0) / step  # steps for an effective draw
    burn_in = 2 * NUTS_WARM_UP if nuts else int(np.ceil(RELAXATION / step))
    cost = NUTS_GRADIENTS * size if nuts else sampler.cost_per_step(size)
    left = (1 - ACCURACY) * request.evaluations - decision.evaluations
    most = left / (chains * cost) if np.isfinite(left) else np.inf
    if request.seconds is not None:
        most = affordable_steps(decision, site, request, began)
        note = "The budget is in seconds: the number of steps follows a clock."
        decision = replace(decision, notes=(*decision.notes, note))
    if most < burn_in * 5:
        burn_in = int(most / 5)
    burn_in = request.value("burn_in", burn_in)
    forecast = request.ess / chains * each
    widest = request.memory_limit / 4 / (chains * core.nbytes(site.mode))  # draws that fit
    thin = max(1, int(each / DRAWS_PER_ESS), int(np.ceil(length.MOST * forecast / widest)))
    thin = request.value("thin", thin)
    if request.names("num_steps"):
        return replace(decision, burn_in=burn_in, thin=thin, steps=(request.num_steps,), ess=np.inf)
    if most < burn_in + 10 * thin:
        raise ValueError(
            f"sample(budget=...): the decision took {decision.evaluations:,} evaluations "
            f"({decision.evaluations / size:.1f} passes), which leaves {max(int(most), 0)} steps of a "
            "chain. Give a larger budget, or fewer chains."
        )
    steps = length.grid(forecast, most, burn_in, thin)
    return replace(decision, burn_in=burn_in, thin=thin, steps=steps)


def affordable_steps(decision: Decision, site: Site, request: Request, began: float) -> float:
    """Steps of a chain in the seconds that are left, by the pace of two short runs."""
    assert request.seconds is not None
    options: dict[str, Any] = {
        "num_chains": request.num_chains,
        "keep": "averages",
        "progress": False,
    }
    starts = run.Starts(decision.starts)
    seconds = [
        run.sample(0, site.posterior, site.data, starts, **vars(decision.sampler), **options,
                   num_steps=steps, burn_in=steps - 1).seconds
        for steps in (PACE_STEPS, 2 * PACE_STEPS)  # the first compiles
    ]  # fmt: skip
    left = (1 - ACCURACY) * (request.seconds - (time.monotonic() - began))
    if left <= 0:
        raise ValueError(
            f"sample(budget={request.seconds:g} s): choosing a sampler took longer. Give more time, or "
            "a step_size."
        )
    return left / max(seconds[1] / (2 * PACE_STEPS), 1e-7)
