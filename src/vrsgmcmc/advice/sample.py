"""`vr.sample`: the right posterior from four arguments, or any sampler that is named.

Without a step size the library chooses (`auto/`): where the posterior is, which sampler suits it, how
long it runs, and how right the result is. With one, everything that is not named has a fixed default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vrsgmcmc import core, run
from vrsgmcmc.core.estimators import full, minibatch
from vrsgmcmc.core.integrators import sgld
from vrsgmcmc.run import store

from .accuracy import Accuracy, assess
from .auto import AUTO, MEMORY, Decision, Request, decide, make_request
from .auto.centre import find_curvature
from .auto.files import load_accuracy, load_decision, save_accuracy, save_decision
from .auto.length import stop_at

MANY = 10**6  # steps: more than what an observable asks for


@run.explain_keywords
def sample(
    key: Any,
    posterior: core.Posterior,
    data: Any,
    init: Any,
    *,
    estimator: core.Estimator | str = AUTO,
    integrator: core.Integrator | str = AUTO,
    step_size: Any = AUTO,
    batch_size: int | str = AUTO,
    num_steps: int | str = AUTO,
    num_chains: int = 4,
    burn_in: int | str = AUTO,
    thin: int | str = AUTO,
    order: str = AUTO,
    anchor_order: str = AUTO,
    observables: Mapping[str, Callable | core.Observable] | None = None,
    weights: Literal["step_size", "equal"] = "step_size",
    clip: float | None = None,
    metric: Any = AUTO,
    chain_method: Literal["vmap", "sequential", "auto"] = AUTO,
    keep: Literal["draws", "averages"] = "draws",
    run_dir: Any = None,
    progress: bool | None = None,
    ess: float | None = None,
    budget: Any = None,
    memory_limit: float = MEMORY,
) -> run.Result:
    """Sample a posterior with stochastic gradients.

    `vr.sample(key, posterior, data, init)` is all that is needed: the library finds the mode, chooses
    the sampler, runs it until its draws are worth 2,500 independent ones, and says how right they are:
    `print(result)`, `result.accuracy()`.

    - `key`: `jax.random.key(seed)`, or a seed. What chain c draws depends on (key, c, step) alone.
    - `posterior`: prior and log-likelihood of one datum; `data`: a pytree with leading axis N.
    - `init`: a pytree, a function of a key, or `result.state` of an earlier run (which is continued).
    - `ess`: effective draws to reach, the least over all parameters, of x and of (x - mean)^2, chains
      pooled (default 2500). `budget`: the most that the run may cost, everything included: evaluations,
      "200 passes", "60 s" or a `timedelta`. `memory_limit`: bytes.

    With a `step_size` the library chooses nothing, and what is not named is: practical(), sgld(),
    batch_size 10, without replacement, 10,000 steps, no burn-in, no metric. Without one, an argument
    that is named is kept, and the rest fits to it.

    - `estimator`, `integrator`: descriptions from the tables `vr.ESTIMATORS`, `vr.INTEGRATORS`, or
      `vr.nuts()`.
    - `step_size`: h of the integrator's equation, for the gradient of the SUM over data: a number,
      one for each chain, or a schedule of the step l = 0, 1, ... (optax's fit).
    - `metric`: x = c + L z, and the chain moves in z: "hessian", "low_rank" or "diagonal" for the
      curvature at the mode, (center, L) with L a matrix or its diagonal, or None.
    - `num_steps` includes `burn_in`; every `thin`-th position after it is kept as a draw.
    - `order`, `anchor_order`: how minibatches and anchors are drawn: "with_replacement",
      "without_replacement", "shuffled", "symmetric".
    - `observables`: functions averaged online over every step after burn-in; see `vr.observable`.
    - `weights`: weigh positions in averages by their step size, or equally.
    - `clip`: shorten the gradient estimate to this norm, on the scale of the mean over data. The
      chain then no longer has the posterior as its target.
    - `chain_method`: "vmap" for all chains at once (what "auto" is with a step size), "sequential" for
      one after another (better for large networks, and for NUTS, on CPU).
    - `keep`: "averages" stores no draws.
    - `run_dir`: keep the run in this directory, draws included, and commit it every few seconds.
      The same call resumes it, bit for bit; a finished run is loaded. See `docs/runs.md`.
    - `progress`: None shows a bar on a terminal or in a notebook, elsewhere a line every ten seconds.

    Ctrl-C, and with `run_dir` SIGTERM, ends the run after the chunk in hand and returns what is
    finished. Arguments are checked before anything is compiled; then, where the chains start,
    log-densities and gradients. When a chain becomes non-finite, its `Divergence` names the row that is
    not finite there, if one is.
    """
    named = {
        "estimator": estimator,
        "integrator": integrator,
        "batch_size": batch_size,
        "num_steps": num_steps,
        "burn_in": burn_in,
        "thin": thin,
        "order": order,
        "anchor_order": anchor_order,
        "metric": metric if isinstance(metric, str) else core.as_metric(metric),
    }
    rest: dict[str, Any] = {
        "observables": observables,
        "weights": weights,
        "chain_method": chain_method,
        "keep": keep,
    }
    key = core.as_key(key)
    if not (step_size is None or is_auto(step_size)):
        for name, value in (("ess", ess), ("budget", budget)):
            if value is not None:
                raise ValueError(
                    f"sample({name}=...): with a step_size the length of a run is num_steps. Leave "
                    f"{name} out, or the step size."
                )
        options = {n: value for n, value in (named | rest).items() if not is_auto(value)}
        options |= find_curvature(posterior, data, init, key, options)
        options |= {"step_size": step_size, "clip": clip, "num_chains": num_chains}
        options |= {"run_dir": run_dir, "progress": progress}
        result = run.sample(key, posterior, data, init, **options)
        if run_dir is None:
            return replace(result, assess=assess)
        record = None if result.interrupted else load_accuracy(run_dir)
        return replace(result, assess=partial(assess_run, run_dir), record=record)
    if isinstance(init, core.State):
        raise ValueError(
            "sample: a state is continued with the settings that made it; give step_size, estimator "
            "and integrator (result.settings has them). A run with run_dir goes on by the same call."
        )
    core.check_pair(posterior, minibatch(), sgld())
    data, size = run.as_data(data)
    options = {"clip": clip, "num_chains": num_chains, "memory_limit": memory_limit}
    request = make_request("sample", key, size, budget, ess, **named, **options)
    pair = request.value("estimator", minibatch()), request.value("integrator", sgld())
    core.check_pair(posterior, *pair)
    core.check_density(posterior, full(), pair[1], clip)
    some = core.Sampler(minibatch(), sgld(), 1.0, 1)  # for model, data and start
    lengths = {"num_steps": MANY, "num_chains": num_chains, "draws_in_memory": False}
    method = "vmap" if is_auto(chain_method) else chain_method
    run.set_up(key, posterior, data, init, some, **lengths, **{**rest, "chain_method": method})
    return sample_by_request(key, posterior, data, init, request, rest, run_dir, progress)


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def sample_by_request(
    key: Any,
    posterior: core.Posterior,
    data: core.Data,
    init: Any,
    request: Request,
    rest: Mapping[str, Any],
    run_dir: Any,
    progress: bool | None,
) -> run.Result:
    """Decide, run until the draws are enough, and look at the result."""
    decision = (
        None if run_dir is None else load_decision(run_dir, key, posterior, data, init, request)
    )
    if decision is None:
        if run_dir is not None:
            store.check_directory(Path(os.path.realpath(run_dir)))
        decision = decide(key, posterior, data, init, request)
        if run_dir is not None:
            save_decision(run_dir, decision, key, posterior, data, init, request)
    if rest["keep"] != "draws":  # there is nothing to look at, so the forecast has to do
        decision = replace(decision, steps=(decision.forecast,), ess=np.inf)
    setup = set_up(key, posterior, data, init, decision, rest, in_memory=run_dir is None)
    stop = stop_at(decision.steps, decision.ess) if len(decision.steps) > 1 else None
    result = run.run_chains(setup, run_dir, progress, warn=True, stop=stop)
    result = replace(result, decision=decision, assess=assess)
    if result.interrupted or result.draws is None:
        return result
    measure = partial(judge, decision)
    record = measure(result) if run_dir is None else assess_run(run_dir, result, measure)
    return replace(
        result,
        record=record,
        evaluations=result.evaluations + record.evaluations,
        data_passes=result.data_passes
        + record.evaluations / (result.settings["data_size"] * decision.num_chains),
    )


def set_up(
    key: Any,
    posterior: core.Posterior,
    data: core.Data,
    init: Any,
    decision: Decision,
    rest: Mapping[str, Any],
    in_memory: bool,
) -> run.Setup:
    """The run of a decision."""
    method = decision.chain_method if is_auto(rest["chain_method"]) else rest["chain_method"]
    setup = run.set_up(
        key,
        posterior,
        data,
        init if decision.starts is None else run.Starts(decision.starts),
        decision.sampler,
        num_steps=decision.num_steps,
        num_chains=decision.num_chains,
        burn_in=decision.burn_in,
        thin=decision.thin,
        draws_in_memory=in_memory,
        **{**rest, "chain_method": method},
    )
    return replace(setup, search_cost=decision.evaluations)


def assess_run(
    run_dir: Any, result: run.Result, measure: Callable[[run.Result], Accuracy] = assess
) -> Accuracy:
    """The accuracy that the run directory holds, or else measure it and keep it there."""
    record = None if result.interrupted else load_accuracy(run_dir)
    if record is None:
        record = measure(result)
        if not result.interrupted:
            save_accuracy(run_dir, record)
    return record


def judge(decision: Decision, result: run.Result) -> Accuracy:
    """How right the result of a decision is."""
    left = decision.allowance - result.evaluations
    ended_by = ""
    if np.isfinite(decision.ess):
        reached = result.num_steps < decision.num_steps
        ended_by = f"The run ended with {decision.ess:,.0f} effective draws."
        if not reached:
            ended_by = "The run ended with its budget, before its target of effective draws."
    return assess(
        result,
        allowance=left if np.isfinite(left) else None,
        network=decision.network,
        laplace=(decision.laplace_mean, decision.laplace_sd),
        modes=decision.modes,
        ended_by=ended_by,
    )
