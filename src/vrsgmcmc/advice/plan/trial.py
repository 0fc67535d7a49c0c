"""Short runs: does the best candidate behave as predicted, and how fast is a step?"""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc.core import Params, Sampler, observable
from vrsgmcmc.core.estimators import minibatch
from vrsgmcmc.core.integrators import sgld
from vrsgmcmc.run import Result, sample
from vrsgmcmc.theory import predict

from .candidates import FEWEST_STEPS, Candidate, Case, Pace

TRIAL = 0.02  # of the budget, for a trial of the best candidate
MOST_HALVINGS = 5


def run_trial(
    case: Case, candidate: Candidate, evaluations: float, seed: int
) -> tuple[Candidate, int, str]:
    """Run a few steps; halve the step size until they stay as close to the mode as predicted.

    (x - c)^T H (x - c) / d is 1 on average under the posterior; up to `limit`, noise and chance
    explain it. Returns the candidate, the evaluations of the trials, and a note for the user.
    """
    model, cost, note = case.model, 0, ""
    center, _ = ravel_pytree(case.mode)
    root = jnp.asarray(model.directions * np.sqrt(model.curvature), center.dtype)
    distance = observable(square_distance, data={"root": root, "center": center})
    for halvings in range(MOST_HALVINGS + 1):
        sampler = candidate.sampler
        count = sampler.affordable_steps(model.size, TRIAL * evaluations)
        count = min(int(np.clip(count, FEWEST_STEPS, 2000)), candidate.num_steps)
        result = run(case, seed, sampler, count, num_chains=1, observables={"spread": distance})
        cost += result.evaluations
        limit = 2 * (1 + float(predict(model, sampler).inflation.max())) + 6 / np.sqrt(len(center))
        if not result.diverged[0] and float(result.averages["spread"][0]) < limit < np.inf:
            break
        if halvings == MOST_HALVINGS:
            note += " The last trial did, too: the model does not fit; look at a short run first."
            break
        candidate = candidate._replace(sampler=replace(sampler, step_size=sampler.step_size / 2))
        note = (
            f"The step size was divided by {2 ** (halvings + 1)}: a trial went further out than the "
            "model predicts."
        )
    return candidate, cost, note


def run(case: Case, seed: int, sampler: Sampler, num_steps: int, **options: Any) -> Result:
    """A run from the mode that keeps only averages; other options of `vr.sample` are `options`."""
    options |= {"num_steps": num_steps, "keep": "averages", "progress": False}
    return sample(seed, case.posterior, case.data, case.mode, **vars(sampler), **options)


def square_distance(params: Params, data: dict[str, Any]) -> Any:
    """(x - c)^T H (x - c) / d, with H = root root^T."""
    return jnp.mean(jnp.square((ravel_pytree(params)[0] - data["center"]) @ data["root"]))


def measure_pace(case: Case) -> tuple[Pace, int]:
    """Seconds per step and per datum of a step, all chains together, and the evaluations."""
    times, cost = [], 0
    step_size = 1e-3 / float(case.model.curvature.max())
    batch_sizes = (min(5, case.model.size), min(100, case.model.size))
    for batch_size in batch_sizes:
        sampler = Sampler(minibatch(), sgld(), step_size, batch_size)
        for count in (200, 2000):  # the first compiles
            result = run(case, 0, sampler, count, num_chains=case.num_chains)
            cost += result.evaluations
        times.append(result.seconds / count)
    per_datum = max(times[1] - times[0], 0.0) / max(batch_sizes[1] - batch_sizes[0], 1)
    per_step = times[0] - batch_sizes[0] * per_datum
    return Pace(max(per_step, 1e-9), max(per_datum, 1e-12)), cost
