"""Stochastic gradient MCMC on a linear-Gaussian problem as a cycle of random affine maps.

The state is z = (x, p, anchor, old, history, table, sum, 1, errors); blocks that a method does not
need are empty. With r_i(x) = y_i - x_i . x and u_i = x_i / s2, a datum's gradient is u_i r_i(x), and

    full, minibatch    g = prior(x)                       + sum_i c_i u_i r_i(x)
    control_variate    g = prior(x) + sum_i u_i r_i(c)    + sum_i c_i u_i (r_i(x) - r_i(c))
    practical, svrg    g = prior(x) + old                 + sum_i c_i u_i (r_i(x) - r_i(anchor))
    saga               g = prior(x) + sum_i u_i table_i   + sum_i c_i u_i (r_i(x) - table_i),
                       then table_i = r_i(x) for every datum drawn

A refresh, every `period` steps and before the step, sets anchor = the mean of the last `average`
positions and old = sum_i c_i u_i r_i(anchor). Written from these equations, not from the samplers.

Positions are measured from the posterior mean: variances then are not differences of large numbers.
Where sums are wanted, sum <- sum + x ends each step: the variance of a sum is a second moment of z.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vrsgmcmc.theory.exact.affine import MomentMap, deterministic
from vrsgmcmc.theory.exact.problems import LinearGaussian
from vrsgmcmc.theory.exact.schemes import Flow, Scheme, scheme
from vrsgmcmc.theory.exact.sweeps import ORDERS, Draws, Stream, stream

Array = np.ndarray
Select = dict[str, Float[Array, "_ D"]]  # select["x"] @ z is x

ESTIMATORS = ("full", "minibatch", "practical", "svrg", "saga", "control_variate")
LARGEST = 64  # coordinates that a cycle may carry: the linear equation has half their square


class Chain(NamedTuple):
    """One cycle: for each of its steps, the maps of the second moments of z."""

    steps: list[list[MomentMap]]
    opening: list[list[MomentMap]]  # the first steps of a run, where they differ from the cycle's
    select: Select
    carried: Float[Array, "C D"]  # all but `sum` that a cycle reads before it renews it; 1 is last

    @property
    def maps(self) -> list[MomentMap]:
        return [each for step in self.steps for each in step]

    def step(self, l: int) -> list[MomentMap]:
        """The maps of step l of a run."""
        return self.opening[l] if l < len(self.opening) else self.steps[l % len(self.steps)]


class Drawing(NamedTuple):
    """Which data the steps and the refreshes of an estimator draw."""

    batch: Draws
    anchor: Draws
    period: int
    average: int
    swept: Draws  # those whose errors do not depend on the position where data are alike


def drawing(
    estimator: Any, size: int, *, batch_size: int | None, order: str, anchor_order: str
) -> Drawing:
    name = estimator.name
    if name not in ESTIMATORS:
        raise ValueError(f"estimator {name!r} has no closed law; known: {', '.join(ESTIMATORS)}")
    all_data = Draws(size, "without_replacement", axis=-4)
    batch = all_data if name == "full" else _draws("batch_size", batch_size, order, size, axis=-3)
    anchor, period, average = all_data, 1, 1
    if name == "practical":
        if estimator.anchor_size != size:  # else the samplers visit all data once, in any order
            anchor = _draws("anchor_size", estimator.anchor_size, anchor_order, size, axis=-4)
        period, average = estimator.period, estimator.average
    elif name == "svrg":
        period = math.ceil(size / batch.count) if estimator.period is None else estimator.period
    swept = {"minibatch": batch, "practical": anchor}.get(name, all_data)
    return Drawing(batch, anchor, period, average, swept)


def alike(problem: LinearGaussian) -> bool:
    """Do the data differ by constants only? As in the Gaussian mean model."""
    return bool(np.all(problem.features == problem.features[0]))


def chain(
    problem: LinearGaussian,
    estimator: Any,
    integrator: Any,
    *,
    step_size: float,
    batch_size: int | None,
    order: str,
    anchor_order: str,
    sums: bool = False,
) -> Chain:
    """Spell out one cycle of a sampler, given by its descriptions."""
    name, (size, dimension) = estimator.name, problem.features.shape
    batch, anchor, period, average, swept = drawing(
        estimator, size, batch_size=batch_size, order=order, anchor_order=anchor_order
    )
    if not step_size > 0:
        raise ValueError(f"step_size must be positive, got {step_size}")
    dynamics = scheme(integrator, step_size)
    problem, origin = centred(problem)

    anchored = name in ("practical", "svrg")
    z = _selectors(
        x=dimension,
        p=dimension * (len(dynamics.kick) - 1),
        anchor=dimension * anchored,
        old=dimension * anchored,
        history=dimension * (average - 1),
        table=size * (name == "saga"),
        sum=dimension * sums,
        one=1,
        # Where data are alike a sweep's errors are coordinates (see `sweeps.py`).
        errors=size // swept.count * (alike(problem) and swept.sweeps(size)),
    )
    carried = np.concatenate([z[block] for block in ("x", "p", "history", "table", "one")])
    if len(carried) > LARGEST:
        raise ValueError(
            f"the law of {name} needs the second moments of {len(carried)} coordinates, more than "
            f"{LARGEST}; take fewer data or a smaller average"
        )

    before = _before(dynamics.before, z)
    steps = _steps(problem, origin, estimator, dynamics, batch, z)
    refreshes = _refreshes(problem, anchor, average, average, z) if anchored else Stream([], [])
    ending: list[MomentMap] = []
    if sums:
        width = carried.shape[1]
        added = np.eye(width) + z["sum"].T @ z["x"]
        ending = [deterministic(added, np.zeros((width, width)))]

    def maps(step: int, steps: Stream, refreshes: Stream) -> list[MomentMap]:
        refresh = _visit(refreshes, step // period) if anchored and step % period == 0 else []
        return [*refresh, *before, *_visit(steps, step), *ending]

    length = math.lcm(len(steps.maps), period * max(len(refreshes.maps), 1))
    cycle = [maps(step, steps, refreshes) for step in range(length)]

    opening = []
    late = late_kick(integrator, dynamics, step_size)
    first = dynamics._replace(kick=dynamics.kick - late)
    for step in range(max(average - 1, int(late.any()))):
        opened = _steps(problem, origin, estimator, first, batch, z) if step == 0 else steps
        known = min(step + 1, average)
        partly = _refreshes(problem, anchor, average, known, z) if anchored else refreshes
        opening.append(maps(step, opened, partly))
    return Chain(cycle, opening, z, carried)


def late_kick(integrator: Any, dynamics: Scheme, step_size: float) -> Float[Array, " k"]:
    """What the first kick of a run lacks.

    The letters of a splitting behind its last A or U run in the next step, so in the first step
    there are none to run. Its O's would leave p_0 ~ N(0, T) as it is; its B's are lacking.
    """
    kick, fade = np.zeros(len(dynamics.kick)), 1.0
    word = integrator.word if integrator.name == "splitting" else ""
    for letter in word[max(word.rfind("A"), word.rfind("U")) + 1 :].lstrip("O"):
        if letter == "B":  # `after` begins at the first of them
            kick += dynamics.after.matrix @ [0, step_size / word.count("B") / fade]
        else:
            fade *= math.exp(-float(integrator.friction) * step_size / word.count("O"))
    return kick


def started(
    problem: LinearGaussian, integrator: Any, point: Float[Array, " d"], z: Select
) -> Float[Array, "1 1 D D"]:
    """The second moments of z before the first step from a point; p ~ N(0, T), the table is full."""
    problem, origin = centred(problem)
    position = point - origin
    residuals = problem.targets - problem.features @ position
    mean = z["one"][0] + position @ z["x"]
    if len(z["table"]):
        mean = mean + residuals @ z["table"]
    return (np.outer(mean, mean) + float(integrator.temperature) * z["p"].T @ z["p"])[None, None]


def centred(problem: LinearGaussian) -> tuple[LinearGaussian, Float[Array, " d"]]:
    """The likelihood in terms of x - origin, and the origin: the posterior mean."""
    origin = problem.posterior()[0]
    return replace(problem, targets=problem.targets - problem.features @ origin), origin


def _before(flow: Flow, z: Select) -> list[MomentMap]:
    """What a step does before its gradient: history takes the position in, then x and p flow."""
    mean, noise = _flowing(flow, z)
    older = np.concatenate([z["x"], z["history"]])[: len(z["history"])]
    mean = mean + z["history"].T @ (older - z["history"])
    still = np.array_equal(mean, np.eye(len(mean))) and not noise.any()
    return [] if still else [deterministic(mean, noise)]


def _steps(
    problem: LinearGaussian,
    origin: Float[Array, " d"],
    estimator: Any,
    dynamics: Scheme,
    draws: Draws,
    z: Select,
) -> Stream:
    """The gradient estimate, its kick, and what flows with and after it."""
    columns = problem.features.T / problem.noise_variance  # u_i
    fixed = -(z["x"] + np.outer(origin, z["one"])) / problem.prior_variance
    rows = _residuals(problem, z["x"], z)
    if estimator.name == "control_variate":
        center = origin if estimator.center is None else estimator.center
        center = np.reshape(np.asarray(center, dtype=float), -1) - origin
        there = _residuals(problem, np.outer(center, z["one"]), z)
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


def _refreshes(
    problem: LinearGaussian, draws: Draws, average: int, known: int, z: Select
) -> Stream:
    """The anchor moves to the mean of the last `known` positions, `old` to the gradient there."""
    width = z["x"].shape[1]
    recent = np.concatenate([z["x"], z["history"]]).reshape(average, -1, width)[:known].mean(0)
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
