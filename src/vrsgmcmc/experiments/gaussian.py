"""The Gaussian experiment: the mean squared error of theta^2 against time and gradient evaluations.

    x_i ~ N(theta, 1),   theta ~ N(0, 1),   N = 1000,   phi = theta^2

vrSG-MCMC with n1 = 200, m = 10 and n2 = 1, 10, 100, and SGLD with n = 1, 10, 100. Every method runs
for the same number of data passes. Its step size has the lowest exact MSE at the end (`vr.theory.mse`)
of one grid. The report shows measured points on the exact curve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from vrsgmcmc import models, theory
from vrsgmcmc.core import Sampler
from vrsgmcmc.core.estimators import minibatch, practical
from vrsgmcmc.core.integrators import sgld
from vrsgmcmc.experiments.checkpoints import Checkpoints
from vrsgmcmc.experiments.curves import standard_error
from vrsgmcmc.experiments.methods import check_passes, paper_evaluations
from vrsgmcmc.experiments.progress import ExperimentProgress, MethodProgress
from vrsgmcmc.experiments.segments import Task, Trace, cuts, run_segments
from vrsgmcmc.experiments.settings import Outcome, Settings
from vrsgmcmc.reports import Claim, Report, Section, Table, figures

N, N1, PERIOD = 1000, 200, 10
STEP_SIZES = tuple(float(f"{h:.1g}") for h in np.geomspace(1e-4, 1.0, 13))  # h (N + 1)
METHODS = {
    f"{name} = {n}": Sampler(estimator, sgld(), batch_size=n)
    for name, estimator in {"SGLD, n": minibatch(), "vrSG-MCMC, n2": practical(N1, PERIOD)}.items()
    for n in (1, 10, 100)
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


class MethodResult(NamedTuple):
    """A method at its best step size."""

    sampler: Sampler
    step: float  # h (N + 1)
    tuning: list[float]  # exact MSE at the end for each step size of the grid
    trace: Trace
    mse: np.ndarray  # [points]
    error: np.ndarray  # its standard error
    exact: np.ndarray

    def evaluations(self) -> np.ndarray:
        return self.sampler.evaluations(N, self.trace.ends)

    def paper_evaluations(self) -> np.ndarray:
        return paper_evaluations(self.sampler, N, self.trace.ends)

    def seconds(self) -> np.ndarray:
        """For one chain: the time of all chains, divided by their number."""
        return self.trace.seconds / len(self.trace.diverged)


def run(settings: Settings, checkpoints: Checkpoints) -> Outcome:
    size = settings.pick_size(SIZES)
    chains = settings.seeds or size.chains
    methods = settings.pick_methods({name: METHODS[name] for name in size.methods})
    check_passes(methods, N, size.passes)
    data = np.random.default_rng(0).normal(0.7, 1.0, N).astype(np.float32)
    problem = theory.gaussian_mean(data)
    mean, covariance = problem.posterior()
    truth = float(mean[0] ** 2 + covariance[0, 0])
    task = Task(models.gaussian.posterior(), data, jnp.asarray(START), {"square": square})

    def run_method(sampler: Sampler, line: MethodProgress) -> MethodResult:
        total = sampler.affordable_steps(N, size.passes * N)
        ends = cuts(total, size.points, least=max(PERIOD, total // 1000))
        curves = [exact_mse(problem, sampler, step, ends) for step in STEP_SIZES]
        tuning = [float(curve[-1]) for curve in curves]
        best = int(np.argmin(tuning))
        steps = np.full(chains, STEP_SIZES[best] / (N + 1))
        trace = run_segments(
            2, task, sampler, steps, ends, progress=progress, checkpoints=checkpoints
        )
        errors = np.stack([trace.full_average("square", p) - truth for p in range(len(ends))]) ** 2
        line.text = f"MSE {errors[-1].mean():.3g}, exact {tuning[best]:.3g}"
        deviation = np.array([standard_error(each) for each in errors])
        return MethodResult(
            sampler, STEP_SIZES[best], tuning, trace, errors.mean(1), deviation, curves[best]
        )

    results = {}
    with ExperimentProgress(list(methods)) as progress:
        for name, sampler in methods.items():
            with progress.method(name) as line:
                results[name] = run_method(sampler, line)
    return outcome(results, truth, chains, size)


def exact_mse(problem: Any, sampler: Sampler, step: float, ends: np.ndarray) -> np.ndarray:
    """Exact MSE of theta^2, averaged over all steps so far: [points]."""
    error = theory.mse(
        problem,
        sampler.estimator,
        sampler.integrator,
        num_steps=ends,
        start=START,
        observable="square",
        step_size=step / (N + 1),
        batch_size=sampler.batch_size,
    )
    return error.mse[:, 0]


def outcome(results: dict[str, MethodResult], truth: float, chains: int, size: Size) -> Outcome:
    rows = [
        {
            "method": name,
            "step": each.step,
            "steps": int(end),
            "evaluations": int(each.evaluations()[p]),
            "paper_evaluations": int(each.paper_evaluations()[p]),
            "seconds_all_chains": float(each.trace.seconds[p]),
            "mse": float(each.mse[p]),
            "standard_error": float(each.error[p]),
            "exact_mse": float(each.exact[p]),
            "z": float((each.mse[p] - each.exact[p]) / each.error[p]),
        }
        for name, each in results.items()
        for p, end in enumerate(each.trace.ends)
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
                figure=draw(results, MethodResult.evaluations, "gradient evaluations"),
                caption="Every per-datum gradient counts: n1/m + 2 n2 for a step of vrSG-MCMC.",
            ),
            Section(
                "As the paper counts",
                figure=draw(results, MethodResult.paper_evaluations, "n1/m + n2 per step"),
                caption="The pair of gradients of a step counts once.",
            ),
            Section(
                "Against time",
                figure=draw(results, MethodResult.seconds, "seconds for one chain"),
                caption="All chains run at once; their time is divided by their number.",
            ),
            Section("At the end", table=table),
        ],
        claims=gaussian_claims(rows),
    )
    record = {
        "size": size._asdict(),
        "chains": chains,
        "truth": truth,
        "step_size_unit": "h (N + 1)",
        "step_size_grid": list(STEP_SIZES),
        "tuning": {name: each.tuning for name, each in results.items()},
        "data": "numpy.random.default_rng(0).normal(0.7, 1, 1000), float32",
        "seeds": {"shown": 2},
    }
    text = "\n".join("  ".join(map(str, row)) for row in table.rows)
    return Outcome(report, {"curves": rows}, record, text)


def draw(
    results: dict[str, MethodResult], cost: Callable[[MethodResult], np.ndarray], label: str
) -> figures.Figure:
    lines = {name: (cost(each), each.exact) for name, each in results.items()}
    points = {name: (cost(each), each.mse, 2 * each.error) for name, each in results.items()}
    panel = figures.Panel("mean squared error of theta^2", lines, log_y=True, points=points)
    return figures.curves([panel], x_label=label)


def gaussian_claims(rows: list[dict[str, Any]]) -> list[Claim]:
    """At equal cost, each method at its best step size, by the exact values."""
    claims = []
    for family, smallest in (("SGLD", "SGLD, n = 1"), ("vrSG-MCMC", "vrSG-MCMC, n2 = 1")):
        names = dict.fromkeys(row["method"] for row in rows if row["method"].startswith(family))
        if smallest not in names or len(names) < 3:
            continue
        lowest, near, words = [], [], []
        for axis, label in AXES.items():
            ends = mse_at_equal_cost(
                {n: [r for r in rows if r["method"] == n] for n in names}, axis
            )
            lowest.append(ends[smallest] == min(ends.values()))
            near.append(ends[smallest] < 1.05 * min(ends.values()))
            listed = ", ".join(f"{n.split(', ')[1]}: {mse:.2e}" for n, mse in ends.items())
            words.append(f"at equal {label} {listed}")
        claims.append(
            Claim(
                f"{family}: minibatches of one datum reach the lowest MSE in the long run.",
                "yes" if all(lowest) else "in part" if any(near) else "no",
                f"Exact MSE at the best step size of each, {'; '.join(words)}.",
            )
        )
    return claims


def mse_at_equal_cost(curves: dict[str, list[dict[str, Any]]], axis: str) -> dict[str, float]:
    """The exact MSE of each method, at the least of their final costs."""
    until = min(rows[-1][axis] for rows in curves.values())

    def interpolate(rows: list[dict[str, Any]]) -> float:
        cost, mse = (np.log([row[name] for row in rows]) for name in (axis, "exact_mse"))
        return float(np.exp(np.interp(np.log(until), cost, mse)))

    return {name: interpolate(rows) for name, rows in curves.items()}
