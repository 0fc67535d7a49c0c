"""Stochastic gradient MCMC on a linear-Gaussian problem as a cycle of random affine maps.

The state is z = (x, p, anchor, old, history, table, 1, errors); blocks that a method does not need
are empty. With r_i(x) = y_i - x_i . x and u_i = x_i / s2, a datum's gradient is u_i r_i(x), and

    full, minibatch    g = prior(x)                       + sum_i c_i u_i r_i(x)
    control_variate    g = prior(x) + sum_i u_i r_i(c)    + sum_i c_i u_i (r_i(x) - r_i(c))
    practical, svrg    g = prior(x) + old                 + sum_i c_i u_i (r_i(x) - r_i(anchor))
    saga               g = prior(x) + sum_i u_i table_i   + sum_i c_i u_i (r_i(x) - table_i),
                       then table_i = r_i(x) for every datum drawn

A refresh, every `period` steps and before the step, sets anchor = the mean of the last `average`
positions and old = sum_i c_i u_i r_i(anchor). Written from these equations, not from the samplers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vrsgmcmc.theory.affine import MomentMap, RandomMap, deterministic
from vrsgmcmc.theory.problems import LinearGaussian
from vrsgmcmc.theory.schemes import Flow, Scheme, scheme
from vrsgmcmc.theory.sweeps import ORDERS, Draws, Stream, stream

Array = np.ndarray
Select = dict[str, Float[Array, "_ D"]]  # select["x"] @ z is x

ESTIMATORS = ("full", "minibatch", "practical", "svrg", "saga", "control_variate")
LARGEST = 64  # coordinates that a cycle may carry: the linear equation has half their square


class Chain(NamedTuple):
    """One cycle: maps of the second moments of z, and which of them end a step."""

    maps: list[MomentMap]
    ends_step: list[bool]
    select: Select
    carried: Float[Array, "C D"]  # all that a cycle does not renew before reading it; 1 is last


def chain(
    problem: LinearGaussian,
    estimator: Any,
    integrator: Any,
    *,
    step_size: float,
    batch_size: int | None,
    order: str,
    anchor_order: str,
) -> Chain:
    """Spell out one cycle of a sampler, given by its descriptions."""
    name, (size, dimension) = estimator.name, problem.features.shape
    if name not in ESTIMATORS:
        raise ValueError(f"estimator {name!r} has no closed law; known: {', '.join(ESTIMATORS)}")
    if not step_size > 0:
        raise ValueError(f"step_size must be positive, got {step_size}")
    dynamics = scheme(integrator, step_size)

    all_data = Draws(size, "without_replacement", axis=-4)
    batch = all_data if name == "full" else _draws("batch_size", batch_size, order, size, axis=-3)
    anchor, period, average = all_data, 1, 1
    if name == "practical":
        anchor = _draws("anchor_size", estimator.anchor_size, anchor_order, size, axis=-4)
        period, average = estimator.period, estimator.average
    elif name == "svrg":
        period = math.ceil(size / batch.count) if estimator.period is None else estimator.period

    # Alike data differ by constants only; then a sweep's errors are coordinates (see `sweeps.py`).
    alike = bool(np.all(problem.features == problem.features[0]))
    swept = {"minibatch": batch, "practical": anchor}.get(name, all_data)
    anchored = name in ("practical", "svrg")
    z = _selectors(
        x=dimension,
        p=dimension * (len(dynamics.kick) - 1),
        anchor=dimension * anchored,
        old=dimension * anchored,
        history=dimension * (average - 1),
        table=size * (name == "saga"),
        one=1,
        errors=size // swept.count * (alike and swept.sweeps(size)),
    )
    carried = np.concatenate([z[block] for block in ("x", "p", "history", "table", "one")])
    if len(carried) > LARGEST:
        raise ValueError(
            f"the law of {name} needs the second moments of {len(carried)} coordinates, more than "
            f"{LARGEST}; take fewer data or a smaller average"
        )

    before = _before(dynamics.before, z)
    steps = _steps(problem, estimator, dynamics, batch, z)
    refreshes = _refreshes(problem, anchor, average, z) if anchored else Stream([], [])
    maps: list[MomentMap] = []
    ends_step: list[bool] = []
    for step in range(math.lcm(len(steps.maps), period * max(len(refreshes.maps), 1))):
        now: list[MomentMap] = []
        if anchored and step % period == 0:
            now += _visit(refreshes, step // period)
        now += [before, *_visit(steps, step)]
        maps += now
        ends_step += [False] * (len(now) - 1) + [True]
    return Chain(maps, ends_step, z, carried)


def _before(flow: Flow, z: Select) -> RandomMap:
    """What a step does before its gradient: history takes the position in, then x and p flow."""
    mean, noise = _flowing(flow, z)
    older = np.concatenate([z["x"], z["history"]])[: len(z["history"])]
    return deterministic(mean + z["history"].T @ (older - z["history"]), noise)


def _steps(
    problem: LinearGaussian, estimator: Any, dynamics: Scheme, draws: Draws, z: Select
) -> Stream:
    """The gradient estimate, its kick, and what flows with and after it."""
    columns = problem.features.T / problem.noise_variance  # u_i
    fixed, rows = -z["x"] / problem.prior_variance, _residuals(problem, z["x"], z)
    if estimator.name == "control_variate":
        center = problem.posterior()[0] if estimator.center is None else estimator.center
        center = np.reshape(np.asarray(center, dtype=float), (-1, 1))
        there = _residuals(problem, center @ z["one"], z)
        fixed, rows = fixed + columns @ there, rows - there
    elif estimator.name in ("practical", "svrg"):
        fixed, rows = fixed + z["old"], rows - _residuals(problem, z["anchor"], z)
    elif estimator.name == "saga":
        fixed, rows = fixed + columns @ z["table"], rows - z["table"]

    mean, noise = _flowing(dynamics.after, z)
    kick = _moving(z).T @ np.kron(dynamics.kick[:, None], np.eye(len(z["x"])))
    kicked = kick @ columns
    stored = z["table"].T if estimator.name == "saga" else np.zeros_like(kicked)
    return stream(
        draws,
        fixed=mean + kick @ fixed,
        left=np.stack([kicked, stored]),
        right=rows,
        noise=noise,
        one=z["one"],
        errors=z["errors"],
        what=f"{estimator.name} with order={draws.order!r}",
    )


def _refreshes(problem: LinearGaussian, draws: Draws, average: int, z: Select) -> Stream:
    """The anchor moves to the mean of the last positions, `old` to the gradient there."""
    width = z["x"].shape[1]
    recent = np.concatenate([z["x"], z["history"]]).reshape(average, -1, width).mean(0)
    renewed = np.concatenate([z["anchor"], z["old"]])
    written = z["old"].T @ problem.features.T / problem.noise_variance
    return stream(
        draws,
        fixed=np.eye(width) - renewed.T @ renewed + z["anchor"].T @ recent,
        left=np.stack([written, np.zeros_like(written)]),
        right=_residuals(problem, recent, z),
        noise=np.zeros((width, width)),
        one=z["one"],
        errors=z["errors"],
        what=f"practical with anchor_order={draws.order!r}",
    )


def _visit(stream: Stream, visit: int) -> list[MomentMap]:
    block = visit % len(stream.maps)
    return [*(stream.begin if block == 0 else []), stream.maps[block]]


def _residuals(
    problem: LinearGaussian, point: Float[Array, "d D"], z: Select
) -> Float[Array, "N D"]:
    """r_i at a point that is itself linear in z."""
    return problem.targets[:, None] * z["one"] - problem.features @ point


def _moving(z: Select) -> Float[Array, "k D"]:
    return np.concatenate([z["x"], z["p"]])


def _flowing(flow: Flow, z: Select) -> tuple[Float[Array, "D D"], Float[Array, "D D"]]:
    """A flow of (x, p), the same in every dimension, as matrix and covariance of z."""
    moving, dimension = _moving(z), len(z["x"])
    step = np.kron(flow.matrix, np.eye(dimension)) - np.eye(len(moving))
    covariance = np.kron(flow.covariance, np.eye(dimension))
    return np.eye(moving.shape[1]) + moving.T @ step @ moving, moving.T @ covariance @ moving


def _selectors(**sizes: int) -> Select:
    rows = np.eye(sum(sizes.values()))
    return dict(zip(sizes, np.split(rows, np.cumsum(list(sizes.values()))[:-1]), strict=True))


def _draws(what: str, count: int | None, order: str, size: int, *, axis: int) -> Draws:
    if order not in ORDERS:
        raise ValueError(f"unknown order {order!r}; choose one of {', '.join(ORDERS)}")
    if count is None or count < 1 or (count > size and order != "with_replacement"):
        raise ValueError(
            f"{what} must be between 1 and the number of data, {size}, got {count} "
            f"with order={order!r}"
        )
    return Draws(count, order, axis)
