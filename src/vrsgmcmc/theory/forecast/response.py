"""An integrator on a quadratic, direction by direction, as a linear filter.

With the gradient -lambda x + e, e the error of the estimate, one step of `schemes.py` is

    z' = M z + b e + N(0, Q),    x = the first coordinate of z

and M = R diag(mu) R^-1 turns everything into sums of powers of its one or two decay factors mu_a:

    x answers an error s steps ago with     sum_a kick_a mu_a^s
    the injected noise gives Cov(x_{l+k}, x_l) = sum_a noise_a mu_a^k
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Complex, Float

from vrsgmcmc.theory.exact.schemes import scheme

Array = np.ndarray


class Response(NamedTuple):
    """Leaves [..., d, a], for each step size and direction; [..., d, a, b] where two meet."""

    decay: Complex[Array, "*h d a"]  # mu
    kick: Complex[Array, "*h d a"]
    noise: Complex[Array, "*h d a"]
    source: Complex[Array, "*h d a b"]  # Q seen by x: x = sum_s sum_a mu_a^s q_a, E q_a q_b
    stable: Any  # [...]: every direction decays
    ahead: bool  # the gradient is taken ahead of the position, within the step


def response(
    integrator: Any, step_sizes: Float[Array, " h"], curvature: Float[Array, " d"]
) -> Response:
    schemes = [scheme(integrator, float(h)) for h in step_sizes]
    before = np.stack([each.before.matrix for each in schemes])[:, None]
    before_noise = np.stack([each.before.covariance for each in schemes])[:, None]
    after = np.stack([each.after.matrix for each in schemes])[:, None]
    after_noise = np.stack([each.after.covariance for each in schemes])[:, None]
    kick = np.stack([each.kick for each in schemes])[:, None]

    size = kick.shape[-1]
    pull = curvature[:, None, None] * kick[..., None] * np.eye(size)[0]  # lambda b e_x^T
    move = after - pull
    step = move @ before  # M
    if size == 2:  # two equal decay factors have no diagonal form: keep them apart
        step = step + 1e-9 * np.diag([1.0, -1.0])
    noise = move @ before_noise @ np.swapaxes(move, -1, -2) + after_noise  # Q

    decay, right = np.linalg.eig(step.astype(complex))
    left = np.linalg.inv(right)
    seen = right[..., 0, :]  # how x sees each mode
    source = left @ noise @ np.swapaxes(left, -1, -2)
    source = seen[..., :, None] * source * seen[..., None, :]
    return Response(
        decay=decay,
        kick=seen * (left @ kick[..., None])[..., 0],
        noise=np.sum(source / (1 - products(decay)), axis=-1),
        source=source,
        stable=np.all(np.abs(decay) < 1, axis=(-1, -2)),
        ahead=bool(schemes[0].before.matrix[0, -1] != 0) and size == 2,
    )


def products(decay: Complex[Array, "*h d a"]) -> Complex[Array, "*h d a a"]:
    return decay[..., :, None] * decay[..., None, :]
