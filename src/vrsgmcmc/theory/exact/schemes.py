"""Integrators as affine maps of (x, p) with the one gradient of a step as input.

    (x, p) <- flow before,   g = gradient(x),   (x, p) <- flow after (x, p) + kick g

A flow is Gaussian: (x, p)' = matrix (x, p) + N(0, covariance), each 2 x 2 (1 x 1 without momentum),
the same for every dimension of x. Flows of A, O and U = A + O come from their generators

    dx = p dt  (A)        dp = -f p dt + sqrt(2 f T) dW  (O)

by matrix exponentials, so this file copies no closed form of theirs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import expm

from vrsgmcmc.core import Integrator

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
    late_kick: Float[Array, " k"]  # the part of `kick` that the first step of a run lacks


def identity(size: int) -> Flow:
    return Flow(np.eye(size), np.zeros((size, size)))


def scheme(integrator: Integrator, step_size: float) -> Scheme:
    """The affine scheme of an integrator, by its name."""
    h, f, T = step_size, float(getattr(integrator, "friction", 0.0)), temperature_of(integrator)
    if integrator.name == "sgld":  # x' = x + h g + sqrt(2 h T) xi
        noise = Flow(np.eye(1), 2 * h * T * np.eye(1))
        return Scheme(identity(1), noise, np.array([h]), np.zeros(1))
    if integrator.name == "leimkuhler_matthews":
        root = np.sqrt(h / 2)  # p = sqrt(T) xi;  x' = x + h g + sqrt(h/2) (p + p')
        noise = Flow(np.array([[1, root], [0, 0]]), T * np.array([[h / 2, root], [root, 1]]))
        return Scheme(identity(2), noise, np.array([h, 0]), np.zeros(2))
    if integrator.name == "sghmc":  # p' = (1 - h f) p + h g + sqrt(2 f T h) xi;  x' = x + h p'
        drift = Flow(np.diag([1, 1 - h * f]), np.diag([0, 2 * f * T * h]))
        move = Flow(np.array([[1, h], [0, 1]]), np.zeros((2, 2)))
        return Scheme(identity(2), drift.then(move), move.matrix @ [0, h], np.zeros(2))
    if integrator.name == "splitting":
        return _splitting(getattr(integrator, "word", ""), f, T, h)
    raise ValueError(
        f"integrator {integrator.name!r} has no closed law: its step is not known to be affine. "
        "Exact laws exist for sgld, sghmc, splitting and leimkuhler_matthews; for an ito that equals "
        "one of these, pass that one"
    )


def temperature_of(integrator: Integrator) -> float:
    return float(getattr(integrator, "temperature", 1.0))


def _splitting(word: str, friction: float, temperature: float, step_size: float) -> Scheme:
    """All times of one letter add up to h.

    The letters behind the last A or U run in the next step. The first step has no step before it,
    so it runs none of them. The O's would not change p_0 ~ N(0, T); the B's would.
    """
    last = max(word.rfind("A"), word.rfind("U"))
    late, letters = len(word) - last - 1, word[last + 1 :] + word[: last + 1]
    first, end = letters.find("B"), letters.rfind("B") + 1
    if set(word) - set("ABOU") or last < 0 or first < 0 or set(letters[first:end]) & set("AU"):
        raise ValueError(
            f"the word {word!r} is not one gradient per step: use letters A, B, O, U, at "
            "least one B and one A or U, and no A or U between the B's of a step, such as BAOAB, "
            "ABOBA, OBABO or UBU"
        )

    before, after, kick, late_kick = identity(2), identity(2), np.zeros(2), np.zeros(2)
    for place, letter in enumerate(letters):
        time = step_size / word.count(letter)
        flow = _letter(letter, friction, temperature, time)
        if place < first:
            before = before.then(flow)
        else:
            after, kick, late_kick = after.then(flow), flow.matrix @ kick, flow.matrix @ late_kick
        if letter == "B":
            kick = kick + np.array([0, time])
            late_kick = late_kick + np.array([0, time * (place < late)])
    return Scheme(before, after, kick, late_kick)


def _letter(letter: str, friction: float, temperature: float, time: float) -> Flow:
    """exp of the generator; the covariance solves S' = G S + S G^T + D, S(0) = 0. B only kicks."""
    if letter == "B":
        return identity(2)
    has_drift, has_friction = letter in "AU", letter in "OU"
    generator = np.array([[0, has_drift], [0, -friction * has_friction]], dtype=float)
    diffusion = np.diag([0, 2 * friction * temperature * has_friction])
    both = np.zeros((5, 5))
    both[:4, :4] = np.kron(generator, np.eye(2)) + np.kron(np.eye(2), generator)
    both[:4, 4] = diffusion.ravel()
    return Flow(expm(generator * time), expm(both * time)[:4, 4].reshape(2, 2))
