"""A control variate at a fixed centre (Baker et al. 2019): SVRG whose anchor never moves.

With centre c and G(c) = sum_{i=1..N} grad loglik(c, d_i), computed once,

    g(x) = G(c) + grad logprior(x) + N/n sum_{i in batch} (grad loglik(x, d_i) - grad loglik(c, d_i)).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..tree import cast, full_like, named_leaves
from ..types import Params, description
from .anchored import Anchored, GradientSum, corrected_gradient


class Memory(NamedTuple):
    center: Params  # c
    gradient: Params  # G(c)


@description
@dataclass(frozen=True, eq=False)
class ControlVariate(Anchored):
    name = "control_variate"

    center: Params | None

    def _content(self) -> Any:
        leaves, structure = jax.tree.flatten(self.center)
        arrays = [np.asarray(leaf) for leaf in leaves]
        return structure, tuple((a.shape, str(a.dtype), a.tobytes()) for a in arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ControlVariate) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __str__(self) -> str:
        return self.name

    def init(self, params, size):
        unknown = full_like(params, jnp.nan)
        return Memory(self.anchor(None, unknown), unknown)

    def anchor(self, memory, position):
        """The centre, where there is one; else the position at the refresh."""
        if self.center is None:
            return position
        return cast(jax.tree.map(jnp.asarray, self.center), position)

    def renew(self, partial_sum: GradientSum, memory, position, augment_key, size):
        return Memory(self.anchor(memory, position), partial_sum.gradient.value)

    def estimate(self, posterior, memory, point, batch, augment_key, size):
        gradient = corrected_gradient(
            posterior, memory.gradient, memory.center, point, batch, augment_key, size
        )
        return gradient, memory

    def check_posterior(self, posterior):
        if posterior.augment is not None:
            raise ValueError(
                "control_variate() cannot be used with augment: its centre's gradient is summed "
                "once, over one augmentation of each datum, and would not fit the next. Use "
                "practical() or svrg(), which keep the augmentation until their next refresh."
            )

    def check_params(self, params):
        shapes = [jax.tree.map(jnp.shape, value) for value in (self.center, params)]
        if self.center is not None and shapes[0] != shapes[1]:
            raise ValueError(
                f"control_variate: the centre has shapes {shapes[0]}, the parameters {shapes[1]}. "
                "They must agree."
            )

    @property
    def seeks_mode(self) -> bool:
        return self.center is None

    def at_mode(self, mode):
        return ControlVariate(mode)

    def mode(self, memory: Memory):
        return memory.center


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
