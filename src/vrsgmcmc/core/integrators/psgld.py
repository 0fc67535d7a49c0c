"""Preconditioned SGLD (Li et al. 2016), without the curvature term, as usual in practice.

    v' = a v + (1 - a) (g/N)^2,   G = 1 / (eps + sqrt(v'))
    x' = x + h G g + sqrt(2 h T G) xi,   xi ~ N(0, I),   v_0 = 0

G changes with x, so without its divergence the stationary law is the posterior only in the limit of
a long memory: it needs (1 - a) small against h G times the posterior's curvature. G falls like
1/scale of a parameter's gradients, the posterior's variance like 1/scale^2: standardise features
rather than rely on it (docs/choosing.md has numbers).
"""

import jax
import jax.numpy as jnp

from ..arguments import non_negative, number, positive
from ..rng import normal_like
from ..tree import cast, full_like
from ..types import Integrator, description


@description
class PSGLD(Integrator):
    name = "psgld"
    why_no_metric = "it scales the parameters itself"

    decay: float
    eps: float
    temperature: float

    def init(self, key, params):
        return full_like(params, 0.0)

    def step(self, key, position, dynamics, gradient, step_size, size):
        h, a = step_size, self.decay
        g = gradient(position)
        v = jax.tree.map(lambda v, g: a * v + (1 - a) * jnp.square(g / size), dynamics, g)
        preconditioner = jax.tree.map(lambda v: 1 / (self.eps + jnp.sqrt(v)), v)

        def move(x, g, G, xi):
            return x + h * G * g + jnp.sqrt(2 * h * self.temperature * G) * xi

        moved = jax.tree.map(move, position, g, preconditioner, normal_like(key, position))
        return cast(moved, position), cast(v, dynamics)


def psgld(decay: float = 0.99, eps: float = 1e-5, temperature: float = 1.0) -> PSGLD:
    """Langevin dynamics with RMSprop's preconditioner.

    - `decay`: a, the memory of the running mean of squared gradients, in [0, 1).
    - `eps`: added to the root, bounds the preconditioner.
    """
    if not 0 <= number("psgld", "decay", decay) < 1:
        raise ValueError(f"psgld(decay={decay!r}): decay must be at least 0 and below 1.")
    eps = positive("psgld", "eps", eps)
    return PSGLD(float(decay), eps, non_negative("psgld", "temperature", temperature))
