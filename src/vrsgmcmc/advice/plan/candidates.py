"""The candidates, and their ranking under the local model."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from vrsgmcmc.core import Data, Integrator, Params, Posterior, Sampler, nbytes
from vrsgmcmc.core.estimators import control_variate, full, minibatch, practical, saga, svrg
from vrsgmcmc.core.integrators import sgld, splitting
from vrsgmcmc.run import free_memory
from vrsgmcmc.theory import Local, predict, response

FEWEST_STEPS = 20
BATCH_SIZES = (5, 10, 20, 50, 100)
FRICTIONS = (1.0, 2.0, 4.0, 8.0)  # times the square root of the least curvature
SGLD_STEPS = np.geomspace(1e-4, 1.0, 25)  # times 1 / the largest curvature
KINETIC_STEPS = np.geomspace(0.01, 1.0, 15)  # times its inverse square root


class Candidate(NamedTuple):
    """A sampler at its best step size, and the predicted error of its run."""

    sampler: Sampler
    num_steps: int
    score: float  # predicted C
    bias: float  # its part due to bias

    def __str__(self) -> str:
        sampler, estimator = self.sampler, self.sampler.estimator
        integrator: Any = sampler.integrator
        sizes = {name: getattr(estimator, name, None) for name in ("anchor_size", "period")}
        options = ", ".join(f"{name}={size}" for name, size in sizes.items() if size is not None)
        parts = [f"{estimator.name}({options})", integrator.name, f"n = {sampler.batch_size}"]
        if integrator.name == "splitting":
            parts[1] = f"{integrator.word}, friction {integrator.friction:.3g}"
        if sampler.order != "without_replacement":
            parts.append(f"order={sampler.order}")
        if estimator.name == "practical" and sampler.anchor_order != "without_replacement":
            parts.append(f"anchor_order={sampler.anchor_order}")
        return ", ".join(parts)


class Pace(NamedTuple):
    """What a step costs, in seconds or, as by default, in evaluations."""

    per_step: float = 0.0
    per_datum: float = 1.0


class Case(NamedTuple):
    """A posterior with its local model, the number of chains, and the cost of their steps."""

    posterior: Posterior
    data: Data
    mode: Params
    model: Local
    num_chains: int
    pace: Pace = Pace()


def rank(case: Case, allowance: float) -> list[Candidate]:
    """All candidates that fit the allowance of one chain, evaluations or seconds, best first.

    Of those within 5 % of the best, the one with the fewest steps comes first: steps cost time, too.
    """
    model, candidates = case.model, []
    for integrator, step_sizes in integrators(model):
        filter = response(integrator, step_sizes, model.curvature)
        for sampler in samplers(case, integrator):
            count = sampler.affordable_steps(model.size, allowance, *case.pace)
            if count < FEWEST_STEPS:
                continue
            run = {"num_steps": count, "num_chains": case.num_chains, "filter": filter}
            prediction: Any = predict(model, replace(sampler, step_size=step_sizes), **run)
            best = int(np.argmin(prediction.score))
            if np.isfinite(prediction.score[best]):
                sampler = replace(sampler, step_size=float(step_sizes[best]))
                score, bias = float(prediction.score[best]), float(prediction.bias[best])
                candidates.append(Candidate(sampler, count, score, bias))
    if not candidates:
        raise ValueError(
            "plan: the budget does not allow 20 steps of any sampler. Give a larger one."
        )
    candidates.sort(key=lambda candidate: candidate.score)
    near = [each for each in candidates if each.score < 1.05 * candidates[0].score]
    first = min(near, key=lambda candidate: candidate.num_steps)
    return [first, *(each for each in candidates if each is not first)]


def samplers(case: Case, integrator: Integrator) -> Iterator[Sampler]:
    """Every candidate with this integrator; the step size is not set."""
    size = case.model.size
    table_bytes = 3 * nbytes(case.mode) * size * case.num_chains
    yield Sampler(full(), integrator, batch_size=size)
    for n in (n for n in BATCH_SIZES if n <= max(size // 4, 1)):
        plain = Sampler(minibatch(), integrator, batch_size=n)
        shuffled = replace(plain, order="shuffled")
        yield plain
        yield shuffled
        for anchors in (anchors for anchors in (10 * n, 40 * n) if anchors < size):
            for period in (10, 30):
                estimator = practical(anchors, period)
                yield replace(plain, estimator=estimator, anchor_order="shuffled")
        for sweeps in (0.5, 1, 2):
            yield replace(plain, estimator=svrg(max(1, round(sweeps * size / n))))
        if table_bytes < free_memory() / 4:
            yield replace(plain, estimator=saga())
        if case.posterior.augment is None:
            for sampler in (plain, shuffled):
                yield replace(sampler, estimator=control_variate(case.mode))


def integrators(model: Local) -> Iterator[tuple[Integrator, Any]]:
    """The integrators, and the step sizes to rank each with."""
    largest, least = model.curvature.max(), model.curvature.min()
    yield sgld(), SGLD_STEPS / largest
    for factor in FRICTIONS:
        yield splitting("BAOAB", factor * float(np.sqrt(least))), KINETIC_STEPS / np.sqrt(largest)


def best_of_each_kind(ranking: list[Candidate]) -> list[Candidate]:
    """The best candidate of each estimator, integrator and order."""
    best: dict[Any, Candidate] = {}
    for candidate in ranking:
        sampler = candidate.sampler
        names = sampler.estimator.name, sampler.integrator.name
        best.setdefault((*names, sampler.order, sampler.anchor_order), candidate)
    return list(best.values())
