"""A method of a comparison: an estimator with its sizes, and what its steps cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from vrsgmcmc.core import Estimator, Integrator, Kernel, Posterior, kernel
from vrsgmcmc.core.integrators import sgld


class Method(NamedTuple):
    estimator: Estimator
    batch_size: int = 10
    order: str = "without_replacement"
    anchor_order: str = "without_replacement"
    integrator: Integrator = sgld()

    def kernel(self, posterior: Posterior, size: int) -> Kernel:
        return kernel(
            posterior, self.estimator, self.integrator, size=size, batch_size=self.batch_size
        )

    def cost(self, size: int, steps: Any) -> Any:
        """Per-datum gradient evaluations of so many steps: a pair of gradients counts two."""
        return steps * self.estimator.cost(size, self.batch_size) + self.refreshed(size, steps)

    def paper_cost(self, size: int, steps: Any) -> Any:
        """The same as the paper counts: n1/m + n2 per step, the pair of gradients counting one."""
        return steps * min(self.batch_size, size) + self.refreshed(size, steps)

    def refreshed(self, size: int, steps: Any) -> Any:
        every = self.estimator.refresh_period(size, self.batch_size)
        refreshes = -(-steps // every) if every else 1
        return self.estimator.refresh_size(size) * refreshes

    def affordable(self, size: int, passes: float) -> int:
        """The most steps that cost at most so many passes."""
        most = int(passes * size // self.estimator.cost(size, self.batch_size)) + 1
        costs = self.cost(size, np.arange(1, most + 1))
        return int(np.searchsorted(costs, passes * size, side="right"))


def check_passes(
    methods: Mapping[str, Method], size: int, passes: float, *, steps: int = 1
) -> None:
    """Every method can make so many steps."""
    least = {name: float(method.cost(size, steps)) / size for name, method in methods.items()}
    if dear := {name: cost for name, cost in least.items() if cost > passes}:
        named = "; ".join(f"{name}: {math.ceil(100 * cost) / 100:g}" for name, cost in dear.items())
        raise ValueError(
            f"--passes {passes:g}: the fewest steps of these methods, {steps}, cost more passes over "
            f"the data: {named}. Give more passes, or name other methods with --methods."
        )
