"""The settings of the sampler: as given, or by a plan, or by a search for a stable step size.

A plan (`vr.plan`) models the posterior around one mode, for at most 128 parameters. For larger models,
and networks, which have many modes, the default is SGLD on shuffled minibatches, with half of the step
size that fits the training data best among short chains.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.advice.plan import LARGEST, parse_budget, plan
from vrsgmcmc.cli.configuration import Config
from vrsgmcmc.cli.jobs.problem import Problem
from vrsgmcmc.core import ESTIMATORS, INTEGRATORS, Batch, observable, row_likelihoods
from vrsgmcmc.core.estimators import minibatch
from vrsgmcmc.core.integrators import sgld
from vrsgmcmc.run import sample

DRAWS = 1000  # of a chain, about
PASSES, MOST_EVALUATIONS = 2000, 10**8  # the budget when none is given
TRIED = np.geomspace(1.0, 1e-4, 8)  # step sizes of the search, times N
TRIED_STEPS, TRIED_ROWS = 400, 512
BATCH = 32
NAMES = {
    *("estimator", "integrator", "step_size", "batch_size", "num_steps", "order", "anchor_order"),
    *("clip", "num_chains", "burn_in", "thin", "chain_method"),
}  # of the settings in a record


class Choice(NamedTuple):
    """Settings for `vr.sample` as plain values, where the chains start, and how it was chosen."""

    settings: dict[str, Any]
    start: Any  # None: where the problem says
    notes: tuple[str, ...]


def choose(config: Config, problem: Problem, say: Callable[[str], None]) -> Choice:
    if config.step_size is not None:
        return given(config, problem)
    if config.model != "mlp" and problem.dimension <= LARGEST:
        say("planning ...")
        return planned(config, problem)
    say("searching for a step size ...")
    return searched(config, problem)


def given(config: Config, problem: Problem) -> Choice:
    size = len(problem.data[1])
    estimator: dict[str, Any] = {"name": config.estimator or "practical"}
    batch_size = config.batch_size or min(10, max(1, size // 4))
    if estimator["name"] == "practical":
        estimator["anchor_size"] = config.anchor_size or min(100, max(batch_size + 1, size // 2))
    if config.period is not None:
        estimator["period"] = config.period
    if estimator["name"] == "full":
        batch_size = config.batch_size or size
    integrator: dict[str, Any] = {"name": config.integrator or "sgld"}
    if integrator["name"] == "splitting":
        integrator["word"] = config.word or "BAOAB"
    for name in ("friction", "temperature"):
        if getattr(config, name) is not None:
            integrator[name] = getattr(config, name)
    settings = {
        "estimator": estimator,
        "integrator": integrator,
        "step_size": config.step_size,
        "batch_size": batch_size,
        "num_steps": config.num_steps or 10_000,
        "order": config.order or "without_replacement",
        "anchor_order": config.anchor_order or "without_replacement",
        "clip": config.clip,
    }
    return Choice(complete(config, settings, burn_in=0.2), None, ())


def complete(config: Config, settings: dict[str, Any], burn_in: float) -> dict[str, Any]:
    """With what no plan chooses."""
    steps = settings["num_steps"]
    left_out = int(burn_in * steps) if config.burn_in is None else config.burn_in
    return {
        **settings,
        "num_chains": config.num_chains,
        "burn_in": left_out,
        "thin": config.thin or max(1, (steps - left_out) // DRAWS),
        "chain_method": config.chain_method,
    }


def budget_of(config: Config, size: int) -> str:
    return config.budget or f"{min(PASSES * size, MOST_EVALUATIONS)} evaluations"


def planned(config: Config, problem: Problem) -> Choice:
    size = len(problem.data[1])
    chosen = plan(
        problem.posterior,
        problem.data,
        problem.init,
        budget=budget_of(config, size),
        num_chains=config.num_chains,
        seed=config.seed,
    )
    settings: dict[str, Any] = {**chosen.settings, "clip": None}
    for name in ("estimator", "integrator"):
        settings[name] = described(settings[name])
    notes = ("Chosen by vr.plan; the chains start at a mode of the posterior.", str(chosen))
    return Choice(complete(config, settings, burn_in=0.0), chosen.init, notes)


def searched(config: Config, problem: Problem) -> Choice:
    """The step size by short chains side by side, scored by the fit to some of the training data."""
    size = len(problem.data[1])
    batch_size = min(BATCH, max(1, size // 4))
    rows = min(TRIED_ROWS, size)
    some = jax.tree.map(lambda leaf: leaf[:rows], problem.data)
    tried = sample(
        config.seed,
        problem.posterior,
        problem.data,
        problem.init,
        estimator=minibatch(),
        integrator=sgld(),
        step_size=TRIED / size,
        batch_size=batch_size,
        order="shuffled",
        num_steps=TRIED_STEPS,
        num_chains=len(TRIED),
        burn_in=TRIED_STEPS // 2,
        observables={"fit": observable(Fit(problem.posterior), data=some, every=10)},
        keep="averages",
        progress=False,
    )
    fits = np.nan_to_num(np.asarray(tried.averages["fit"], np.float64), nan=-np.inf, neginf=-np.inf)
    if not np.isfinite(fits).any():
        raise ValueError(
            f"no step size from {TRIED[-1] / size:.2g} to {TRIED[0] / size:.2g} kept a chain finite. "
            "Standardise the columns, or give a smaller step_size."
        )
    best = TRIED[int(np.argmax(fits))] / size
    evaluations, seconds = parse_budget(budget_of(config, size), size)
    if evaluations is None:
        assert seconds is not None
        pace = tried.seconds / (TRIED_STEPS * len(TRIED))
        evaluations = seconds / pace * batch_size
    steps = int(np.clip(evaluations / (config.num_chains * batch_size), 100, 10**8))
    settings = {
        "estimator": {"name": "minibatch"},
        "integrator": {"name": "sgld"},
        "step_size": float(f"{best / 2:.3g}"),
        "batch_size": batch_size,
        "num_steps": steps,
        "order": "shuffled",
        "anchor_order": "without_replacement",
        "clip": None,
    }
    why = (
        "a network has many modes, and a plan knows one"
        if config.model == "mlp"
        else f"{problem.dimension:,} parameters are more than the {LARGEST} of a plan"
    )
    note = (
        f"Chosen by a search, because {why}: SGLD on shuffled minibatches of {batch_size}, with half "
        f"of {best:.2g}, the step size that fitted the training data best in {TRIED_STEPS} steps; the "
        "first half of the steps is burn-in. R-hat tells whether the chains converged."
    )
    return Choice(complete(config, settings, burn_in=0.5), None, (note,))


@dataclasses.dataclass(frozen=True)
class Fit:
    """The mean log-likelihood of some rows. Equal for equal posteriors: compiled once."""

    posterior: Any

    def __call__(self, params: Any, data: Any) -> Any:
        count = jax.tree.leaves(data)[0].shape[0]
        batch = Batch(jnp.arange(count), data)
        return jnp.mean(row_likelihoods(self.posterior, params, batch, jax.random.key(0)))


def described(value: Any) -> dict[str, Any]:
    """An estimator or integrator as plain values; a centre is where the chains start."""
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if "center" in fields:
        fields["center"] = "start"
    return {"name": value.name, **fields}


def arguments(settings: Mapping[str, Any], start: Any) -> dict[str, Any]:
    """The settings as `vr.sample` takes them. They may come from a file: names are looked up only."""
    if set(settings) != NAMES:
        odd = sorted(set(settings) ^ NAMES)
        raise ValueError(f"these are not the settings of a run: {', '.join(odd)}.")
    found = dict(settings)
    for kind, table in (("estimator", ESTIMATORS), ("integrator", INTEGRATORS)):
        options = dict(found[kind])
        name = options.pop("name")
        if name not in table or name == "ito":
            raise ValueError(f"settings: unknown {kind} {name!r}.")
        if options.get("center") == "start":
            options["center"] = start
        try:
            found[kind] = table[name](**options)
        except TypeError as error:
            raise ValueError(f"these are not the settings of a run: {error}.") from error
    return found
