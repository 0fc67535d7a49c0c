"""The settings of the sampler: from the configuration, from a plan, or from a search for a step size.

A plan (`vr.plan`) models the posterior around one mode, for at most 128 parameters. For larger models,
and networks, which have many modes, the default is SGLD on shuffled minibatches, with half of the step
size that fits the training data best among short chains.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.advice.plan import LARGEST, parse_budget, plan
from vrsgmcmc.core import Params, Posterior, Sampler, observable
from vrsgmcmc.core.estimators import minibatch
from vrsgmcmc.core.integrators import sgld
from vrsgmcmc.run import sample

from ..configuration import Config, method
from .problem import Problem, log_likelihoods

DRAWS = 1000  # of a chain, about
PASSES, MOST_EVALUATIONS = 2000, 10**8  # the budget when none is given
STEP_SIZES = np.geomspace(1.0, 1e-4, 8)  # of the search, times N
SEARCH_STEPS, SEARCH_ROWS = 400, 512
BATCH = 32
SAMPLER = {each.name for each in dataclasses.fields(Sampler)}


class SamplerChoice(NamedTuple):
    """Settings for `vr.sample` as plain values, where the chains start, and why."""

    settings: dict[str, Any]
    start: Any  # parameters, or a list of their leaves; None: at `init` of the problem
    notes: tuple[str, ...]


def choose(config: Config, problem: Problem, say: Callable[[str], None]) -> SamplerChoice:
    """The sampler of a job: with a step size the configuration's, else planned or searched."""
    if config.step_size is not None:
        return from_config(config, problem)
    if config.model != "mlp" and problem.dimension <= LARGEST:
        say("planning ...")
        return from_plan(config, problem)
    say("searching for a step size ...")
    return from_search(config, problem)


def from_config(config: Config, problem: Problem) -> SamplerChoice:
    size = len(problem.data[1])
    estimator = method(config, "estimator")
    default = size if estimator["name"] == "full" else min(10, max(1, size // 4))
    batch_size = config.batch_size or default
    if estimator["name"] == "practical":
        estimator.setdefault("anchor_size", min(100, max(batch_size + 1, size // 2)))
    sampler = {
        "estimator": estimator,
        "integrator": method(config, "integrator"),
        "step_size": config.step_size,
        "batch_size": batch_size,
        "order": config.order or "without_replacement",
    }
    settings = complete(config, sampler, config.num_steps or 10_000, burn_in=0.2)
    return SamplerChoice(settings, None, ())


def complete(config: Config, sampler: dict[str, Any], steps: int, burn_in: float) -> dict[str, Any]:
    """The settings of a sampler's run; `burn_in` is a fraction of the steps."""
    first = int(burn_in * steps) if config.burn_in is None else config.burn_in
    return {
        "anchor_order": config.anchor_order or "without_replacement",
        "clip": config.clip,
        **sampler,
        "num_steps": steps,
        "num_chains": config.num_chains,
        "burn_in": first,
        "thin": config.thin or max(1, (steps - first) // DRAWS),
        "chain_method": config.chain_method,
    }


def budget_of(config: Config, size: int) -> str:
    return config.budget or f"{min(PASSES * size, MOST_EVALUATIONS)} evaluations"


def from_plan(config: Config, problem: Problem) -> SamplerChoice:
    best = plan(
        problem.posterior,
        problem.data,
        problem.init,
        budget=budget_of(config, len(problem.data[1])),
        num_chains=config.num_chains,
        seed=config.seed,
    )
    sampler = best.choice.sampler.to_json()
    if "center" in sampler["estimator"]:  # of a control variate; `sample_arguments` puts it back
        sampler["estimator"]["center"] = "start"
    notes = ("Chosen by vr.plan; the chains start at a mode of the posterior.", str(best))
    settings = complete(config, sampler, best.choice.num_steps, burn_in=0.0)
    return SamplerChoice(settings, best.init, notes)


def from_search(config: Config, problem: Problem) -> SamplerChoice:
    """The step size by short chains side by side, scored by the fit to some of the training data."""
    size = len(problem.data[1])
    batch_size = min(BATCH, max(1, size // 4))
    rows = min(SEARCH_ROWS, size)
    some = jax.tree.map(lambda leaf: leaf[:rows], problem.data)
    search = sample(
        config.seed,
        problem.posterior,
        problem.data,
        problem.init,
        **vars(Sampler(minibatch(), sgld(), STEP_SIZES / size, batch_size, order="shuffled")),
        num_steps=SEARCH_STEPS,
        num_chains=len(STEP_SIZES),
        burn_in=SEARCH_STEPS // 2,
        observables={"fit": observable(Fit(problem.posterior), data=some, every=10)},
        keep="averages",
        progress=False,
    )
    fits = np.asarray(search.averages["fit"], np.float64)
    fits = np.nan_to_num(fits, nan=-np.inf, neginf=-np.inf)
    if not np.isfinite(fits).any():
        raise ValueError(
            f"no step size from {STEP_SIZES[-1] / size:.2g} to {STEP_SIZES[0] / size:.2g} kept a "
            "chain finite. Standardise the columns, or give a smaller step_size."
        )
    best = STEP_SIZES[int(np.argmax(fits))] / size
    evaluations, seconds = parse_budget(budget_of(config, size), size)
    if evaluations is None:
        assert seconds is not None
        seconds_per_step = search.seconds / (SEARCH_STEPS * len(STEP_SIZES))
        evaluations = seconds / seconds_per_step * batch_size
    steps = int(np.clip(evaluations / (config.num_chains * batch_size), 100, 10**8))
    sampler = {
        "estimator": {"name": "minibatch"},
        "integrator": {"name": "sgld"},
        "step_size": float(f"{best / 2:.3g}"),
        "batch_size": batch_size,
        "order": "shuffled",
    }
    why = (
        "a network has many modes, and a plan knows one"
        if config.model == "mlp"
        else f"{problem.dimension:,} parameters are more than the {LARGEST} of a plan"
    )
    note = (
        f"Chosen by a search, because {why}: SGLD on shuffled minibatches of {batch_size}, with half "
        f"of {best:.2g}, the step size that fitted the training data best in {SEARCH_STEPS} steps; "
        "the first half of the steps is burn-in. R-hat tells whether the chains converged."
    )
    return SamplerChoice(complete(config, sampler, steps, burn_in=0.5), None, (note,))


@dataclasses.dataclass(frozen=True)
class Fit:
    """The mean log-likelihood of rows. Equal for equal posteriors, so it is compiled once."""

    posterior: Posterior

    def __call__(self, params: Params, data: Any) -> Any:
        return jnp.mean(log_likelihoods(self.posterior, params, data))
