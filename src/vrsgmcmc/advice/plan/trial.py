"""Short runs: does the best candidate behave as predicted, and how fast is a step?"""

from dataclasses import replace
from typing import Any

import numpy as np

from vrsgmcmc.core import Sampler
from vrsgmcmc.core.estimators import minibatch
from vrsgmcmc.core.integrators import sgld
from vrsgmcmc.run import Result, sample
from vrsgmcmc.theory import predict

from .candidates import Candidate, Case, Pace
from .walk import levers, walk

TRIAL = 0.05  # of the budget, for a trial of the best candidate
TRIALS = 0.2  # of the budget, for all trials
CHAINS, FEWEST_CHAINS = 4, 2
SHORTEST, LONGEST = 10, 2000  # steps
MOST_HALVINGS = 5
EXCURSION = 4  # times the limit of a mean: no step may be so far out


def run_trial(
    case: Case, candidate: Candidate, evaluations: float, seed: int
) -> tuple[Candidate, int, str]:
    """Run a few steps; halve the step size until they stay as close to the mode as predicted.

    (x - c)^T H (x - c) / d is 1 on average under the posterior; up to `limit`, noise and chance
    explain its mean over a chain, and up to four times that its largest value. Returns the candidate,
    the evaluations of the trials, and a note for the user.
    """
    model, note = case.model, ""
    cost = int(min(model.size, max(1, TRIAL * evaluations)))
    top = levers(case, cost, seed)
    for halvings in range(MOST_HALVINGS + 1):
        sampler = candidate.sampler
        num_chains, count = trial_size(sampler, model.size, TRIAL * evaluations)
        count = min(count, candidate.num_steps)
        squares, more = walk(case, sampler, count, num_chains, top, seed)
        cost += more
        inflation = float(predict(model, sampler).inflation.max())
        limit = 2 * (1 + inflation) + 6 / np.sqrt(len(model.curvature))
        inside = np.all(squares.mean(1) < limit) and np.all(squares < EXCURSION * limit)
        if inside and limit < np.inf:
            break
        if halvings == MOST_HALVINGS or cost + more > TRIALS * evaluations:
            note += (
                " The last trial went too far: the model does not fit; look at a short run first."
            )
            break
        candidate = candidate._replace(sampler=replace(sampler, step_size=sampler.step_size / 2))
        note = (
            f"The step size was divided by {2 ** (halvings + 1)}: a trial went further out than the "
            "model predicts."
        )
    return candidate, cost, note.strip()


def trial_size(sampler: Sampler, size: int, allowance: float) -> tuple[int, int]:
    """Chains of a trial and their steps, for an allowance of evaluations."""
    num_chains = CHAINS
    if sampler.affordable_steps(size, allowance / CHAINS) < SHORTEST:
        num_chains = FEWEST_CHAINS
    count = sampler.affordable_steps(size, allowance / num_chains)
    return num_chains, int(np.clip(count, SHORTEST, LONGEST))


def run(case: Case, seed: int, sampler: Sampler, num_steps: int, **options: Any) -> Result:
    """A run from the mode that keeps only averages; other options of `vr.sample` are `options`."""
    options |= {"num_steps": num_steps, "keep": "averages", "progress": False}
    return sample(seed, case.posterior, case.data, case.mode, **vars(sampler), **options)


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
