"""Run a job: `vr.sample` starts it, resumes it, or loads it when it is finished."""

from typing import Any

import jax

from vrsgmcmc.core import Sampler
from vrsgmcmc.run import Result, chain_roots, finite_starts, is_function, sample, set_up

from .choose_sampler import SAMPLER, SamplerChoice
from .directory import Job
from .problem import Problem


def sample_arguments(choice: SamplerChoice, problem: Problem) -> dict[str, Any]:
    """The arguments of `vr.sample`. The choice may come from a file: it can name methods, not code."""
    names = SAMPLER | {"num_steps", "num_chains", "burn_in", "thin", "chain_method"}
    if odd := sorted(names ^ choice.settings.keys()):
        raise ValueError(f"these are not the settings of a run: {', '.join(odd)}.")
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
    record = {name: choice.settings[name] for name in SAMPLER}
    return {
        "posterior": problem.posterior,
        "data": problem.data,
        "init": start,
        **choice.settings,
        **vars(Sampler.from_json(record, center=start)),
    }


def check_settings(seed: int, problem: Problem, choice: SamplerChoice) -> None:
    """Refuse settings that cannot be run, and bad starts, before a directory is made for them."""
    arguments = sample_arguments(choice, problem)
    sampler = Sampler(**{name: arguments.pop(name) for name in SAMPLER})
    setup = set_up(seed, sampler=sampler, draws_in_memory=False, **arguments)
    finite_starts(setup, chain_roots(setup.key, setup.num_chains))


def run(job: Job, problem: Problem, progress: bool | None = None) -> Result:
    """Sample into the job's directory; a finished run is only read."""
    arguments = sample_arguments(job.choice, problem)
    return sample(job.config.seed, **arguments, run_dir=job.chains, progress=progress)
