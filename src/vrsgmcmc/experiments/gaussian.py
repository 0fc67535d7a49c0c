"""The Gaussian experiment: the mean squared error of theta^2 against time and gradient evaluations.

    x_i ~ N(theta, 1),   theta ~ N(0, 1),   N = 1000,   phi = theta^2

vrSG-MCMC with n1 = 200, m = 10 and n2 = 1, 10, 100, and SGLD with n = 1, 10, 100. Every method runs
for the same number of data passes. Its step size has the lowest exact MSE at the end (`vr.theory.mse`)
of one grid. The report shows measured points on the exact curve.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from vrsgmcmc import models, theory
from vrsgmcmc.core import Sampler
from vrsgmcmc.core.estimators import minibatch, practical
from vrsgmcmc.core.integrators import sgld
from vrsgmcmc.reports import Claim, Report, Section, Table, figures

from .checkpoints import Checkpoints
from .curves import Axis, MethodResult, Results, point_rows, standard_error
from .methods import check_passes, paper_evaluations
from .progress import ExperimentProgress, MethodProgress
from .segments import Task, cuts, run_segments
from .settings import ChainSize, Outcome, Settings

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


SIZES = {
    "smoke": ChainSize(
        passes=4, chains=48, points=4, methods=("SGLD, n = 10", "vrSG-MCMC, n2 = 10")
    ),
    "small": ChainSize(passes=20, chains=1000, points=10, methods=tuple(METHODS)),
    "paper": ChainSize(passes=200, chains=2000, points=14, methods=tuple(METHODS)),
}


def run(settings: Settings, checkpoints: Checkpoints) -> Outcome:
    size = settings.pick_size(SIZES)
    chains = settings.seeds or size.chains
    methods = settings.pick_methods({name: METHODS[name] for name in size.methods})
    check_passes(methods, N, size.passes)
    data = np.random.default_rng(0).normal(0.7, 1.0, N).astype(np.float32)
    problem = theory.gaussian_mean(data)
    mean, covariance = problem.posterior()
    truth = float(mean[0] ** 2 + covariance[0, 0])
    task = Task(models.gaussian.posterior(), data, jnp.asarray(START), {"square": jnp.square})

    def run_method(sampler: Sampler, line: MethodProgress) -> MethodResult:
        total = sampler.affordable_steps(N, size.passes * N)
        ends = cuts(total, size.points, least=max(PERIOD, total // 1000))
        tuning = {step: exact_mse(problem, sampler, step, ends) for step in STEP_SIZES}
        best = min(tuning, key=lambda step: tuning[step]["exact_mse"][-1])
        steps = np.full(chains, best / (N + 1))
        trace = run_segments(2, task, sampler, steps, ends, progress, checkpoints)
        errors = np.stack([trace.average("square", 0, p) - truth for p in range(len(ends))]) ** 2
        line.text = f"MSE {errors[-1].mean():.3g}, exact {tuning[best]['exact_mse'][-1]:.3g}"
        return MethodResult(sampler, N, best, tuning, trace, {"test": {"mse": errors}}, {})

    results = {}
    with ExperimentProgress(list(methods)) as progress:
        for name, sampler in methods.items():
            with progress.method(name) as line:
                results[name] = run_method(sampler, line)
    return outcome(results, truth, chains, size)


def exact_mse(
    problem: Any, sampler: Sampler, step: float, ends: np.ndarray
) -> dict[str, list[float]]:
    """The exact MSE of the average of theta^2 over all steps so far, for each point."""
    pair = sampler.estimator, sampler.integrator
    options: Any = {"step_size": step / (N + 1), "batch_size": sampler.batch_size, "start": START}
    error = theory.mse(problem, *pair, num_steps=ends, observable="square", **options)
    return {"exact_mse": error.mse[:, 0].tolist()}


def outcome(results: Results, truth: float, chains: int, size: ChainSize) -> Outcome:
    rows = curve_rows(results)
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
                figure=draw(results, lambda each: each.passes() * N, "gradient evaluations"),
                caption="Every per-datum gradient counts: n1/m + 2 n2 for a step of vrSG-MCMC.",
            ),
            Section(
                "As the paper counts",
                figure=draw(results, lambda each: each.paper_passes() * N, "n1/m + n2 per step"),
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
        "tuning": {
            name: [scores["exact_mse"][-1] for scores in each.tuning.values()]
            for name, each in results.items()
        },
        "data": "numpy.random.default_rng(0).normal(0.7, 1, 1000), float32",
        "seeds": {"shown": 2},
    }
    text = "\n".join("  ".join(map(str, row)) for row in table.rows)
    return Outcome(report, {"curves": rows}, record, text)


def curve_rows(results: Results) -> list[dict[str, Any]]:
    """A row for every point of every curve."""
    rows = []
    for name, each in results.items():
        ends, (exact, mse, error) = each.trace.ends, squared_errors(each)
        columns = {
            "steps": ends,
            "evaluations": each.sampler.evaluations(N, ends),
            "paper_evaluations": paper_evaluations(each.sampler, N, ends),
            "seconds_all_chains": each.trace.seconds,
            "mse": mse,
            "standard_error": error,
            "exact_mse": exact,
            "z": (mse - exact) / error,
        }
        rows += point_rows(columns, method=name, step=each.step)
    return rows


def squared_errors(result: MethodResult) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each point: the exact MSE, the measured one, and its standard error."""
    values = result.scores["test"]["mse"]
    deviations = np.array([standard_error(each) for each in values])
    return np.array(result.tuning[result.step]["exact_mse"]), values.mean(1), deviations


def draw(results: Results, cost: Axis, label: str) -> Callable[..., figures.Figure]:
    """Measured points on exact curves, against a cost."""
    lines, points = {}, {}
    for name, each in results.items():
        exact, mse, error = squared_errors(each)
        lines[name], points[name] = (cost(each), exact), (cost(each), mse, 2 * error)
    panel = figures.Panel("mean squared error of theta^2", lines, log_y=True, points=points)
    return partial(figures.curves, [panel], x_label=label)


def gaussian_claims(rows: list[dict[str, Any]]) -> list[Claim]:
    """At equal cost, each method at its best step size, by the exact values."""
    claims = []
    for family, smallest in (("SGLD", "SGLD, n = 1"), ("vrSG-MCMC", "vrSG-MCMC, n2 = 1")):
        names = dict.fromkeys(row["method"] for row in rows if row["method"].startswith(family))
        if smallest not in names or len(names) < 3:
            continue
        lowest, near, words = [], [], []
        curves = {name: [row for row in rows if row["method"] == name] for name in names}
        for axis, label in AXES.items():
            ends = mse_at_equal_cost(curves, axis)
            lowest.append(ends[smallest] == min(ends.values()))
            near.append(ends[smallest] < 1.05 * min(ends.values()))
            listed = ", ".join(f"{n.split(', ')[1]}: {mse:.2e}" for n, mse in ends.items())
            words.append(f"at equal {label} {listed}")
        claims.append(
            Claim(
                f"{family}: minibatches of one datum reach the lowest MSE in the long run.",
                "yes" if all(lowest) else "in part" if any(near) else "no",
                f"Exact MSE, each at its best step size of the grid, {'; '.join(words)}.",
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
