"""`plan` and `check`: what would be run, before it is run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vrsgmcmc.cli.options import names_code, read_config, run_parser, say

if TYPE_CHECKING:
    from vrsgmcmc.cli.configuration import Config
    from vrsgmcmc.cli.jobs import Problem
    from vrsgmcmc.datasets import Prepared

STEPS_TIMED = 200


def plan(words: list[str]) -> int:
    parser = run_parser(
        "plan", "Choose a sampler and its settings for a budget, and print them as TOML."
    )
    config = read_config(parser.read(words))
    if config.step_size is not None:
        raise ValueError("step_size is given, so there is nothing to plan. Leave it out.")

    from vrsgmcmc.cli import jobs

    _, problem = problem_of(config)
    choice = jobs.choose(config, problem, say)
    for note in choice.notes:
        print("\n".join(f"# {line}" for line in note.splitlines()))
    for name, value in toml(choice.settings):
        print(f"{name} = {value}")
    return 0


def toml(settings: dict[str, Any]) -> Any:
    """Settings as lines of a configuration."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            flat |= {name: value["name"], **{k: v for k, v in value.items() if k != "name"}}
        else:
            flat[name] = value
    for name in ("center", "average", "decay", "eps"):  # not keys: searched again, or defaults
        flat.pop(name, None)
    for name, value in flat.items():
        if value is not None:
            yield name, f'"{value}"' if isinstance(value, str) else repr(value)


def problem_of(config: Config) -> tuple[Prepared, Problem]:
    from vrsgmcmc.cli import jobs
    from vrsgmcmc.cli.jobs.problem import prepare

    function = jobs.load_function(config.model) if names_code(config.model) else None
    ready = prepare(config)
    return ready, jobs.make(config, ready, function)


def check(words: list[str]) -> int:
    parser = run_parser(
        "check",
        "Look at data, model and settings without sampling: shapes, gradient, memory, time.",
    )
    config = read_config(parser.read(words))

    import jax
    import jax.numpy as jnp

    from vrsgmcmc.cli import jobs
    from vrsgmcmc.cli.jobs.choose_sampler import arguments
    from vrsgmcmc.core import Batch, named_leaves, nbytes, square_norm
    from vrsgmcmc.run import log_posterior, sample

    ready, problem = problem_of(config)
    out = jobs.create(config.out, config, ready) if config.out is not None else None
    for note in (*ready.notes, *problem.notes):
        print(note)
    size = len(ready.train[1])
    print(f"data: {size} rows to train, {len(ready.test[1])} to test, {len(ready.columns)} columns")
    if ready.labels:
        print(f"classes: {', '.join(ready.labels[:20])}")
    init = problem.init(jax.random.key(config.seed)) if callable(problem.init) else problem.init
    shapes = ", ".join(f"{name} {list(leaf.shape)}" for name, leaf in named_leaves(init))
    print(f"parameters: {problem.dimension:,} ({shapes})")
    data = jax.tree.map(jnp.asarray, problem.data)
    value, gradient = jax.value_and_grad(log_posterior, 1)(
        problem.posterior, init, Batch(jnp.arange(size), data)
    )
    norm = float(jnp.sqrt(square_norm(gradient)))
    print(f"at the start: log posterior {float(value):.6g}, gradient norm {norm:.6g}")
    if not (math.isfinite(float(value)) and math.isfinite(norm)):
        raise ValueError("the log posterior or its gradient is not finite at the start.")
    planned = config.step_size is None
    choice = jobs.choose(config, problem, say)
    for note in choice.notes:
        print(note)
    jobs.rehearse(config.seed, problem, choice)
    start = problem.init if choice.start is None else choice.start
    settings = arguments(choice.settings, start)
    steps, burn_in, thin = (settings.pop(name) for name in ("num_steps", "burn_in", "thin"))
    short = {
        **settings,
        "num_steps": min(steps, STEPS_TIMED),
        "keep": "averages",
        "progress": False,
    }
    timed = [
        sample(seed, problem.posterior, problem.data, start, **short).seconds for seed in (0, 1)
    ]
    draws = (steps - burn_in) // thin * settings["num_chains"]
    print(f"steps: {steps:,} of {settings['num_chains']} chains{' (by the plan)' * planned}")
    print(
        f"time: about {timed[1] / short['num_steps'] * steps:.3g} s, and {timed[0]:.2g} s to compile"
    )
    chains = settings["num_chains"] * nbytes(init)
    print(f"memory: {nbytes(data):,} bytes of data, {chains:,} for one copy of every chain")
    print(f"disk: about {draws * nbytes(init):,} bytes for {draws:,} draws")
    if out is not None:
        print(f"{config.out} holds this run: `sample` would resume it")
    return 0
