"""The candidates, and their ranking under the local model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from vrsgmcmc.core import Data, Params, Posterior, nbytes
from vrsgmcmc.core.estimators import control_variate, full, minibatch, practical, saga, svrg
from vrsgmcmc.core.integrators import sgld, splitting
from vrsgmcmc.run import free_memory
from vrsgmcmc.theory import Local, forecast, response

FEWEST_STEPS = 20
BATCH_SIZES = (5, 10, 20, 50, 100)
FRICTIONS = (1.0, 2.0, 4.0, 8.0)  # times the square root of the least curvature
SGLD_STEPS = np.geomspace(1e-4, 1.0, 25)  # times 1 / the largest curvature
KINETIC_STEPS = np.geomspace(0.01, 1.0, 15)  # times its inverse square root


class Choice(NamedTuple):
    """A way to run, at its best step size."""

    estimator: Any
    integrator: Any
    batch_size: int
    order: str
    anchor_order: str
    step_size: float
    num_steps: int
    score: float  # predicted C
    bias: float  # its part due to bias

    def __str__(self) -> str:
        orders = {"order": self.order, "anchor_order": self.anchor_order}
        if self.estimator.name != "practical":
            del orders["anchor_order"]
        shown = ", ".join(f"{k}={v}" for k, v in orders.items() if v != "without_replacement")
        name = _shown(self.estimator)
        kinetic = (
            f"{self.integrator.word}, friction {self.integrator.friction:.3g}"
            if (self.integrator.name == "splitting")
            else self.integrator.name
        )
        return f"{name}, {kinetic}, n = {self.batch_size}{', ' if shown else ''}{shown}"


class Case(NamedTuple):
    """What candidates are judged by."""

    posterior: Posterior
    data: Data
    mode: Params
    model: Local
    num_chains: int
    pace: tuple[float, float] | None  # seconds per step, and per datum in it


def rank(case: Case, allowance: float) -> list[Choice]:
    """All candidates that fit the allowance of one chain, evaluations or seconds, best first.

    Of those within 5 % of the best, the one with the fewest steps comes first: steps cost time, too.
    """
    model = case.model
    found = []
    for integrator, steps in integrators(model):
        filter = response(integrator, steps, model.curvature)
        for estimator, batch_size, order, anchor_order in estimators(case):
            choice = Choice(
                estimator, integrator, batch_size, order, anchor_order, 0.0, 1, 0.0, 0.0
            )
            count = affordable(case, choice, allowance)
            if count < FEWEST_STEPS:
                continue
            there = forecast(
                model,
                estimator,
                integrator,
                steps,
                batch_size=batch_size,
                order=order,
                anchor_order=anchor_order,
                num_steps=count,
                num_chains=case.num_chains,
                filter=filter,
            )
            assert there.score is not None
            assert there.bias is not None
            best = int(np.argmin(there.score))
            if np.isfinite(there.score[best]):
                found.append(
                    choice._replace(
                        step_size=float(steps[best]),
                        num_steps=count,
                        score=float(there.score[best]),
                        bias=float(there.bias[best]),
                    )
                )
    if not found:
        raise ValueError(
            "plan: the budget does not allow 20 steps of any sampler. Give a larger one."
        )
    found.sort(key=lambda choice: choice.score)
    near = [choice for choice in found if choice.score < 1.05 * found[0].score]
    first = min(near, key=lambda choice: choice.num_steps)
    return [first, *(choice for choice in found if choice is not first)]


def estimators(case: Case) -> Iterator[tuple[Any, int, str, str]]:
    """Estimator, batch size, order and anchor order of every candidate."""
    size, iid, shuffled = case.model.size, "without_replacement", "shuffled"
    yield full(), size, iid, iid
    table = 3 * nbytes(case.mode) * size * case.num_chains
    for n in (n for n in BATCH_SIZES if n <= max(size // 4, 1)):
        yield minibatch(), n, iid, iid
        yield minibatch(), n, shuffled, iid
        for anchors in (10 * n, 40 * n):
            if anchors < size:
                yield practical(anchors, 10), n, iid, shuffled
                yield practical(anchors, 30), n, iid, shuffled
        for sweeps in (0.5, 1, 2):
            yield svrg(max(1, round(sweeps * size / n))), n, iid, iid
        if table < free_memory() / 4:
            yield saga(), n, iid, iid
        if case.posterior.augment is None:
            for order in (iid, shuffled):
                yield control_variate(case.mode), n, order, iid


def integrators(model: Local) -> Iterator[tuple[Any, Any]]:
    """Integrators and the step sizes to look at."""
    largest, least = model.curvature.max(), model.curvature.min()
    yield sgld(), SGLD_STEPS / largest
    for factor in FRICTIONS:
        yield splitting("BAOAB", factor * float(np.sqrt(least))), KINETIC_STEPS / np.sqrt(largest)


def costs(choice: Choice, size: int) -> tuple[int, int, int | None]:
    """Evaluations of a step, evaluations of a refresh, and steps between refreshes (None: one)."""
    estimator, n = choice.estimator, choice.batch_size
    return estimator.cost(size, n), estimator.refresh_size(size), estimator.refresh_period(size, n)


def affordable(case: Case, choice: Choice, allowance: float) -> int:
    """Steps of one chain for an allowance of evaluations, or of seconds where the pace is known."""
    per_step, per_datum = case.pace or (0.0, 1.0)
    each, anchor, period = costs(choice, case.model.size)
    step, refresh = per_step + each * per_datum, anchor * per_datum
    if period is None:
        return int((allowance - refresh) / step)
    cycles, rest = divmod(allowance, refresh + period * step)
    return int(cycles) * period + max(0, int((rest - refresh) / step))


def total_cost(choice: Choice, size: int) -> int:
    """Evaluations of one chain."""
    each, anchor, period = costs(choice, size)
    return each * choice.num_steps + anchor * (-(-choice.num_steps // period) if period else 1)


def distinct(ranking: list[Choice]) -> list[Choice]:
    """The best of each estimator, integrator and order."""
    seen: dict[Any, Choice] = {}
    for choice in ranking:
        kind = choice.estimator.name, choice.integrator.name, choice.order, choice.anchor_order
        seen.setdefault(kind, choice)
    return list(seen.values())


def _shown(estimator: Any) -> str:
    names = [n for n in ("anchor_size", "period") if getattr(estimator, n, None) is not None]
    return f"{estimator.name}({', '.join(f'{n}={getattr(estimator, n)}' for n in names)})"
