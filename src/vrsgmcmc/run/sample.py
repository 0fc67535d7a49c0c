"""`vr.sample`: many chains of any estimator and integrator."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from vrsgmcmc.core import (
    DensityIntegrator,
    Estimator,
    Integrator,
    Observable,
    Posterior,
    Sampler,
    as_metric,
)
from vrsgmcmc.core.estimators import full, practical
from vrsgmcmc.core.integrators import sgld

from .densities import check_ends
from .keywords import explain_keywords
from .loop import Loop, Stop
from .result import Result
from .setup import Setup, set_up
from .storage import DirectoryStorage, MemoryStorage, RunDirectory
from .timeline import Pace

PRACTICAL, SGLD = practical(), sgld()
logger = logging.getLogger("vrsgmcmc")
SHARE = 0.05  # of a run's time that a look at its end may take


@explain_keywords
def sample(
    key: Any,
    posterior: Posterior,
    data: Any,
    init: Any,
    *,
    estimator: Estimator = PRACTICAL,
    integrator: Integrator = SGLD,
    step_size: Any = 1e-4,
    batch_size: int = 10,
    num_steps: int = 10_000,
    num_chains: int = 4,
    burn_in: int = 0,
    thin: int = 1,
    order: str = "without_replacement",
    anchor_order: str = "without_replacement",
    observables: Mapping[str, Callable | Observable] | None = None,
    weights: Literal["step_size", "equal"] = "step_size",
    clip: float | None = None,
    metric: Any = None,
    chain_method: Literal["vmap", "sequential"] = "vmap",
    keep: Literal["draws", "averages"] = "draws",
    run_dir: Any = None,
    progress: bool | None = None,
    search_cost: int = 0,
) -> Result:
    """Sample a posterior with stochastic gradients.

    - `key`: `jax.random.key(seed)`, or a seed. What chain c draws depends on (key, c, step) alone.
    - `posterior`: prior and log-likelihood of one datum; `data`: a pytree with leading axis N.
    - `init`: a pytree (all chains start there), a function of a key (each chain elsewhere), or
      `result.state` of an earlier run (which is continued: steps are counted on).
    - `estimator`, `integrator`: descriptions from the tables `vr.ESTIMATORS`, `vr.INTEGRATORS`; or
      `integrator=vr.nuts()`, which takes exact gradients.
    - `step_size`: h of the integrator's equation, for the gradient of the SUM over data: a number,
      one for each chain, or a schedule of the step l = 0, 1, ... (optax's fit).
    - `num_steps` includes `burn_in`; every `thin`-th position after it is kept as a draw.
    - `order`, `anchor_order`: how minibatches and anchors are drawn: "with_replacement",
      "without_replacement", "shuffled", "symmetric".
    - `observables`: functions averaged online over every step after burn-in; see `vr.observable`.
    - `weights`: weigh positions in averages by their step size, or equally.
    - `clip`: shorten the gradient estimate to this norm, on the scale of the mean over data. The
      chain then no longer has the posterior as its target.
    - `metric`: (center, L): the chain moves in z, x = center + L z; L a matrix, or its diagonal.
    - `chain_method`: all chains at once, or one after another (better for large networks on CPU).
    - `keep`: "averages" stores no draws.
    - `run_dir`: keep the run in this directory, draws included, and commit it every few seconds.
      The same call resumes it, bit for bit; a finished run is loaded. See `docs/runs.md`.
    - `progress`: None shows a bar on a terminal or in a notebook, elsewhere a line every ten seconds.
    - `search_cost`: evaluations that were spent before the run, and count as its own.

    Ctrl-C, and with `run_dir` SIGTERM, ends the run after the chunk in hand and returns what is
    finished.

    Arguments are checked before anything is compiled; then, where the chains start, log-densities on
    all rows (as many as one second allows) and their gradients on the first 64. When a chain becomes
    non-finite, its `Divergence` names the row that is not finite there, if one is.
    """
    if isinstance(integrator, DensityIntegrator) and estimator is PRACTICAL:  # no one asked for it
        estimator = full()
    scales = step_size, batch_size, order, anchor_order, clip, as_metric(metric)
    sampler = Sampler(estimator, integrator, *scales)
    setup = set_up(
        key,
        posterior,
        data,
        init,
        sampler,
        num_steps=num_steps,
        num_chains=num_chains,
        burn_in=burn_in,
        thin=thin,
        observables=observables,
        weights=weights,
        chain_method=chain_method,
        keep=keep,
        draws_in_memory=run_dir is None,
    )
    return run_chains(replace(setup, search_cost=search_cost), run_dir, progress, warn=True)


def check_result(setup: Setup, result: Result) -> None:
    """Warn of data without a finite log-likelihood where the chains ended, and of bad trajectories."""
    program, alive = setup.program, np.flatnonzero(~result.diverged)
    seconds = SHARE * result.seconds
    check_ends(program.posterior, result.state, setup.setting.data, alive, seconds)
    sampler, integrator = setup.sampler, setup.sampler.integrator
    if isinstance(integrator, DensityIntegrator):
        complaint = integrator.complaint(sampler.own_dynamics(result.state))
        if complaint is not None:
            logger.warning("%s", complaint)


def run_chains(
    setup: Setup,
    run_dir: Any = None,
    progress: bool | None = None,
    pace: Pace | None = None,
    warn: bool = False,
    stop: Stop | None = None,
    quiet: bool = False,
) -> Result:
    """Run, resume or load what was set up; `pace` sizes its chunks, `warn` looks where they ended.

    `stop` says when it may end before its last step. `quiet`: chains that become non-finite are in the
    result, and not in the log.
    """

    def run(storage: MemoryStorage | DirectoryStorage) -> Result:
        result = Loop(setup, storage, progress, pace or Pace(), stop=stop, quiet=quiet).run()
        if warn:
            check_result(setup, result)
        return result

    if run_dir is None:
        return run(MemoryStorage(setup))
    directory = RunDirectory(run_dir, setup)
    if (result := directory.finished_result()) is not None:
        return result
    with directory.write() as storage:
        return storage.finished_result() or run(storage)
