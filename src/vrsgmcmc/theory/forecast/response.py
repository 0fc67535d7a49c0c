"""An integrator on a quadratic, direction by direction, as a linear filter.

With the gradient -lambda x + e, e the error of the estimate, one step of `schemes.py` is

    z' = M z + b e + N(0, Q),    x = the first coordinate of z

With M = R diag(mu) R^-1 all results are sums of powers of its one or two decay factors mu_a:

    the response of x to an error s steps ago     sum_a kick_a mu_a^s
    Cov(x_{l+k}, x_l) from the injected noise     sum_a noise_a mu_a^k
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Complex, Float

from vrsgmcmc.core import Integrator

from ..exact.schemes import Array, Scheme, scheme


class Response(NamedTuple):
    """Leaves [..., d, a], for each step size and direction; [..., d, a, b] where two meet."""

    decay: Complex[Array, "*h d a"]  # mu
    kick: Complex[Array, "*h d a"]
    noise: Complex[Array, "*h d a"]
    source: Complex[Array, "*h d a b"]  # of Q: x = sum_s sum_a mu_a^s q_a, E q_a q_b
    stable: Any  # [...]: every direction decays
    ahead: bool  # the gradient is taken ahead of the position, within the step


def response(
    integrator: Integrator, step_sizes: Float[Array, " h"], curvature: Float[Array, " d"]
) -> Response:
    """The filter of an integrator for each step size, on a quadratic with these curvatures."""
    schemes = [scheme(integrator, float(h)) for h in step_sizes]
    stack: Scheme = jax.tree.map(lambda *leaves: np.stack(leaves)[:, None], *schemes)
    before, after, kick, _ = stack

    size = kick.shape[-1]
    pull = curvature[:, None, None] * kick[..., None] * np.eye(size)[0]  # lambda b e_x^T
    move = after.matrix - pull
    step = move @ before.matrix  # M
    if size == 2:  # two equal decay factors have no diagonal form: separate them
        step = step + 1e-9 * np.diag([1.0, -1.0])
    noise = move @ before.covariance @ np.swapaxes(move, -1, -2) + after.covariance  # Q

    decay, right = np.linalg.eig(step.astype(complex))
    left = np.linalg.inv(right)
    weight = right[..., 0, :]  # of each mode in x
    source = left @ noise @ np.swapaxes(left, -1, -2)
    source = weight[..., :, None] * source * weight[..., None, :]
    return Response(
        decay=decay,
        kick=weight * (left @ kick[..., None])[..., 0],
        noise=np.sum(source / (1 - products(decay)), axis=-1),
        source=source,
        stable=np.all(np.abs(decay) < 1, axis=(-1, -2)),
        ahead=size == 2 and bool(schemes[0].before.matrix[0, 1] != 0),
    )


def products(decay: Complex[Array, "*h d a"]) -> Complex[Array, "*h d a a"]:
    return decay[..., :, None] * decay[..., None, :]
