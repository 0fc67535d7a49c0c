"""Stochastic gradient MCMC on a linear-Gaussian problem as a cycle of random affine maps.

The state is z = (x, p, anchor, old, history, table, sum, 1, errors); blocks that a method does not
need are empty. With r_i(x) = y_i - x_i . x and u_i = x_i / s2, a datum's gradient is u_i r_i(x), and

    full, minibatch    g = prior(x)                       + sum_i c_i u_i r_i(x)
    control_variate    g = prior(x) + sum_i u_i r_i(c)    + sum_i c_i u_i (r_i(x) - r_i(c))
    practical, svrg    g = prior(x) + old                 + sum_i c_i u_i (r_i(x) - r_i(anchor))
    saga               g = prior(x) + sum_i u_i table_i   + sum_i c_i u_i (r_i(x) - table_i),
                       then table_i = r_i(x) for every datum drawn

A refresh, every `period` steps and before the step, sets anchor = the mean of the last `average`
positions and old = sum_i c_i u_i r_i(anchor). The code follows these equations, not the samplers.

Positions are measured from the posterior mean: variances then are not differences of large numbers.
On request sum <- sum + x ends each step: the variance of a sum is a second moment of z.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vrsgmcmc.core import Integrator, Sampler

from .affine import AffineMap, MomentMap, deterministic_map
from .draws import Draws, drawing
from .problems import Array, LinearGaussian, has_equal_features
from .schemes import Flow, Scheme, scheme, temperature_of
from .sweeps import Select, Stream, stream

LARGEST = 64  # coordinates that a cycle may carry: the linear equation has half their square


class Chain(NamedTuple):
    """One cycle: for each of its steps, the maps of the second moments of z."""

    steps: list[list[MomentMap]]
    opening: list[list[MomentMap]]  # the first steps of a run, where they differ from the cycle's
    select: Select
    carry: Float[Array, "C D"]  # without `sum`

    @property
    def maps(self) -> list[MomentMap]:
        return [each for step in self.steps for each in step]

    def step(self, l: int) -> list[MomentMap]:
        """The maps of step l of a run."""
        return self.opening[l] if l < len(self.opening) else self.steps[l % len(self.steps)]


def chain(problem: LinearGaussian, sampler: Sampler, *, sums: bool = False) -> Chain:
    """One cycle of a sampler that `resolve` returned; `sums`: with the sum of the positions."""
    name, (size, dimension) = sampler.estimator.name, problem.features.shape
    draws = drawing(sampler, size)
    sweeps = has_equal_features(problem) and draws.error.is_sweep(size)
    dynamics = scheme(sampler.integrator, sampler.step_size)
    problem, origin = centre(problem)

    has_anchor = name in ("practical", "svrg")
    z = _selectors(
        x=dimension,
        p=dimension * (len(dynamics.kick) - 1),
        anchor=dimension * has_anchor,
        old=dimension * has_anchor,
        history=dimension * (draws.average - 1),
        table=size * (name == "saga"),
        sum=dimension * sums,
        one=1,
        # With equal features a sweep's errors are coordinates (see `sweeps.py`).
        errors=size // draws.error.count * sweeps,
    )
    carry = np.concatenate([z[block] for block in ("x", "p", "history", "table", "one")])
    if len(carry) > LARGEST:
        raise ValueError(
            f"the law of {name} needs the second moments of {len(carry)} coordinates, more than "
            f"{LARGEST}; take fewer data or a smaller average"
        )

    before = _before_gradient(dynamics.before, z)
    ending: list[MomentMap] = []
    if sums:
        identity = np.eye(carry.shape[1])
        ending = [deterministic_map(identity + z["sum"].T @ z["x"], 0 * identity)]

    def step_maps(step: int, steps: Stream, refreshes: Stream) -> list[MomentMap]:
        is_refresh = has_anchor and step % draws.period == 0
        refresh = refreshes.visit(step // draws.period) if is_refresh else []
        return [*refresh, *before, *steps.visit(step), *ending]

    def refreshes_at(positions: int) -> Stream:
        return _refreshes(problem, draws.anchor, positions, z) if has_anchor else Stream([], [])

    steps = _steps(problem, origin, sampler, dynamics, draws.batch, z)
    refreshes = refreshes_at(draws.average)
    length = math.lcm(len(steps.maps), draws.period * max(len(refreshes.maps), 1))
    cycle = [step_maps(step, steps, refreshes) for step in range(length)]

    first = dynamics._replace(kick=dynamics.kick - dynamics.late_kick)
    opening = []
    for step in range(max(draws.average - 1, int(dynamics.late_kick.any()))):
        here = steps if step else _steps(problem, origin, sampler, first, draws.batch, z)
        opening.append(step_maps(step, here, refreshes_at(min(step + 1, draws.average))))
    return Chain(cycle, opening, z, carry)


def start_moments(
    problem: LinearGaussian, integrator: Integrator, point: Float[Array, " d"], z: Select
) -> Float[Array, "1 1 D D"]:
    """The second moments of z before the first step from a point, with p ~ N(0, T).

    The table of `saga` is filled at the point.
    """
    problem, origin = centre(problem)
    position = point - origin
    mean = z["one"][0] + position @ z["x"]
    if len(z["table"]):
        mean = mean + (problem.targets - problem.features @ position) @ z["table"]
    return (np.outer(mean, mean) + temperature_of(integrator) * z["p"].T @ z["p"])[None, None]


def centre(problem: LinearGaussian) -> tuple[LinearGaussian, Float[Array, " d"]]:
    """The likelihood in terms of x - origin, and the origin: the posterior mean."""
    origin = problem.posterior()[0]
    return replace(problem, targets=problem.targets - problem.features @ origin), origin


def _before_gradient(flow: Flow, z: Select) -> list[MomentMap]:
    """The maps of a step before its gradient: history takes the position in, then x and p flow."""
    mean, noise = _flow_map(flow, z)
    older = np.concatenate([z["x"], z["history"]])[: len(z["history"])]
    mean = mean + z["history"].T @ (older - z["history"])
    is_identity = np.array_equal(mean, np.eye(len(mean))) and not noise.any()
    return [] if is_identity else [deterministic_map(mean, noise)]


def _steps(
    problem: LinearGaussian,
    origin: Float[Array, " d"],
    sampler: Sampler,
    dynamics: Scheme,
    draws: Draws,
    z: Select,
) -> Stream:
    """The maps from the gradient estimate to the end of the step."""
    name = sampler.estimator.name
    columns = problem.features.T / problem.noise_variance  # u_i
    fixed = -(z["x"] + np.outer(origin, z["one"])) / problem.prior_variance
    rows = _residuals(problem, z["x"], z)
    if name == "control_variate":
        center = getattr(sampler.estimator, "center", None)
        center = np.asarray(origin if center is None else center, dtype=float).reshape(-1) - origin
        there = _residuals(problem, np.outer(center, z["one"]), z)
        fixed, rows = fixed + columns @ there, rows - there
    elif name in ("practical", "svrg"):
        fixed, rows = fixed + z["old"], rows - _residuals(problem, z["anchor"], z)
    elif name == "saga":
        fixed, rows = fixed + columns @ z["table"], rows - z["table"]

    mean, noise = _flow_map(dynamics.after, z)
    kick = _phase_space(z).T @ np.kron(dynamics.kick[:, None], np.eye(len(z["x"])))
    kicks = kick @ columns
    table = z["table"].T if name == "saga" else np.zeros_like(kicks)
    affine = AffineMap(mean + kick @ fixed, np.stack([kicks, table]), rows, noise)
    return stream(draws, affine, z, label=f"{name} with order={draws.order!r}")


def _refreshes(problem: LinearGaussian, draws: Draws, positions: int, z: Select) -> Stream:
    """The anchor moves to the mean of the last `positions` positions, `old` to the gradient there."""
    dimension, width = z["x"].shape
    path = np.concatenate([z["x"], z["history"]]).reshape(-1, dimension, width)
    anchor = path[:positions].mean(0)
    overwrite = np.concatenate([z["anchor"], z["old"]])
    gradients = z["old"].T @ problem.features.T / problem.noise_variance
    affine = AffineMap(
        fixed=np.eye(width) - overwrite.T @ overwrite + z["anchor"].T @ anchor,
        left=np.stack([gradients, np.zeros_like(gradients)]),
        right=_residuals(problem, anchor, z),
        noise=np.zeros((width, width)),
    )
    return stream(draws, affine, z, label=f"practical with anchor_order={draws.order!r}")


def _residuals(
    problem: LinearGaussian, point: Float[Array, "d D"], z: Select
) -> Float[Array, "N D"]:
    """r_i at a point that is itself linear in z."""
    return problem.targets[:, None] * z["one"] - problem.features @ point


def _phase_space(z: Select) -> Float[Array, "k D"]:
    return np.concatenate([z["x"], z["p"]])


def _flow_map(flow: Flow, z: Select) -> tuple[Float[Array, "D D"], Float[Array, "D D"]]:
    """A flow of (x, p), the same in every dimension, as matrix and covariance of z."""
    phase, dimension = _phase_space(z), len(z["x"])
    step = np.kron(flow.matrix, np.eye(dimension)) - np.eye(len(phase))
    covariance = np.kron(flow.covariance, np.eye(dimension))
    return np.eye(phase.shape[1]) + phase.T @ step @ phase, phase.T @ covariance @ phase


def _selectors(**sizes: int) -> Select:
    rows = np.eye(sum(sizes.values()))
    return dict(zip(sizes, np.split(rows, np.cumsum(list(sizes.values()))[:-1]), strict=True))
