"""Which control variate: order, hot rows, batch and step, by the residuals of the rows' gradients."""

from __future__ import annotations

from vrsgmcmc import core, run
from vrsgmcmc.core.integrators import splitting

from . import scale
from .centre import center_at_mode
from .decision import Choice
from .request import ACCURACY, NUTS_GRADIENTS, Request
from .residuals import Residuals, measure_residuals
from .site import Site


def choose_control_variate(
    site: Site,
    located: run.Located,
    request: Request,
    bends: bool,
    most: float,
    spent: float,
) -> Choice:
    """The cheaper of the two orders, with BAOAB; order 2 where the exact Hessian is known.

    `bends`: second derivatives say little. `most` are the evaluations of the whole decision, `spent`
    those that are gone.
    """
    exact, series, cost = located.likelihood_hessian is not None, [], 0
    bends = bends or located.kinks
    for order in [1, 2] if exact and not bends else [1]:
        allowance = max(most - spent - cost, 0.1 * most) / 2
        series.append(measure_residuals(site, order, allowance, request.seed))
        cost += series[-1].evaluations
    allowance = (1 - ACCURACY) * request.evaluations - spent - cost
    rows = request.value("batch_size", None)
    options = [
        scale.choose(each, site, request.ess, allowance, rows, request.num_chains)
        for each in series
    ]
    best = min(options, key=lambda option: option.price)
    hot = next(each.top for each in series if each.order == best.order)[: best.hot]
    estimator, more = center_at_mode(site, located, best.order, hot)
    considered = [
        f"control variate of order {each.order}: {each.price:,.0f} evaluations for an effective draw"
        for each in options
    ]
    considered.append(f"full gradients (NUTS): about {NUTS_GRADIENTS * site.size:,.0f}")
    step = float(f"{best.step_size:.3g}")
    integrator = splitting("BAOAB", scale.FRICTION)
    sampler = core.Sampler(estimator, integrator, step, best.batch_size, clip=request.clip)
    why = reason(best, series, bends)
    return Choice(sampler, why, cost + more, tuple(considered), price=best.price)


def reason(choice: scale.Scale, series: list[Residuals], bends: bool) -> str:
    """Why this scale, in a sentence."""
    noise = f"Its noise widens variances by {choice.inflation:.2g} of themselves."
    if choice.order == 1 and len(series) == 1:
        why = "second derivatives say little here" if bends else "the exact Hessian takes too long"
        return f"A control variate of order 1: {why}. {noise}"
    if choice.hot:
        noise += f" {choice.hot} rows of high leverage are visited at every step."
    return f"Order {choice.order} is the cheaper of the two for an effective draw. {noise}"
