"""What the library chose for a run, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from vrsgmcmc.core import Params, Sampler
from vrsgmcmc.run import html


class Choice(NamedTuple):
    """A sampler, why it was chosen, and what was evaluated for that."""

    sampler: Sampler
    why: str
    evaluations: int = 0
    considered: tuple[str, ...] = ()
    chain_method: str = "vmap"
    price: float = 0.0  # evaluations for an effective draw, as far as they are known


@dataclass(frozen=True)
class Decision:
    """A sampler with its start and its length: all that a run needs besides posterior and data."""

    sampler: Sampler
    starts: Params | None = field(repr=False)  # leaves [chain, ...]; None: where `init` says
    num_chains: int
    burn_in: int
    thin: int
    steps: tuple[int, ...] = field(
        repr=False
    )  # after which the draws are looked at; the last ends it
    ess: float  # the target
    evaluations: int  # that the decision took
    allowance: float  # evaluations of the whole run; inf: no budget
    chain_method: str = "vmap"
    mode: Params | None = field(default=None, repr=False)
    laplace_mean: np.ndarray | None = field(default=None, repr=False)  # in one row, as the next
    laplace_sd: np.ndarray | None = field(default=None, repr=False)
    modes: str = ""  # what several starts found
    network: bool = False  # predictions are judged, not parameters
    why: str = ""
    notes: tuple[str, ...] = ()
    considered: tuple[str, ...] = field(default=(), repr=False)
    seconds: float = field(default=0.0, compare=False)  # that it took

    @property
    def num_steps(self) -> int:
        return self.steps[-1]

    @property
    def forecast(self) -> int:
        """The steps that the run is thought to need."""
        return self.steps[min(2, len(self.steps) - 1)]

    def __str__(self) -> str:
        return in_words(describe(self.sampler), vars(self))

    def _repr_html_(self) -> str:
        lead, *lines = str(self).split("\n")
        return html.document(lead, html.paragraphs(lines))


@dataclass(frozen=True)
class StoredDecision:
    """A decision that was read from disk: `sampler` and `values` are plain, as JSON has them."""

    sampler: dict[str, Any]
    values: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        sampler = self.sampler
        parts = [sampler["estimator"]["name"], sampler["integrator"]["name"]]
        parts.insert(1, f"{sampler['batch_size']} rows a step")
        if isinstance(sampler["step_size"], float):
            parts.append(f"step size {sampler['step_size']:.3g}")
        if sampler.get("metric") is not None:
            parts.append(metric_in_words(sampler["metric"]["name"]))
        return in_words(", ".join(parts), self.values)

    _repr_html_ = Decision._repr_html_


def in_words(lead: str, values: Mapping[str, Any]) -> str:
    """What was chosen, why, and what that took."""
    lines = [lead, values["why"], values["modes"], *values["notes"]]
    lines += [f"considered: {text}" for text in values["considered"]]
    if values["seconds"]:
        lines.append(
            f"Choosing took {values['evaluations']:,} evaluations and {values['seconds']:.3g} s, with "
            "compilation."
        )
    return "\n".join(line for line in lines if line)


def describe(sampler: Sampler) -> str:
    """A sampler in a line."""
    integrator: Any = sampler.integrator
    parts = [str(sampler.estimator)]
    hot = getattr(sampler.estimator, "hot_count", 0)
    if hot:
        parts[0] += f" with {hot} hot rows"
    if not sampler.estimator.uses_all_data:
        parts.append(f"{sampler.batch_size} rows a step")
    parts.append(getattr(integrator, "word", integrator.name))
    if sampler.step_size is not None and np.ndim(sampler.step_size) == 0:
        parts.append(f"step size {float(sampler.step_size):.3g}")
    if sampler.metric is not None:
        parts.append(metric_in_words(type(sampler.metric).__name__))
    return ", ".join(parts)


def metric_in_words(name: str) -> str:
    kind = {"Dense": "the Hessian", "LowRank": "a low-rank Hessian", "Diagonal": "scales"}
    return f"in the metric of {kind.get(name, name)} at the mode"
