"""A result, out of what a run has done: here or in an earlier process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vrsgmcmc.core import Sampler, State
from vrsgmcmc.run.result import Context, Divergence, Result
from vrsgmcmc.run.setup import Job


class Done(NamedTuple):
    """How far a run is."""

    steps: int
    visits: int  # data that refreshes have visited, per chain
    searched: int  # evaluations that the search for a centre took
    seconds: float
    divergences: tuple[Divergence, ...]


def evaluations(job: Job, done: Done, chains: int) -> int:
    """Per-datum gradient evaluations of so many chains."""
    program = job.program
    each = job.setting.estimator.cost(program.size, program.batch_size)
    return chains * (done.steps * each + done.visits)


def gather(
    job: Job,
    done: Done,
    state: State,
    averages: tuple,
    draws: Any,
    interrupted: bool = False,
    signal: int | None = None,
    run_dir: Path | None = None,
) -> Result:
    program, diverged = job.program, np.zeros(job.num_chains, bool)
    diverged[[one.chain for one in done.divergences]] = True
    cost = evaluations(job, done, job.num_chains) + done.searched
    return Result(
        draws=draws,
        averages=dict(zip(job.names, averages, strict=True)),
        evaluations=cost,
        data_passes=cost / (program.size * job.num_chains),
        seconds=done.seconds,
        state=state,
        diverged=diverged,
        divergences=done.divergences,
        num_steps=done.steps,
        interrupted=interrupted,
        settings=job.settings,
        draw_steps=job.draw_steps(0, job.draws_before(job.first + done.steps)),
        context=Context(
            posterior=program.posterior,
            data=job.setting.data,
            sampler=Sampler(
                estimator=job.setting.estimator,
                integrator=job.setting.integrator,
                step_size=float(np.mean(job.step_sizes) * job.schedule[-1]),
                batch_size=program.batch_size,
                order=program.order,
                anchor_order=program.anchor_order,
                clip=job.setting.clip,
            ),
        ),
        signal=signal,
        run_dir=run_dir,
    )
