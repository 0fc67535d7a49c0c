"""What a caller asks for: arguments that are set, and those that are left to the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vrsgmcmc import core

from .budget import parse_budget

AUTO = "auto"
ESS = 2500.0  # then 0.1 sd is five standard errors of a mean
MEMORY = 4e9  # bytes
ACCURACY = 0.3  # of a budget, for the look at the result
NUTS_GRADIENTS = 8.0  # of all data, for an effective draw
METRICS = ("auto", "hessian", "low_rank", "diagonal")


@dataclass(frozen=True)
class Request:
    """Arguments of `vr.sample`; AUTO or None where the library chooses."""

    estimator: Any = AUTO
    integrator: Any = AUTO
    batch_size: Any = AUTO
    order: Any = AUTO
    anchor_order: Any = AUTO
    metric: Any = AUTO
    clip: float | None = None
    num_steps: Any = AUTO
    burn_in: Any = AUTO
    thin: Any = AUTO
    num_chains: int = 4
    ess: float = ESS
    evaluations: float = float("inf")  # of all chains together, decision and accuracy included
    seconds: float | None = None
    memory_limit: float = MEMORY
    seed: int = 0

    def names(self, name: str) -> bool:
        return not (isinstance(value := getattr(self, name), str) and value == AUTO)

    def value(self, name: str, otherwise: Any) -> Any:
        return getattr(self, name) if self.names(name) else otherwise


def make_request(
    where: str, key: Any, size: int, budget: Any, ess: float | None, **values: Any
) -> Request:
    """The request of a call of `where`, with `size` data; checked."""
    evaluations, seconds = parse_budget(budget, size, where)
    request = Request(
        ess=ESS if ess is None else ess,
        evaluations=float("inf") if evaluations is None else evaluations,
        seconds=seconds,
        seed=core.key_seed(key),
        **values,
    )
    check_request(request)
    return request


def is_nuts(integrator: Any) -> bool:
    return getattr(integrator, "name", "") == "nuts"


def check_request(request: Request) -> None:
    """Refuse values that no run could have, before any work."""
    if request.names("integrator") and is_nuts(request.integrator):
        estimator = request.value("estimator", None)
        if estimator is not None and not estimator.uses_all_data:
            raise ValueError(
                f"sample(integrator=nuts(), estimator={estimator.name}()): NUTS needs exact gradients. "
                "Leave the estimator out, or choose another integrator."
            )
    core.positive("sample", "ess", request.ess)
    core.positive("sample", "memory_limit", request.memory_limit)
    core.whole("sample", "num_chains", request.num_chains)
    for name in ("batch_size", "num_steps", "thin"):
        if request.names(name):
            core.whole("sample", name, getattr(request, name))
    if request.names("burn_in"):
        core.whole("sample", "burn_in", request.burn_in, least=0)
    if isinstance(request.metric, str):
        core.one_of("sample", "metric", request.metric, METRICS)
    for name in ("order", "anchor_order"):
        if request.names(name):
            core.one_of("sample", name, getattr(request, name), core.ORDERS)
