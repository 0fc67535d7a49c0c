"""Integrators as affine maps of (x, p), given the one gradient that each step asks for.

    (x, p) <- flow before,   g = gradient(x),   (x, p) <- flow after (x, p) + kick g

A flow is Gaussian: (x, p)' = matrix (x, p) + N(0, covariance), each 2 x 2 (1 x 1 without momentum),
the same for every dimension of x. Flows of A, O and U = A + O come from their generators

    dx = p dt  (A)        dp = -f p dt + sqrt(2 f T) dW  (O)

by matrix exponentials, so no closed form of theirs is copied from anywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import expm

Array = np.ndarray


class Flow(NamedTuple):
    matrix: Float[Array, "k k"]
    covariance: Float[Array, "k k"]

    def then(self, after: Flow) -> Flow:
        return Flow(
            after.matrix @ self.matrix,
            after.matrix @ self.covariance @ after.matrix.T + after.covariance,
        )


class Scheme(NamedTuple):
    before: Flow
    after: Flow
    kick: Float[Array, " k"]


def still(size: int) -> Flow:
    return Flow(np.eye(size), np.zeros((size, size)))


def scheme(integrator: Any, step_size: float) -> Scheme:
    """The affine scheme of an integrator's description, by its name."""
    h = step_size
    if integrator.name == "sgld":  # x' = x + h g + sqrt(2 h T) xi
        return Scheme(
            still(1),
            Flow(np.eye(1), 2 * h * float(integrator.temperature) * np.eye(1)),
            np.array([h]),
        )
    if integrator.name == "sghmc":  # p' = (1 - h f) p + h g + sqrt(2 f T h) xi;  x' = x + h p'
        f, T = float(integrator.friction), float(integrator.temperature)
        drift = Flow(np.diag([1, 1 - h * f]), np.diag([0, 2 * f * T * h]))
        move = Flow(np.array([[1, h], [0, 1]]), np.zeros((2, 2)))
        return Scheme(still(2), drift.then(move), move.matrix @ [0, h])
    if integrator.name == "splitting":
        return _splitting(
            integrator.word, float(integrator.friction), float(integrator.temperature), h
        )
    raise ValueError(
        f"integrator {integrator.name!r} has no closed law: its step is not known to be affine. "
        "Exact laws exist for sgld, sghmc and splitting; for an ito that equals one of these, "
        "pass that one"
    )


def _splitting(word: str, friction: float, temperature: float, step_size: float) -> Scheme:
    """Letters share h by their counts; what follows the last A or U opens the next step."""
    last = max(word.rfind("A"), word.rfind("U"))
    turned = word[last + 1 :] + word[: last + 1]
    first, end = turned.find("B"), turned.rfind("B") + 1
    if set(word) - set("ABOU") or last < 0 or first < 0 or set(turned[first:end]) & set("AU"):
        raise ValueError(
            f"the word {word!r} is not one gradient per step: use letters A, B, O, U, at "
            "least one B and one A or U, and no A or U between the B's of a step, such as BAOAB, "
            "ABOBA, OBABO or UBU"
        )

    before, after, kick = still(2), still(2), np.zeros(2)
    for place, letter in enumerate(turned):
        time = step_size / word.count(letter)
        flow = _letter(letter, friction, temperature, time)
        if place < first:
            before = before.then(flow)
        else:
            after, kick = after.then(flow), flow.matrix @ kick
        if letter == "B":
            kick = kick + np.array([0, time])
    return Scheme(before, after, kick)


def _letter(letter: str, friction: float, temperature: float, time: float) -> Flow:
    """exp of the generator; the covariance solves S' = G S + S G^T + D, S(0) = 0. B only kicks."""
    if letter == "B":
        return still(2)
    moves, rubs = letter in "AU", letter in "OU"
    generator = np.array([[0, moves], [0, -friction * rubs]], dtype=float)
    diffusion = np.diag([0, 2 * friction * temperature * rubs])
    both = np.zeros((5, 5))
    both[:4, :4] = np.kron(generator, np.eye(2)) + np.kron(np.eye(2), generator)
    both[:4, 4] = diffusion.ravel()
    return Flow(expm(generator * time), expm(both * time)[:4, 4].reshape(2, 2))
