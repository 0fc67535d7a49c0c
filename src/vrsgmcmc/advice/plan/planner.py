"""Which sampler, for this posterior and this budget?

A pilot finds the mode and measures the posterior there: its Hessian, and how the gradients and the
Hessians of single data vary (`theory/forecast/local.py`). Under that Gaussian model the error of every
candidate is a formula (`theory/forecast/forecast.py`), so `rank` finds the best of some hundreds, each
at its best step size, without running them. A trial then runs the best for a few steps, and halves its
step size while it does not behave as predicted. The budget pays for all of it.

The model is local: it describes one mode and no heavy tails. See docs/planning.md.
"""

import re
import time
import warnings
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import jax
import numpy as np

from vrsgmcmc.core import Params, Posterior, check_pair, nbytes, positive, tree, whole
from vrsgmcmc.core.estimators import minibatch
from vrsgmcmc.core.integrators import sgld
from vrsgmcmc.run import checks, is_function
from vrsgmcmc.theory import predict

from .candidates import BATCH_SIZES, FEWEST_STEPS, Candidate, Case, best_of_each_kind, rank
from .pilot import fewest_rows, least_cost, pilot
from .trial import TRIAL, measure_pace, run_trial

LARGEST = 128  # parameters: pairs of decaying modes are summed over
PILOT = 0.05  # of the budget, at most, for the Hessians
SHARE = 0.5  # of the budget, at most, for the pilot
DRAWS, DRAW_BYTES = 1000, 2**27  # draws of a chain, at the least; bytes of all draws, at most
DRAWS_PER_ESS = 4  # then thinning costs an average some 2 % of its effective draws
FEW_STEPS, LARGE_ERROR = 100, 0.1  # fewer steps of a chain, or a larger C, deserve a warning
SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "min": 60.0, "minutes": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Plan:
    """Settings for `vr.sample(key, posterior, data, plan.init, **plan)`, and why."""

    choice: Candidate
    num_chains: int
    init: Params = field(repr=False)  # the mode
    score: float  # predicted C: (MSE of means / sd^2 + MSE of variances / 2 sd^4) / 2
    bias: float
    variance: float
    budget: int  # per-datum gradient evaluations, all chains together, pilot included
    pilot: int  # of these, spent on planning
    runners_up: tuple[Candidate, ...] = field(repr=False)
    note: str = ""

    def keys(self) -> list[str]:
        return list(self.settings)

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `vr.sample`; `clip` is left to the user."""
        options = vars(self.choice.sampler) | {"num_steps": self.choice.num_steps}
        del options["clip"]
        return options | {"num_chains": self.num_chains, "thin": self.thin}

    @property
    def thin(self) -> int:
        """Steps between two draws that are stored, so that all draws take at most 128 MiB."""
        effective = DRAWS_PER_ESS / (self.score * self.num_chains)
        most = max(1, DRAW_BYTES // (self.num_chains * nbytes(self.init)))
        steps = self.choice.num_steps
        return max(1, steps // int(max(DRAWS, effective)), -(-steps // most))

    def __str__(self) -> str:
        lines = [
            f"{self.choice}, step size {self.choice.sampler.step_size:.3g}, "
            f"{self.choice.num_steps:,} steps, {self.num_chains} chains, thin {self.thin}",
            f"predicted error C = {self.score:.3g} (like {1 / self.score:,.0f} independent draws): "
            f"bias {self.bias:.2g}, variance {self.variance:.2g}",
            f"{self.budget:,} gradients, {self.pilot:,} of them for this plan",
        ]
        lines += [f"  then  C = {c.score:.3g}  {c}" for c in self.runners_up]
        return "\n".join([*lines, self.note] if self.note else lines)


def plan(
    posterior: Posterior,
    data: Any,
    init: Any,
    *,
    budget: float | str | timedelta | None = None,
    target: float | None = None,
    num_chains: int = 4,
    seed: int = 0,
) -> Plan:
    """Choose estimator, n1, n2, m, order, integrator and step size.

    - `init`: where the search for the mode starts, or a function of a key.
    - `budget`: per-datum gradient evaluations, all chains together and the plan's own included; or
      "200 passes" over the data, "60 s", "5 min", or a `timedelta`. Seconds are those of planning
      and sampling; compiling the run comes on top.
    - `target`: the largest acceptable error C; 0.01 is as good as 100 independent draws. The plan is
      then the cheapest that reaches it, within the budget if there is one.
    """
    began = time.monotonic()
    check_pair(posterior, minibatch(), sgld())
    num_chains = whole("plan", "num_chains", num_chains)
    if budget is None and target is None:
        raise TypeError(
            "plan: give a budget (evaluations, '200 passes', '60 s') or a target error C."
        )
    if target is not None:
        target = positive("plan", "target", target)
    data, size = checks.as_data(data)
    evaluations, seconds = parse_budget(budget, size)
    limit = np.inf if evaluations is None else evaluations
    params = checks.as_params(init(jax.random.key(seed)) if is_function(init) else init)
    dimension = tree.size(params)
    if dimension > LARGEST:
        raise ValueError(
            f"plan: {dimension} parameters are more than {LARGEST}, the most that a plan can model. "
            "Set a step_size yourself, run a few hundred steps, and ask vr.audit(result)."
        )
    checks.check_model(posterior, params, data)

    def run_cost(candidate: Candidate) -> int:
        return num_chains * candidate.sampler.evaluations(size, candidate.num_steps)

    def time_left() -> float:
        assert seconds is not None
        left = seconds - (time.monotonic() - began)
        if left <= 0:
            raise ValueError(
                f"plan(budget={budget!r}): planning alone took {seconds - left:.1f} s. Give more time."
            )
        return left

    least = least_cost(dimension, size) + FEWEST_STEPS * num_chains * BATCH_SIZES[0]
    if SHARE * limit < least:
        raise ValueError(
            f"plan(budget={budget!r}): {int(limit):,} evaluations are too few for a plan of "
            f"{dimension} parameters on {size:,} data. Half of a budget is for planning, so give "
            f"at least {int(least / SHARE):,} ({least / SHARE / size:.1f} passes)."
        )
    fewest = fewest_rows(dimension, size)
    most = max(fewest, min(2048, size // 4))
    rows = int(np.clip(PILOT * limit / (1 + 2 * dimension), fewest, most))
    mode, model, pilot_cost = pilot(posterior, data, params, rows, seed, SHARE * limit)
    case = Case(posterior, data, mode, model, num_chains)
    if seconds is not None:
        pace, cost = measure_pace(case)
        case, pilot_cost = case._replace(pace=pace), pilot_cost + cost
        ranking = rank(case, time_left())
        evaluations = pilot_cost + run_cost(ranking[0])
    elif evaluations is not None:
        if evaluations - pilot_cost < FEWEST_STEPS * num_chains * BATCH_SIZES[0]:
            raise ValueError(
                f"plan(budget={budget!r}): the plan alone took {pilot_cost:,} of {int(evaluations):,} "
                "evaluations. Give a larger budget, or fewer chains."
            )
        ranking = rank(case, (evaluations * (1 - TRIAL) - pilot_cost) / num_chains)
        if target is not None and ranking[0].score <= target:
            evaluations, ranking = cheapest(case, pilot_cost, target, most=evaluations)
    else:
        assert target is not None
        evaluations, ranking = cheapest(case, pilot_cost, target)
    best, cost, note = run_trial(case, ranking[0], evaluations, seed)
    pilot_cost += cost
    if target is not None:  # a trial may have taken more than its share
        evaluations = min(limit, max(evaluations, pilot_cost + run_cost(best)))
    left = time_left() if seconds is not None else (evaluations - pilot_cost) / num_chains
    count = min(best.num_steps, best.sampler.affordable_steps(size, left, *case.pace))
    if count < FEWEST_STEPS:
        raise ValueError(
            f"plan(budget={budget!r}): planning took {pilot_cost:,} evaluations and leaves fewer than "
            f"{FEWEST_STEPS} steps. Give a larger budget, or fewer chains."
        )
    prediction: Any = predict(model, best.sampler, num_steps=count, num_chains=num_chains)
    score, bias = float(prediction.score[0]), float(prediction.bias[0])
    best = Candidate(best.sampler, count, score, bias)
    if seconds is not None:
        evaluations = pilot_cost + run_cost(best)
    if target is not None and score > target:
        note += f" The target C = {target:g} is out of reach for this budget."
    if model.unresolved:
        note += (
            f" The curvature of {model.unresolved} of {dimension} directions is not resolved: the "
            "data hardly determine them, and neither does the prior. The forecast takes a floor there."
        )
    if count < FEW_STEPS or score > LARGE_ERROR:
        few = (
            f"The budget leaves {count:,} steps of a chain, worth {1 / score:.2g} independent draws: "
            "too little to trust. Give a larger budget or fewer chains, and scale the features alike."
        )
        warnings.warn(f"plan(budget={budget!r}): {few}", stacklevel=2)
        note += f" {few}"
    return Plan(
        choice=best,
        num_chains=num_chains,
        init=mode,
        score=score,
        bias=bias,
        variance=score - bias,
        budget=int(evaluations),
        pilot=int(pilot_cost),
        runners_up=tuple(best_of_each_kind(ranking)[1:6]),
        note=note.strip(),
    )


def cheapest(
    case: Case, pilot_cost: int, target: float, most: float = np.inf
) -> tuple[float, list[Candidate]]:
    """The smallest budget, to a factor of 1.25, whose best candidate reaches the target."""
    size = case.model.size
    limit = min((most * (1 - TRIAL) - pilot_cost) / case.num_chains, 1e7 * size)
    allowance = min(max(2.0 * size, 4 * FEWEST_STEPS * BATCH_SIZES[0]), limit)
    short, enough, best_ranking = allowance / 1.25, np.inf, []
    while enough > 1.26 * short:
        ranking = rank(case, allowance)
        score = ranking[0].score
        if score <= target:
            enough, best_ranking = allowance, ranking
        elif allowance < limit:
            short = allowance
        elif most < np.inf:
            return most, ranking
        else:
            raise ValueError(
                f"plan(target={target}): not reached within ten million passes; the best is "
                f"C = {score:.3g}. Ask for less."
            )
        # errors fall like 1 / the budget at best, so this rarely goes too far
        further = short * np.clip(0.8 * score / target, 1.25, 1000)
        allowance = min(further, limit) if enough == np.inf else np.sqrt(short * enough)
    return (pilot_cost + case.num_chains * enough) / (1 - TRIAL), best_ranking


def parse_budget(budget: Any, size: int) -> tuple[float | None, float | None]:
    """(evaluations, None) or (None, seconds)."""
    if budget is None:
        return None, None
    if isinstance(budget, timedelta):
        return None, positive("plan", "budget", budget.total_seconds())
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-z]+)\s*", budget)
        number, unit = (float(match[1]), match[2]) if match else (0.0, "")
        evaluations = {"evaluations": 1, "pass": size, "passes": size}
        if unit in SECONDS:
            return None, positive("plan", "budget", number * SECONDS[unit])
        if unit in evaluations:
            return positive("plan", "budget", number * evaluations[unit]), None
        raise ValueError(
            f"plan(budget={budget!r}): write a number of evaluations, '200 passes', '60 s' or '5 min'."
        )
    return positive("plan", "budget", budget), None
