"""What a model of the library says about its table: effects of the columns on the target."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from vrsgmcmc.reports import Answer, Effect
from vrsgmcmc.run import Result

from .directory import Job


def answer_of(job: Job, result: Result) -> Answer | None:
    """The effects of a linear, logistic or softmax model; None for other models, or without draws."""
    ready, model = job.ready, job.config.model
    if model not in ("linear", "logistic", "softmax") or result.draws is None:
        return None
    if result.diverged.all():
        return None
    ratio = model != "linear"
    target = ready.target if not ratio else f"{ready.target} = {ready.labels[-1]}"
    questions = {
        "linear": f"What goes with a higher {ready.target}?",
        "logistic": f"What goes with {target}?",
        "softmax": f"What goes with each class of {ready.target}?",
    }
    return Answer(
        question=questions[model],
        target=target,
        scale="odds ratio" if ratio else f"difference in {ready.target}",
        effects=list(effects_of(job, result)),
        reference=1.0 if ratio else 0.0,
        treatment=[*ready.notes],
        prior=f"every coefficient is N(0, {job.config.prior_variance:g}).",
    )


def effects_of(job: Job, result: Result) -> Iterator[Effect]:
    """An effect for each column, and each class of softmax against the mean of all classes."""
    ready, alive = job.ready, ~result.diverged
    unit = "per 1 sd" if job.config.standardise else "per 1"
    if job.config.model == "softmax":
        weight = flatten(result.draws["weight"], alive)  # [draw, column, class]
        weight = weight - weight.mean(-1, keepdims=True)
        for k, label in enumerate(ready.labels):
            for j, column in enumerate(ready.columns):
                options: Any = {"ratio": True, "unit": unit, "group": label}
                yield Effect.of_draws(column, weight[:, j, k], **options)
        return
    draws = flatten(result.draws, alive)
    draws = draws[:, draws.shape[1] - len(ready.columns) :]  # without the intercept
    scale = 1.0 if job.config.model == "logistic" else ready.scale
    for column, values in zip(ready.columns, scale * draws.T, strict=True):
        yield Effect.of_draws(column, values, ratio=job.config.model == "logistic", unit=unit)


def flatten(draws: Any, alive: np.ndarray) -> np.ndarray:
    """Draws of the chains that stayed finite, [draw, ...]."""
    leaf = np.asarray(draws, np.float64)[alive]
    return leaf.reshape(-1, *leaf.shape[2:])
