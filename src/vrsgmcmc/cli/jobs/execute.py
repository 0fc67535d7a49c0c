"""Run a job: `vr.sample` starts it, resumes it, or loads it when it is finished."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.advice import parse_budget, sample
from vrsgmcmc.core import Sampler
from vrsgmcmc.run import Result, chain_roots, finite_starts, is_function, set_up

from .choose_sampler import ARGUMENTS, SamplerChoice
from .directory import Job
from .problem import Problem
from .scores import forward

ROUNDING = 1e-4  # of a probability in float32
SAMPLER = {each.name for each in dataclasses.fields(Sampler)}
REQUEST = {"budget", "ess"}
# in the place of what the library is to choose, to check the rest
PLACEHOLDER = {
    "estimator": {"name": "minibatch"},
    "integrator": {"name": "sgld"},
    "step_size": 1e-6,
    "batch_size": 1,
    "order": "without_replacement",
    "anchor_order": "without_replacement",
    "clip": None,
    "metric": None,
}


def sample_arguments(choice: SamplerChoice, problem: Problem) -> dict[str, Any]:
    """The arguments of `vr.sample`. The choice may come from a file: it can name methods, not code."""
    settings = {"metric": None} | choice.settings  # records of earlier versions have no metric
    names = SAMPLER | {*ARGUMENTS} - REQUEST
    odd = names ^ settings.keys()
    if choice.automatic:
        settings, odd = choice.settings, choice.settings.keys() - names - REQUEST
    if odd:
        raise ValueError(f"these are not the settings of a run: {', '.join(sorted(odd))}.")
    start = problem.init
    if choice.start is not None:
        like = jax.eval_shape(start, jax.random.key(0)) if is_function(start) else start
        leaves, structure = jax.tree.leaves(choice.start), jax.tree.structure(like)
        if structure.num_leaves != len(leaves):
            raise ValueError(
                f"this run has {len(leaves)} arrays of parameters, and the model "
                f"{structure.num_leaves}. Give the model it was started with."
            )
        start = jax.tree.unflatten(structure, leaves)
    record = PLACEHOLDER | {name: settings[name] for name in SAMPLER & settings.keys()}
    sampler = vars(Sampler.from_json(record | {"metric": None}, center=start))
    methods = {name: sampler[name] for name in ("estimator", "integrator") if name in settings}
    problem_parts = {"posterior": problem.posterior, "data": problem.data, "init": start}
    return {**problem_parts, **settings, **methods}


def check_settings(seed: int, problem: Problem, choice: SamplerChoice) -> None:
    """Refuse settings that cannot be run, and bad starts, before a directory is made for them."""
    parse_budget(choice.settings.get("budget"), problem.size)
    lengths = {"num_steps": 2**30, "burn_in": 0, "thin": 1}
    settings = PLACEHOLDER | lengths | choice.settings | {"metric": None}
    settings = {name: value for name, value in settings.items() if name not in REQUEST}
    arguments = sample_arguments(choice._replace(settings=settings), problem)
    sampler = Sampler(**{name: arguments.pop(name) for name in SAMPLER})
    setup = set_up(seed, sampler=sampler, draws_in_memory=False, **arguments)
    starts = finite_starts(setup, chain_roots(setup.key, setup.num_chains))
    check_predictions(problem, jax.tree.map(lambda leaf: leaf[:1], starts))


def check_predictions(problem: Problem, start: Any) -> None:
    """Refuse predictions for the test rows that no score can use, before anything is sampled."""
    test = problem.test
    outputs = None if test is None else forward(problem, start, jnp.asarray(test.x))
    if test is None or outputs is None:
        return
    fine = np.isfinite(outputs[0])
    if test.labels:
        fine &= (outputs[0] >= 0) & (outputs[0] <= 1 + ROUNDING)
    if not fine.all():
        row, *rest = np.argwhere(~fine)[0]
        x = np.array2string(test.x[row], precision=4, threshold=6)
        must = "probabilities, from 0 to 1" if test.labels else "finite numbers"
        raise ValueError(
            f"predict(params, x) must return {must}; at the start it returns "
            f"{outputs[0, row, *rest]:g} for x = {x}."
        )


def run(job: Job, problem: Problem, progress: bool | None = None) -> Result:
    """Sample into the job's directory; a finished run is only read."""
    arguments = sample_arguments(job.choice, problem)
    return sample(job.config.seed, **arguments, run_dir=job.chains, progress=progress)
