"""Running a little: does the winner do what was predicted, and how fast is a step?"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc.advice.plan.candidates import FEWEST_STEPS, Case, Choice, affordable
from vrsgmcmc.core import Data, Params, Posterior, observable
from vrsgmcmc.core.estimators import minibatch
from vrsgmcmc.run import sample
from vrsgmcmc.theory import Forecast, Local, forecast

TRIAL = 0.02  # of the budget, for trying the winner
MOST_HALVINGS = 5


def tried(case: Case, choice: Choice, evaluations: float, seed: int) -> tuple[Choice, int, str]:
    """The winner after a few steps that went as predicted; halve its step size until they do.

    (x - c)^T H (x - c) / d is 1 on average under the posterior, and `most` is what noise and luck
    may make of it.
    """
    model, spent, note = case.model, 0, ""
    flat, _ = ravel_pytree(case.mode)
    root = jnp.asarray(model.directions * np.sqrt(model.curvature), flat.dtype)
    watched = {"root": root, "center": flat}
    for halvings in range(MOST_HALVINGS + 1):
        count = affordable(case._replace(pace=None), choice, TRIAL * evaluations)
        count = min(int(np.clip(count, FEWEST_STEPS, 2000)), choice.num_steps)
        result = sample(
            seed,
            case.posterior,
            case.data,
            case.mode,
            estimator=choice.estimator,
            integrator=choice.integrator,
            step_size=choice.step_size,
            batch_size=choice.batch_size,
            order=choice.order,
            anchor_order=choice.anchor_order,
            num_steps=count,
            num_chains=1,
            keep="averages",
            observables={"spread": observable(spread, data=watched)},
            progress=False,
        )
        spent += result.evaluations
        most = 2 * (1 + float(expected(case, choice).inflation.max())) + 6 / np.sqrt(len(flat))
        if not result.diverged[0] and float(result.averages["spread"][0]) < most < np.inf:
            break
        if halvings == MOST_HALVINGS:
            note += " The last trial did, too: the model does not fit; look at a short run first."
            break
        choice = choice._replace(step_size=choice.step_size / 2)
        note = (
            f"The step size was divided by {2 ** (halvings + 1)}: a trial went further out than the "
            "model predicts."
        )
    return choice, spent, note


def expected(case: Case, choice: Choice) -> Forecast:
    """What the model predicts of a choice."""
    return forecast(
        case.model,
        choice.estimator,
        choice.integrator,
        [choice.step_size],
        batch_size=choice.batch_size,
        order=choice.order,
        anchor_order=choice.anchor_order,
        num_steps=choice.num_steps,
        num_chains=case.num_chains,
    )


def spread(params: Params, watched: dict[str, Any]) -> Any:
    away = (ravel_pytree(params)[0] - watched["center"]) @ watched["root"]
    return jnp.mean(jnp.square(away))


def measure_pace(
    posterior: Posterior, data: Data, mode: Params, model: Local, num_chains: int, size: int
) -> tuple[tuple[float, float], int]:
    """Seconds per step and per datum of a step, all chains together, from two short runs each."""
    times, spent = [], 0
    counts = (min(5, size), min(100, size))
    for n in counts:
        for count in (200, 2000):  # the first compiles
            result = sample(
                0,
                posterior,
                data,
                mode,
                estimator=minibatch(),
                step_size=1e-3 / float(model.curvature.max()),
                batch_size=n,
                num_steps=count,
                num_chains=num_chains,
                keep="averages",
                progress=False,
            )
            spent += result.evaluations
            seconds = result.seconds
        times.append(seconds / 2000)
    per_datum = max(times[1] - times[0], 0.0) / max(counts[1] - counts[0], 1)
    return (max(times[0] - counts[0] * per_datum, 1e-9), max(per_datum, 1e-12)), spent
