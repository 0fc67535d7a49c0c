"""Keywords that other libraries have for the arguments of `sample`."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from vrsgmcmc.core import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

OURS = {  # the argument here -> its names elsewhere
    "num_steps, which counts every step of a chain, burn_in included": (
        *("num_samples", "n_samples", "draws", "num_draws", "num_results", "iterations"),
        *("num_iterations", "n_iter", "num_iters", "epochs", "num_epochs", "steps", "n_steps"),
    ),
    "burn_in, which is part of num_steps": (
        *("num_warmup", "warmup", "tune", "num_tune", "burnin", "num_burnin", "num_burnin_steps"),
    ),
    "num_chains": ("chains", "n_chains", "nchains"),
    "step_size": ("step", "stepsize", "epsilon", "learning_rate", "lr", "h", "dt"),
    "batch_size": ("minibatch_size", "batchsize", "n2"),
    "thin": ("thinning", "num_thinning"),
    "key, the first argument": ("seed", "rng_key", "rng", "random_seed", "random_state"),
    "posterior, the second argument: vr.Posterior(logprior, loglik)": (
        *("model", "log_prob", "logdensity_fn", "log_density", "potential_fn", "logp"),
    ),
    "init, the fourth argument": (
        *("init_params", "initial_params", "initial_position", "initvals", "params", "x0"),
    ),
    "estimator and integrator, such as vr.practical() and vr.sgld()": (
        *("kernel", "sampler", "method", "algorithm", "optimizer"),
    ),
    "vr.practical(anchor_size, period), the estimator": ("anchor_size", "period", "n1", "m"),
    "vr.sgld(temperature), the integrator": ("temperature", "friction"),
    "clip": ("clip_norm", "gradient_clip", "max_norm"),
    "progress": ("progress_bar", "progressbar", "verbose"),
    "run_dir": ("out", "out_dir", "output_dir", "save_dir", "path"),
}


def explain_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose unknown keywords get an error that names the right one."""
    names = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        for name in options:
            if name not in names:
                ours = next((here for here, others in OURS.items() if name in others), None)
                hint = f" Here it is {ours}." if ours else did_you_mean(name, names)
                raise TypeError(
                    f"{function.__name__}({name}=...): there is no argument {name!r}.{hint} "
                    f"help(vr.{function.__name__}) lists all."
                )
        return function(*arguments, **options)

    return call
