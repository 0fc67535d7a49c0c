"""`plan` and `check`: show what `sample` would run, without running it."""

import math

from vrsgmcmc import core, run

from . import jobs
from .configuration import KEYS, METHODS
from .options import read_config, say

TEST_STEPS = 200


def plan(words: list[str]) -> int:
    description = "Choose a sampler and its settings for a budget, and print them as TOML."
    config = read_config("plan", description, words)
    if config.step_size is not None:
        raise ValueError("step_size is given, so there is nothing to plan. Leave it out.")
    choice = jobs.choose(config, jobs.build_problem(config, *jobs.read(config)), say)
    for note in choice.notes:
        print("\n".join(f"# {line}" for line in note.splitlines()))
    settings = choice.settings
    flat = settings | settings["estimator"] | settings["integrator"]
    flat |= {kind: settings[kind]["name"] for kind in METHODS}
    for name in KEYS:  # options that are no keys are searched again, or defaults
        if (value := flat.get(name)) is not None:
            print(f"{name} = " + (f'"{value}"' if isinstance(value, str) else repr(value)))
    return 0


def check(words: list[str]) -> int:
    description = (
        "Look at data, model and settings without sampling: shapes, gradient, memory, time."
    )
    config = read_config("check", description, words)

    import jax
    import jax.numpy as jnp

    ready, function = jobs.read(config)
    problem = jobs.build_problem(config, ready, function)
    job = jobs.find(config.out, config, ready) if config.out is not None else None
    for note in (*ready.notes, *problem.notes):
        print(note)
    size = len(ready.train[1])
    print(f"data: {size} rows to train, {len(ready.test[1])} to test, {len(ready.columns)} columns")
    if ready.labels:
        print(f"classes: {', '.join(ready.labels[:20])}")
    init = problem.init
    if run.is_function(init):
        init = init(jax.random.key(config.seed))
    shapes = ", ".join(f"{name} {list(leaf.shape)}" for name, leaf in core.named_leaves(init))
    print(f"parameters: {problem.dimension:,} ({shapes})")
    data = jax.tree.map(jnp.asarray, problem.data)
    run.checks.check_model(problem.posterior, init, data)
    value, gradient = jax.value_and_grad(run.log_posterior, 1)(
        problem.posterior, init, core.Batch(jnp.arange(size), data)
    )
    norm = float(jnp.sqrt(core.square_norm(gradient)))
    print(f"at the start: log posterior {float(value):.6g}, gradient norm {norm:.6g}")
    if not (math.isfinite(float(value)) and math.isfinite(norm)):
        raise ValueError("the log posterior or its gradient is not finite at the start.")
    choice = jobs.choose(config, problem, say)
    for note in choice.notes:
        print(note)
    jobs.check_settings(config.seed, problem, choice)
    arguments = jobs.sample_arguments(choice, problem)
    steps, burn_in, thin = (arguments.pop(name) for name in ("num_steps", "burn_in", "thin"))
    test_steps = min(steps, TEST_STEPS)
    first, second = (
        run.sample(seed, **arguments, num_steps=test_steps, keep="averages", progress=False).seconds
        for seed in (0, 1)
    )
    chains = arguments["num_chains"]
    draws = (steps - burn_in) // thin * chains
    by_plan = " (by the plan)" if config.step_size is None else ""
    print(f"steps: {steps:,} of {chains} chains{by_plan}")
    print(f"time: about {second / test_steps * steps:.3g} s, and {first:.2g} s to compile")
    copies = chains * core.nbytes(init)
    print(f"memory: {core.nbytes(data):,} bytes of data, {copies:,} for one copy of every chain")
    print(f"disk: about {draws * core.nbytes(init):,} bytes for {draws:,} draws")
    if job is not None:
        print(f"{config.out} holds this run: `sample` would resume it")
    return 0
