"""What control variates share: a fixed centre c, and the likelihood's gradient there, summed once.

G(c) = sum_{i=1..N} grad loglik(c, d_i)
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..tree import cast, full_like
from ..types import Params
from .anchored import Anchored, GradientSum


class Memory(NamedTuple):
    center: Params  # c
    gradient: Params  # G(c)


class Centered(Anchored):
    """A control variate; its own file has the formula. Descriptions are equal by their numbers."""

    name = "control_variate"

    center: Params | None

    def _content(self) -> Any:
        leaves, structure = jax.tree.flatten(self)
        arrays = [np.asarray(leaf) for leaf in leaves]
        return structure, tuple((a.shape, str(a.dtype), a.tobytes()) for a in arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Centered) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

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

    def mode(self, memory: Memory):
        return memory.center
