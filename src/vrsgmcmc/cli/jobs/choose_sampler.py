"""The settings of a job's sampler, as plain values.

With a step size they are complete. Without one they are what the user asks for, and `vr.sample` chooses
the rest: it keeps its decision in the run directory.
"""

from typing import Any, NamedTuple

from ..keys import Config
from ..methods import METHODS, method
from .problem import Problem

DRAWS = 1000  # of a chain, about
# keys of a configuration that are arguments of `vr.sample`
ARGUMENTS = (
    *("batch_size", "order", "anchor_order", "clip", "metric", "num_steps", "num_chains"),
    *("burn_in", "thin", "chain_method", "budget", "ess"),
)


class SamplerChoice(NamedTuple):
    """Settings for `vr.sample` as plain values, where the chains start, and why."""

    settings: dict[str, Any]
    start: Any = None  # a list of leaves, in jobs of version 0.1.0; None: at `init` of the problem
    notes: tuple[str, ...] = ()

    @property
    def automatic(self) -> bool:
        """Whether the library chooses."""
        return "step_size" not in self.settings


def choose(config: Config, problem: Problem) -> SamplerChoice:
    """The sampler of a job: all of it with a step size, else what the configuration names."""
    named = {name: getattr(config, name) for name in ARGUMENTS}
    named |= {kind: method(config, kind) for kind in METHODS if getattr(config, kind) is not None}
    if config.step_size is None:
        settings = {name: value for name, value in named.items() if value is not None}
        if "estimator" in settings:
            complete_estimator(settings, problem.size)
        return SamplerChoice(settings)
    del named["budget"], named["ess"]
    steps = config.num_steps or 10_000
    burn_in = steps // 5 if config.burn_in is None else config.burn_in
    settings = named | {
        "estimator": method(config, "estimator"),
        "integrator": method(config, "integrator"),
        "step_size": config.step_size,
        "order": config.order or "without_replacement",
        "anchor_order": config.anchor_order or "without_replacement",
        "num_steps": steps,
        "burn_in": burn_in,
        "thin": config.thin or max(1, (steps - burn_in) // DRAWS),
    }
    complete_estimator(settings, problem.size)
    return SamplerChoice(settings)


def complete_estimator(settings: dict[str, Any], size: int) -> None:
    """Add the sizes of an estimator that are not given, for so many data."""
    estimator = settings["estimator"]
    default = size if estimator["name"] == "full" else min(10, max(1, size // 4))
    settings["batch_size"] = settings.get("batch_size") or default
    if estimator["name"] == "practical":
        estimator.setdefault("anchor_size", min(100, max(settings["batch_size"] + 1, size // 2)))
