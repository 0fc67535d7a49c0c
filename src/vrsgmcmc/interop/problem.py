"""What every door makes: a posterior, its data and a start, ready for `vr.sample`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vrsgmcmc.core import Data, Posterior


@dataclass(frozen=True, eq=False)
class Problem:
    """A posterior, its data and a start: `vr.sample(key, *problem)`.

    `init` are parameters, or a function of a key that makes them. Each door adds what its library's
    users look for: constrained draws, predictions, names.
    """

    posterior: Posterior
    data: Data
    init: Any

    def __iter__(self) -> Iterator[Any]:
        return iter((self.posterior, self.data, self.init))
