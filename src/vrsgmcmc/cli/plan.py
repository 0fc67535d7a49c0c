"""`plan` and `check`: show what `sample` would run, without running it."""

from __future__ import annotations

import math
from typing import Any

from vrsgmcmc import advice, core, run
from vrsgmcmc.core import INTEGRATORS

from . import jobs
from .keys import KEYS, Config
from .options import read_config, say

TEST_STEPS = 200
METRICS = {"Dense": "hessian", "LowRank": "low_rank", "Diagonal": "diagonal"}


def plan(words: list[str]) -> int:
    description = "Show the sampler that `sample` would choose, and its settings as TOML."
    config = read_config("plan", description, words)
    if config.step_size is not None:
        raise ValueError("step_size is given, so there is nothing to plan. Leave it out.")
    design = jobs.read(config)
    function = jobs.load_own(config.model)
    problem = jobs.build_problem(config, design, function)
    decision = make_plan(config, problem)
    print("\n".join(f"# {line}" for line in str(decision).splitlines()))
    settings = keys_of(decision)
    if settings is None:
        print("# Some of this has no key. `sample` chooses the same from:")
        settings = jobs.choose(config, problem).settings
    for name in KEYS:
        if (value := settings.get(name)) is not None:
            print(f"{name} = " + (f'"{value}"' if isinstance(value, str) else repr(value)))
    return 0


def make_plan(config: Config, problem: jobs.Problem) -> advice.Plan:
    """What `sample` would choose for a configuration without a step size."""
    say("choosing a sampler ...")
    choice = jobs.choose(config, problem)
    jobs.check_settings(config.seed, problem, choice)
    arguments = jobs.sample_arguments(choice, problem)
    del arguments["chain_method"]  # which decides nothing
    return advice.plan(**arguments, seed=config.seed)


def keys_of(decision: advice.Plan) -> dict[str, Any] | None:
    """The settings of a plan as keys of a configuration; None where some cannot be keys."""
    record = decision.decision.sampler.to_json()
    estimator, integrator, metric = (record.pop(n) for n in ("estimator", "integrator", "metric"))
    if (
        estimator.get("order", 1) != 1
        or estimator.get("hot")
        or integrator["name"] not in INTEGRATORS
    ):
        return None
    return {
        **decision,
        **estimator,
        **integrator,
        **record,
        "estimator": estimator["name"],  # a centre is searched again
        "integrator": integrator["name"],
        "metric": metric and METRICS[metric["name"]],
    }


def check(words: list[str]) -> int:
    description = (
        "Look at data, model and settings without sampling: shapes, gradient, memory, time."
    )
    config = read_config("check", description, words)
    design = jobs.read(config)

    import jax
    import jax.numpy as jnp

    from vrsgmcmc.datasets import tables

    function = jobs.load_own(config.model)
    problem = jobs.build_problem(config, design, function)
    job = jobs.find(config.out, config, design) if config.out is not None else None
    for note in problem.notes:
        print(f"- {note}")
    size, test = len(design.y), 0 if design.test is None else len(design.test.y)
    print(f"data: {size} rows to train, {test} to test, {len(design.columns)} columns")
    if design.target.labels:
        print(f"classes: {tables.list_names(design.target.labels, 20)}")
    init = problem.init
    if run.is_function(init):
        init = init(jax.random.key(config.seed))
    shapes = ", ".join(f"{name} {list(leaf.shape)}" for name, leaf in core.named_leaves(init))
    print(f"parameters: {problem.dimension:,} ({shapes})")
    data = jax.tree.map(jnp.asarray, problem.data)
    run.checks.check_model(problem.posterior, init, data)
    value, gradient = jax.value_and_grad(core.log_posterior, 1)(
        problem.posterior, init, core.Batch(jnp.arange(size), data)
    )
    norm = float(jnp.sqrt(core.square_norm(gradient)))
    print(f"at the start: log posterior {float(value):.6g}, gradient norm {norm:.6g}")
    if not (math.isfinite(float(value)) and math.isfinite(norm)):
        raise ValueError("the log posterior or its gradient is not finite at the start.")
    if config.step_size is None:
        decision = make_plan(config, problem)
        print(decision)
        arguments = {**decision, "posterior": problem.posterior, "data": problem.data}
        arguments |= {"init": decision.init, "chain_method": config.chain_method}
    else:
        choice = jobs.choose(config, problem)
        jobs.check_settings(config.seed, problem, choice)
        arguments = jobs.sample_arguments(choice, problem)
    steps, burn_in, thin = (arguments.pop(name) for name in ("num_steps", "burn_in", "thin"))
    test_steps = min(steps, TEST_STEPS)
    first, second = (
        advice.sample(
            seed,
            **arguments,
            num_steps=test_steps,
            burn_in=test_steps // 2,
            keep="averages",
            progress=False,
        )
        for seed in (0, 1)
    )
    chains = arguments["num_chains"]
    draws = (steps - burn_in) // thin * chains
    about = "" if config.step_size is not None or config.num_steps else "about "
    print(f"steps: {about}{steps:,} of {chains} chains")
    print(
        f"cost: about {second.total_passes / test_steps * steps:,.3g} passes over the data in all"
    )
    seconds = second.seconds / test_steps * steps
    print(f"time: about {seconds:.3g} s, and {first.seconds:.2g} s to compile")
    copies = chains * core.nbytes(init)
    print(f"memory: {core.nbytes(data):,} bytes of data, {copies:,} for one copy of every chain")
    print(f"disk: about {draws * core.nbytes(init):,} bytes for {draws:,} draws")
    if job is not None:
        print(f"{config.out} holds this run: `sample` would resume it")
    return 0
