"""A job, run or resumed or loaded: `vr.sample` knows which."""

from __future__ import annotations

from typing import Any

from vrsgmcmc.cli.jobs.choose_sampler import Choice, arguments
from vrsgmcmc.cli.jobs.directory import Job, start_of
from vrsgmcmc.cli.jobs.problem import Problem
from vrsgmcmc.run import Result, prepare, sample


def rehearse(seed: int, problem: Problem, choice: Choice) -> None:
    """Refuse settings that cannot be run, before there is a directory of them."""
    start = problem.init if choice.start is None else choice.start
    prepare(
        key=seed,
        posterior=problem.posterior,
        data=problem.data,
        init=start,
        observables=None,
        weights="step_size",
        keep="draws",
        held=False,
        **arguments(choice.settings, start),
    )


def run(job: Job, problem: Problem, progress: bool | None = None, **changes: Any) -> Result:
    """Sample into the job's directory; a run that is finished is only read."""
    start = start_of(job, problem)
    settings = {**arguments(job.choice.settings, start), **changes}
    return sample(
        job.config.seed,
        problem.posterior,
        problem.data,
        start,
        **settings,
        run_dir=job.chains,
        progress=progress,
    )
