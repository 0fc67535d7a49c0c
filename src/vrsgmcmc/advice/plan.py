"""`vr.plan`: what `vr.sample` would choose, without running it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from vrsgmcmc import core, run
from vrsgmcmc.core.estimators import minibatch
from vrsgmcmc.core.integrators import sgld

from .auto import MEMORY, Decision, decide, make_request


@dataclass(frozen=True)
class Plan:
    """Settings for `vr.sample(key, posterior, data, plan.init, **plan)`, and why."""

    decision: Decision
    init: Any = field(repr=False)  # a start for each chain
    pilot: int  # evaluations that the plan took

    def keys(self) -> list[str]:
        return list(self.settings)

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `vr.sample`."""
        decision = self.decision
        return {
            **vars(decision.sampler),
            "num_steps": decision.forecast,
            "num_chains": decision.num_chains,
            "burn_in": decision.burn_in,
            "thin": decision.thin,
        }

    def __str__(self) -> str:
        decision = self.decision
        return (
            f"{decision}\n{decision.num_chains} chains of about {decision.forecast:,} steps, "
            f"{decision.burn_in:,} of them burn-in, thin {decision.thin}; the plan took "
            f"{self.pilot:,} evaluations"
        )

    def _repr_html_(self) -> str:
        lead, *lines = str(self).split("\n")
        rows = ((name, repr(value)) for name, value in self.settings.items())
        settings = run.html.table(("argument", "value"), rows, ("", ""))
        return run.html.document(lead, run.html.paragraphs(lines), settings)


def plan(
    posterior: core.Posterior,
    data: Any,
    init: Any,
    *,
    budget: float | str | timedelta | None = None,
    ess: float | None = None,
    target: float | None = None,
    num_chains: int = 4,
    seed: int = 0,
    memory_limit: float = MEMORY,
    **named: Any,
) -> Plan:
    """What `vr.sample(seed, posterior, data, init)` would choose, for the same arguments.

    - `budget`, `ess`: as for `vr.sample`; `target`: an error C, 0.01 is worth 100 independent draws.
    - `named`: estimator, integrator, batch_size, order, metric, ..., where they are given.
    """
    core.check_pair(posterior, minibatch(), sgld())
    if target is not None:
        if ess is not None:
            raise ValueError(
                "plan: ess and target say the same (target = 1/ess). Give one of them."
            )
        ess = 1 / core.positive("plan", "target", target)
    data, size = run.as_data(data)
    key = core.as_key(seed)
    options = {"num_chains": num_chains, "memory_limit": memory_limit}
    request = make_request("plan", key, size, budget, ess, **named, **options)
    decision = decide(key, posterior, data, init, request)
    start = init if decision.starts is None else run.Starts(decision.starts)
    return Plan(decision, start, decision.evaluations)
