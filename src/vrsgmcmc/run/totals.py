"""How far a run is, what it has cost, what went wrong, and what was sampled."""

from __future__ import annotations

from typing import Any, NamedTuple

from vrsgmcmc.core import Data, Posterior, Sampler, State

from .setup import Setup

NOT_MEASURED = "How right it is was not measured."


class Divergence(NamedTuple):
    """A chain that became non-finite: where, how far out, and what to try."""

    chain: int
    step: int
    norm: float
    step_size: float
    try_step_size: float
    row: int | None = None  # of the data: its loglik or gradient is not finite there

    def __str__(self) -> str:
        smaller = f"ry a step size of {self.try_step_size:.2g}."
        text = (
            f"chain {self.chain} became non-finite at step {self.step} with step size "
            f"{self.step_size:.3g}; it is frozen where |x| was {self.norm:.3g}. "
        )
        if self.row is None:
            return f"{text}T{smaller}"
        return (
            f"{text}There loglik or its gradient is not finite for data row {self.row}: look at that "
            f"row, or make loglik safe for it. If the row is right, t{smaller}"
        )


class Context(NamedTuple):
    """What was sampled, and how: enough to look at the run again."""

    posterior: Posterior
    data: Data
    sampler: Sampler  # with the step size of the last step


class Totals(NamedTuple):
    """How far a run is, and what it has cost."""

    steps: int
    visits: int  # data that refreshes have visited, per chain
    search_cost: int  # evaluations that the search for a mode took
    seconds: float
    divergences: tuple[Divergence, ...]

    def evaluations(self, setup: Setup, state: State) -> int:
        """Per-datum gradient evaluations of all chains, which are in `state` [chain]."""
        return setup.evaluations(self.steps, self.visits, [state]) + self.search_cost

    def to_json(self) -> dict[str, Any]:
        divergences = [
            [d.chain, d.step, *map(repr, d[2:5]), *([] if d.row is None else [d.row])]
            for d in self.divergences
        ]
        return {
            "steps": self.steps,
            "visits": self.visits,
            "searched": self.search_cost,
            "seconds": self.seconds,
            "divergences": divergences,
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Totals:
        divergences = tuple(
            Divergence(chain, step, float(norm), float(h), float(smaller), *row)
            for chain, step, norm, h, smaller, *row in record["divergences"]
        )
        counts = record["steps"], record["visits"], record["searched"]
        return cls(*counts, record["seconds"], divergences)
