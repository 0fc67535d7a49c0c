"""A control variate at a fixed centre (Baker et al. 2019): SVRG whose anchor never moves.

With centre c and G(c) = sum_{i=1..N} grad loglik(c, d_i), computed once,

    g(x) = G(c) + grad logprior(x) + N/n sum_{i in batch} (grad loglik(x, d_i) - grad loglik(c, d_i)).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.core.gradients import (
    GradientSum,
    collect_gradient,
    corrected_gradient,
    empty_gradient_sum,
)
from vrsgmcmc.core.tree import cast, full_like, named_leaves
from vrsgmcmc.core.types import Batch, Params, Posterior, PRNGKey


class Memory(NamedTuple):
    center: Params  # c
    gradient: Params  # G(c)


@partial(jax.tree_util.register_dataclass, data_fields=["center"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class ControlVariate:
    name: ClassVar[str] = "control_variate"

    center: Params | None

    def _content(self) -> Any:
        leaves, structure = jax.tree.flatten(self.center)
        arrays = [np.asarray(leaf) for leaf in leaves]
        return structure, tuple((a.shape, str(a.dtype), a.tobytes()) for a in arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ControlVariate) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def refresh_size(self, size: int) -> int:
        return size

    def refresh_period(self, size: int, batch_size: int | None) -> int | None:
        return None

    def cost(self, size: int, batch_size: int) -> int:
        return 2 * batch_size

    def init(self, params: Params, size: int) -> Memory:
        unknown = full_like(params, jnp.nan)
        return Memory(self._center(unknown), unknown)

    def _center(self, position: Params) -> Params:
        """The given centre; without one, the position at the refresh."""
        if self.center is None:
            return position
        return cast(jax.tree.map(jnp.asarray, self.center), position)

    def blank(self, memory: Memory) -> GradientSum:
        return empty_gradient_sum(memory.gradient)

    def collect(
        self, posterior, partial, memory, position, part, lock, present=None
    ) -> GradientSum:
        center = self._center(position)
        return collect_gradient(posterior, partial, center, part, lock, present)

    def renew(self, partial: GradientSum, memory, position, lock, size) -> Memory:
        return Memory(self._center(position), partial.gradient.value)

    def estimate(
        self,
        posterior: Posterior,
        memory: Memory,
        point: Params,
        batch: Batch,
        lock: PRNGKey,
        size: int,
    ) -> tuple[Params, Memory]:
        gradient = corrected_gradient(
            posterior, memory.gradient, memory.center, point, batch, lock, size
        )
        return gradient, memory


def control_variate(center: Params | None = None) -> ControlVariate:
    """A fixed centre: 2 n evaluations per step and N once (plus the search, when there is one).

    - `center`: a pytree like the parameters, best a posterior mode. None: `vr.sample` searches a
      mode once and counts what that costs; a bare kernel takes the position at its refresh.
    """
    for name, leaf in named_leaves(center):
        if not np.issubdtype(np.asarray(leaf).dtype, np.number):
            raise TypeError(
                f"control_variate: the centre must hold numbers, got {leaf!r} in leaf {name}."
            )
        if not np.all(np.isfinite(np.asarray(leaf))):
            raise ValueError(f"control_variate: the centre is not finite in leaf {name}.")
    return ControlVariate(center)
