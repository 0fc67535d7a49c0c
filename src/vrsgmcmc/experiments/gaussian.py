"""The Gaussian experiment: the mean squared error of theta^2 against time and gradient evaluations.

    x_i ~ N(theta, 1),   theta ~ N(0, 1),   N = 1000,   phi = theta^2

vrSG-MCMC with n1 = 200, m = 10 and n2 = 1, 10, 100, and SGLD with n = 1, 10, 100. Every method runs
for the same number of data passes; its step size is the best of one grid, judged by the MSE at the
end, which `vr.theory.mse` knows exactly. Its curve goes through the measured points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from vrsgmcmc import models, theory
from vrsgmcmc.core.estimators import minibatch, practical
from vrsgmcmc.experiments.checkpoints import Memory
from vrsgmcmc.experiments.compare import standard_error
from vrsgmcmc.experiments.methods import Method, check_passes
from vrsgmcmc.experiments.progress import Board, Line
from vrsgmcmc.experiments.segments import Task, Trace, cuts, follow
from vrsgmcmc.experiments.settings import Outcome, Settings
from vrsgmcmc.reports import Claim, Report, Section, Table, figures

N, N1, PERIOD = 1000, 200, 10
STEP_SIZES = tuple(float(f"{h:.1g}") for h in np.geomspace(1e-4, 1.0, 13))  # h (N + 1)
METHODS = {f"SGLD, n = {n}": Method(minibatch(), n) for n in (1, 10, 100)} | {
    f"vrSG-MCMC, n2 = {n}": Method(practical(N1, PERIOD), n) for n in (1, 10, 100)
}
START = 0.0
AXES = {
    "evaluations": "evaluations",
    "paper_evaluations": "evaluations as the paper counts",
    "seconds_all_chains": "time",
}


class Size(NamedTuple):
    passes: float
    chains: int
    points: int
    methods: tuple[str, ...] = tuple(METHODS)


SIZES = {
    "smoke": Size(passes=4, chains=48, points=4, methods=("SGLD, n = 10", "vrSG-MCMC, n2 = 10")),
    "small": Size(passes=20, chains=1000, points=10),
    "paper": Size(passes=200, chains=2000, points=14),
}


def square(theta: Any) -> Any:
    return jnp.square(theta)


class Shown(NamedTuple):
    step: float  # h (N + 1)
    tuning: list[float]  # exact MSE at the end for each step size of the grid
    trace: Trace
    mse: np.ndarray  # [points]
    error: np.ndarray  # its standard error
    exact: np.ndarray


def run(settings: Settings, memory: Memory) -> Outcome:
    size = settings.of(SIZES)
    chains = settings.seeds or size.chains
    methods = settings.chosen({name: METHODS[name] for name in size.methods})
    check_passes(methods, N, size.passes)
    data = np.random.default_rng(0).normal(0.7, 1.0, N).astype(np.float32)
    problem = theory.gaussian_mean(data)
    mean, covariance = problem.posterior()
    truth = float(mean[0] ** 2 + covariance[0, 0])
    task = Task(models.gaussian.posterior(), data, jnp.asarray(START), {"square": square})

    def one(method: Method, line: Line) -> Shown:
        total = method.affordable(N, size.passes)
        ends = cuts(total, size.points, least=max(PERIOD, total // 1000))
        curves = [exact_mse(problem, method, step, ends) for step in STEP_SIZES]
        best = int(np.argmin([curve[-1] for curve in curves]))
        steps = np.full(chains, STEP_SIZES[best] / (N + 1))
        trace = follow(2, task, method, steps, ends, board=board, memory=memory)
        errors = np.stack([trace.everything("square", p) - truth for p in range(len(ends))]) ** 2
        line.text = f"MSE {errors[-1].mean():.3g}, exact {curves[best][-1]:.3g}"
        deviation = np.array([standard_error(each) for each in errors])
        tuning = [float(curve[-1]) for curve in curves]
        return Shown(STEP_SIZES[best], tuning, trace, errors.mean(1), deviation, curves[best])

    shown = {}
    with Board(list(methods)) as board:
        for name, method in methods.items():
            with board.line(name) as line:
                shown[name] = one(method, line)
    return outcome(methods, shown, truth, chains, size)


def exact_mse(problem: Any, method: Method, step: float, ends: np.ndarray) -> np.ndarray:
    """Of theta^2, averaged over all steps so far: [points]."""
    found = theory.mse(
        problem,
        method.estimator,
        method.integrator,
        num_steps=ends,
        start=START,
        observable="square",
        step_size=step / (N + 1),
        batch_size=method.batch_size,
    )
    return found.mse[:, 0]


def outcome(
    methods: dict[str, Method], shown: dict[str, Shown], truth: float, chains: int, size: Size
) -> Outcome:
    rows = [
        {
            "method": name,
            "step": one.step,
            "steps": int(end),
            "evaluations": int(methods[name].cost(N, end)),
            "paper_evaluations": int(methods[name].paper_cost(N, end)),
            "seconds_all_chains": float(seconds),
            "mse": float(mse),
            "standard_error": float(error),
            "exact_mse": float(exact),
            "z": float((mse - exact) / error),
        }
        for name, one in shown.items()
        for end, seconds, mse, error, exact in zip(
            one.trace.ends, one.trace.seconds, one.mse, one.error, one.exact, strict=True
        )
    ]
    last = {row["method"]: row for row in rows}
    table = Table(
        ("method", "h (N + 1)", "passes", "MSE of theta^2", "exact", "seconds per chain"),
        [
            (
                name,
                f"{row['step']:g}",
                f"{row['evaluations'] / N:.1f}",
                f"{row['mse']:.2e} ± {row['standard_error']:.0e}",
                f"{row['exact_mse']:.2e}",
                f"{row['seconds_all_chains'] / chains:.2g}",
            )
            for name, row in last.items()
        ],
    )
    lead = (
        f"Averages of theta^2 over {chains:,} independent chains of {size.passes:g} data passes each, "
        f"against its posterior expectation {truth:.6f}. Points are measured, lines are exact."
    )
    report = Report(
        title="Gaussian mean: mean squared error against cost",
        lead=lead,
        sections=[
            Section(
                "Against gradient evaluations",
                figure=picture(
                    methods, shown, lambda m, t: m.cost(N, t.ends), "gradient evaluations"
                ),
                caption="Every per-datum gradient counts: n1/m + 2 n2 for a step of vrSG-MCMC.",
            ),
            Section(
                "As the paper counts",
                figure=picture(
                    methods, shown, lambda m, t: m.paper_cost(N, t.ends), "n1/m + n2 per step"
                ),
                caption="The pair of gradients of a step counts once.",
            ),
            Section(
                "Against time",
                figure=picture(
                    methods, shown, lambda m, t: t.seconds / chains, "seconds for one chain"
                ),
                caption="All chains run at once; their time is divided by their number.",
            ),
            Section("At the end", table=table),
        ],
        claims=claims(rows),
    )
    record = {
        "size": size._asdict(),
        "chains": chains,
        "truth": truth,
        "step_size_unit": "h (N + 1)",
        "step_size_grid": list(STEP_SIZES),
        "tuning": {name: one.tuning for name, one in shown.items()},
        "data": "numpy.random.default_rng(0).normal(0.7, 1, 1000), float32",
        "seeds": {"shown": 2},
    }
    text = "\n".join("  ".join(map(str, row)) for row in table.rows)
    return Outcome(report, {"curves": rows}, record, text)


def picture(
    methods: dict[str, Method], shown: dict[str, Shown], cost: Callable, label: str
) -> figures.Figure:
    lines = {name: (cost(methods[name], one.trace), one.exact) for name, one in shown.items()}
    points = {
        name: (cost(methods[name], one.trace), one.mse, 2 * one.error)
        for name, one in shown.items()
    }
    panel = figures.Panel("mean squared error of theta^2", lines, log_y=True, points=points)
    return figures.curves([panel], x_label=label)


def claims(rows: list[dict[str, Any]]) -> list[Claim]:
    """At equal cost, each method at its best step size, by the exact values."""
    found = []
    for family, smallest in (("SGLD", "SGLD, n = 1"), ("vrSG-MCMC", "vrSG-MCMC, n2 = 1")):
        names = dict.fromkeys(row["method"] for row in rows if row["method"].startswith(family))
        if smallest not in names or len(names) < 3:
            continue
        lowest, near, words = [], [], []
        for axis, label in AXES.items():
            ends = at_the_end({n: [r for r in rows if r["method"] == n] for n in names}, axis)
            lowest.append(ends[smallest] == min(ends.values()))
            near.append(ends[smallest] < 1.05 * min(ends.values()))
            listed = ", ".join(f"{n.split(', ')[1]}: {mse:.2e}" for n, mse in ends.items())
            words.append(f"at equal {label} {listed}")
        found.append(
            Claim(
                f"{family}: minibatches of one datum reach the lowest MSE in the long run.",
                "yes" if all(lowest) else "in part" if any(near) else "no",
                f"Exact MSE at the best step size of each, {'; '.join(words)}.",
            )
        )
    return found


def at_the_end(curves: dict[str, list[dict[str, Any]]], axis: str) -> dict[str, float]:
    """The exact MSE of each, where the first of them ends."""
    until = min(rows[-1][axis] for rows in curves.values())

    def there(rows: list[dict[str, Any]]) -> float:
        cost, mse = (np.log([row[name] for row in rows]) for name in (axis, "exact_mse"))
        return float(np.exp(np.interp(np.log(until), cost, mse)))

    return {name: there(rows) for name, rows in curves.items()}
