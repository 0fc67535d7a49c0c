"""How long the run of a decision is: burn-in, thinning, and the steps after which it is looked at."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from vrsgmcmc import run

from . import length, scale
from .allowance import FEWEST_DRAWS, draws_that_fit
from .decision import Decision
from .pilot import run_pilot
from .request import ACCURACY, NUTS_GRADIENTS, Request, is_nuts
from .site import Site

PACE_STEPS = 150  # of a run that is timed
DRAWS_PER_ESS = 4.0  # draws that are kept
FEWEST_STEPS = 200  # of a chain, whatever the clock says


def with_length(decision: Decision, site: Site, request: Request, began: float) -> Decision:
    """The decision with burn-in, thinning, and the steps after which the draws are looked at."""
    sampler, size, chains = decision.sampler, site.size, request.num_chains
    nuts = is_nuts(sampler.integrator)
    step = 1.0 if nuts else float(sampler.step_size)
    if sampler.metric is None and not nuts:
        step /= float(site.standard_deviations().max())
    friction = getattr(sampler.integrator, "friction", 1.0)
    each = 1.5 if nuts else max(2 * float(friction), 2.0) / step  # steps for an effective draw
    warm_up = getattr(sampler.integrator, "warm_up", 0)
    burn_in = 2 * warm_up if nuts else int(np.ceil(scale.RELAXATION / step))
    cost = NUTS_GRADIENTS * size if nuts else sampler.cost_per_step(size)
    left = (1 - ACCURACY) * request.evaluations - decision.evaluations
    most = left / (chains * cost) if np.isfinite(left) else np.inf
    if request.seconds is not None:
        most = affordable_steps(decision, site, request, began)
        note = "The budget is in seconds: the number of steps follows a clock."
        if most == FEWEST_STEPS:
            note = "Choosing took longer than the budget: the run is as short as a run can be."
        decision = replace(decision, notes=(*decision.notes, note))
    most = min(most, run.MOST_STEPS)
    burn_in = max(warm_up, min(burn_in, int(scale.MOST_BURN_IN * most)))
    burn_in = request.value("burn_in", burn_in)
    forecast = request.ess / chains * each
    widest = draws_that_fit(request, site.mode)
    longest = min(length.MOST * forecast, most)
    wish = min(each / DRAWS_PER_ESS, (longest - burn_in) / FEWEST_DRAWS)
    thin = max(1, int(wish), int(np.ceil(longest / widest)))
    thin = request.value("thin", thin)
    if request.names("num_steps"):
        steps, notes = request.num_steps, decision.notes
        if steps > most:
            steps = int(max(most, burn_in + thin))
            notes = (*notes, f"The budget is for {steps:,} of the {request.num_steps:,} steps.")
        return replace(
            decision, burn_in=burn_in, thin=thin, steps=(steps,), ess=np.inf, notes=notes
        )
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
    }
    starts = run.Starts(decision.starts)
    seconds = [
        run_pilot(0, site.posterior, site.data, starts, decision.sampler, **options,
                  num_steps=steps, burn_in=steps - 1).seconds
        for steps in (PACE_STEPS, 2 * PACE_STEPS)  # the first compiles
    ]  # fmt: skip
    left = (1 - ACCURACY) * (request.seconds - (time.monotonic() - began))
    return max(left / max(seconds[1] / (2 * PACE_STEPS), 1e-7), FEWEST_STEPS)
