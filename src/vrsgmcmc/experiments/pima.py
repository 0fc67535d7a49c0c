"""Bayesian logistic regression on the Pima diabetes data: five gradient estimators at equal cost.

The 768 rows are split into 460 to train, 154 to validate and 154 to test, and standardised; the prior
is N(0, I). Every method gets the same number of data passes, SGLD dynamics, and the same grid of step
sizes. Two questions, each with the step size that answers it best on the grid:

- prediction: the negative log-likelihood of the test data under the average of the predictions so
  far; step size chosen on the validation data.
- posterior: how well one chain knows posterior means and variances,

      C = 1/2 mean_j ((m_j - m*_j) / s*_j)^2 + 1/2 mean_j ((v_j - v*_j)^2 / (2 s*_j^4)),

  against a long full-gradient BAOAB run (m*, v* = s*^2). For k independent draws C is about 1/k, so
  1/C says how many of them a chain is worth; step size chosen by C.

Averages at any time leave out the first fifth of the draws so far. Tuning and the runs that are shown
use different keys.
"""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import expit

import vrsgmcmc as vr
from vrsgmcmc import datasets, figures
from vrsgmcmc.experiments import RECORD, Settings
from vrsgmcmc.types import Estimator

STEP_SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # h N: per mean log-likelihood
QUESTIONS = ("prediction", "posterior")
Table: TypeAlias = tuple[np.ndarray, np.ndarray]  # x [rows, 9], ones first; y [rows]
COLUMNS = ("intercept", *datasets.PIMA_COLUMNS)
POINTS = 60  # of a curve


class Method(NamedTuple):
    estimator: Estimator
    batch_size: int = 10
    anchor_order: str = "without_replacement"


METHODS = {
    "SGLD, n = 10": Method(vr.minibatch()),
    "SGLD, n = 30": Method(vr.minibatch(), batch_size=30),  # costs per step what the next ones do
    "vrSG-MCMC": Method(vr.practical(anchor_size=100, period=10)),
    "vrSG-MCMC, shuffled anchors": Method(vr.practical(100, 10), anchor_order="shuffled"),
    "SVRG-LD": Method(vr.svrg()),
}


class Problem(NamedTuple):
    train: Table
    validation: Table
    test: Table

    @property
    def size(self) -> int:
        return len(self.train[1])


class Reference(NamedTuple):
    draws: Float[np.ndarray, "draws d"]
    mean: Float[np.ndarray, " d"]
    variance: Float[np.ndarray, " d"]
    row: dict[str, Any]


class Curves(NamedTuple):
    """What each chain knows after some data passes."""

    passes: Float[np.ndarray, " points"]
    validation_nll: Float[np.ndarray, "chain points"]
    test_nll: Float[np.ndarray, "chain points"]
    test_accuracy: Float[np.ndarray, "chain points"]
    means: Float[np.ndarray, "chain points d"]
    variances: Float[np.ndarray, "chain points d"]

    def error(self, reference: Reference) -> Float[np.ndarray, "chain points"]:
        """C."""
        bias = (self.means - reference.mean) ** 2 / reference.variance
        spread = (self.variances / reference.variance - 1) ** 2 / 2
        return (bias.mean(-1) + spread.mean(-1)) / 2


@dataclass(frozen=True)
class Shown:
    """A method's run at the step size that answers one question best."""

    row: dict[str, Any]
    curves: Curves
    draws: Float[np.ndarray, "draws d"]


@dataclass(frozen=True)
class Report:
    settings: Settings
    problem: Problem
    reference: Reference
    tuning: dict[str, dict[str, list[float]]]
    shown: dict[str, dict[str, Shown]]  # question -> method -> run


def run(settings: Settings, say: Callable[[str], None]) -> Report:
    """Sample with every method; `say` gets one line for each."""
    problem = prepare()
    reference = long_run(problem, settings.seed)
    say(f"reference: full gradient, BAOAB, {reference.row['data_passes']:.0f} passes")
    tuning: dict[str, dict[str, list[float]]] = {}
    shown: dict[str, dict[str, Shown]] = {question: {} for question in QUESTIONS}
    for name, method in METHODS.items():
        tuning[name] = tune(problem, reference, method, settings)
        best = {q: STEP_SIZES[int(np.argmin(tuning[name][q]))] for q in QUESTIONS}
        runs = {
            h: sample(problem, method, h, settings, stage=1) for h in sorted(set(best.values()))
        }
        for question, h in best.items():
            shown[question][name] = show(problem, reference, name, method, h, runs[h])
        seconds = sum(result.seconds for result in runs.values()) / len(runs)
        steps = " and ".join(f"{h:g}" for h in sorted(runs))
        say(f"{name}: step {steps} / N, {seconds:.2f} s for {settings.passes} passes")
    return Report(settings, problem, reference, tuning, shown)


def prepare() -> Problem:
    x, y = datasets.pima()
    (x, y), test = datasets.split(x, y, test_fraction=0.2, seed=0)
    train, validation = datasets.split(x, y, test_fraction=0.25, seed=0)
    parts = train, validation, test
    features = datasets.standardise(*(x for x, _ in parts))
    return Problem(
        *(
            (datasets.with_intercept(x).astype(np.float32), y)
            for x, (_, y) in zip(features, parts, strict=True)
        )
    )


def long_run(problem: Problem, seed: int) -> Reference:
    """The reference: no gradient noise, and a scheme whose stationary law is nearly exact."""
    result = vr.sample(
        jax.random.fold_in(jax.random.key(seed), 2),
        vr.models.logistic.posterior(),
        problem.train,
        vr.models.logistic.initial(len(COLUMNS)),
        estimator=vr.full(),
        integrator=vr.splitting("BAOAB", friction=8.0),
        step_size=0.08,
        num_steps=10_500,
        burn_in=500,
        num_chains=16,
        progress=False,
    )
    stop_if_interrupted(result)
    draws = result.draws.reshape(-1, len(COLUMNS)).astype(np.float64)
    loss, accuracy = score(likelihoods(draws, problem.test).mean(axis=0, keepdims=True))
    row = {
        "method": "reference (full gradient, BAOAB)",
        "data_passes": result.data_passes,
        "seconds": result.seconds,
        "test_nll": float(loss[0]),
        "test_accuracy": float(accuracy[0]),
        **convergence(result),
    }
    return Reference(draws, draws.mean(axis=0), draws.var(axis=0), row)


def tune(
    problem: Problem, reference: Reference, method: Method, settings: Settings
) -> dict[str, list[float]]:
    """Question -> its criterion for each step size of the grid, all of them in one run."""
    repeats = max(1, settings.chains // len(STEP_SIZES))
    curves = watch(
        problem,
        method,
        sample(problem, method, np.repeat(STEP_SIZES, repeats), settings, stage=0),
    )
    criteria = curves.validation_nll, curves.error(reference)
    last = [values[:, -1].reshape(-1, repeats).mean(axis=1) for values in criteria]
    return {
        q: np.nan_to_num(value, nan=np.inf).tolist()
        for q, value in zip(QUESTIONS, last, strict=True)
    }


def sample(
    problem: Problem, method: Method, step_size: Any, settings: Settings, stage: int
) -> vr.Result:
    """As many steps as the passes allow, from zero; about one draw for every 30 evaluations."""
    steps = affordable(method, problem.size, settings.passes)
    result = vr.sample(
        jax.random.fold_in(jax.random.key(settings.seed), stage),
        vr.models.logistic.posterior(),
        problem.train,
        vr.models.logistic.initial(len(COLUMNS)),
        estimator=method.estimator,
        step_size=np.asarray(step_size) / problem.size,
        batch_size=method.batch_size,
        num_steps=steps,
        num_chains=settings.chains if np.ndim(step_size) == 0 else len(step_size),
        thin=max(1, round(30 / cost(method, problem.size, steps) * steps)),
        anchor_order=method.anchor_order,
        progress=False,
    )
    stop_if_interrupted(result)
    return result


def stop_if_interrupted(result: vr.Result) -> None:
    """`vr.sample` answers Ctrl-C with what is finished; half a comparison is none."""
    if result.interrupted:
        raise KeyboardInterrupt


def cost(method: Method, size: int, steps: Any) -> Any:
    """Per-datum gradient evaluations of so many steps."""
    anchor, every = method.estimator.anchor(size), method.estimator.every(size, method.batch_size)
    refreshes = -(-steps // every) if every else 0
    return steps * method.estimator.cost(size, method.batch_size) + anchor * refreshes


def affordable(method: Method, size: int, passes: int) -> int:
    """The most steps that cost at most so many passes."""
    steps = np.arange(1, passes * size // method.batch_size + 1)
    return int(np.searchsorted(cost(method, size, steps), passes * size, side="right"))


def watch(problem: Problem, method: Method, result: vr.Result) -> Curves:
    count = result.draws.shape[1]
    ends = np.unique(np.geomspace(1, count, min(POINTS, count)).round().astype(int))
    draws = result.draws.astype(np.float64)
    means = np.stack([running(chain, ends) for chain in draws])
    squares = np.stack([running(chain**2, ends) for chain in draws])

    def scores(table: Table) -> tuple[np.ndarray, np.ndarray]:
        each = [score(running(likelihoods(chain, table), ends)) for chain in draws]
        return np.stack([loss for loss, _ in each]), np.stack([right for _, right in each])

    test_nll, test_accuracy = scores(problem.test)
    return Curves(
        passes=cost(method, problem.size, result.draw_steps[ends - 1]) / problem.size,
        validation_nll=scores(problem.validation)[0],
        test_nll=test_nll,
        test_accuracy=test_accuracy,
        means=means,
        variances=squares - means**2,
    )


def running(
    values: Float[np.ndarray, "draws k"], ends: np.ndarray
) -> Float[np.ndarray, "points k"]:
    """The mean of values[end // 5 : end] for each end."""
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    starts = ends // 5
    return (total[ends] - total[starts]) / (ends - starts)[:, None]


def likelihoods(
    draws: Float[np.ndarray, "draws d"], table: Table
) -> Float[np.ndarray, "draws rows"]:
    """P(y_i | x_i, w) of every row for every draw w."""
    x, y = table
    return expit(draws @ (x * (2 * y - 1)[:, None]).T)


def score(averages: Float[np.ndarray, "points rows"]) -> tuple[np.ndarray, np.ndarray]:
    """Negative log-likelihood and accuracy of predictions that average `likelihoods`."""
    return -np.log(averages).mean(axis=1), (averages > 0.5).mean(axis=1)


def show(
    problem: Problem,
    reference: Reference,
    name: str,
    method: Method,
    step: float,
    result: vr.Result,
) -> Shown:
    curves = watch(problem, method, result)
    first = result.draws.shape[1] // 5
    kept = replace(result, draws=result.draws[:, first:], draw_steps=result.draw_steps[first:])
    sd = np.sqrt(reference.variance)
    mean_error = (curves.means[:, -1] - reference.mean) / sd
    sd_error = np.sqrt(curves.variances[:, -1]) / sd - 1
    row = {
        "method": name,
        "step": step,
        "batch_size": method.batch_size,
        "num_steps": result.num_steps,
        "data_passes": result.data_passes,
        "seconds": result.seconds,
        "test_nll": float(curves.test_nll[:, -1].mean()),
        "test_nll_sd": float(curves.test_nll[:, -1].std()),
        "test_accuracy": float(curves.test_accuracy[:, -1].mean()),
        "mean_error": float(np.sqrt(np.mean(mean_error**2))),
        "sd_error": float(np.sqrt(np.mean(sd_error**2))),
        "worth": float(1 / curves.error(reference)[:, -1].mean()),
        **convergence(kept),
    }
    return Shown(row, curves, kept.draws.reshape(-1, len(COLUMNS)))


def convergence(result: vr.Result) -> dict[str, float]:
    """The worst coordinate's R-hat and ESS; ESS is of one chain, like everything else here."""
    table = result.summary(kind="diagnostics")
    chains = len(result.diverged)
    return {"r_hat": float(table["r_hat"].max()), "ess": float(table["ess_bulk"].min()) / chains}


def table(report: Report) -> str:
    """The numbers as text."""
    passes, chains = report.settings.passes, report.settings.chains
    reference = report.reference.row
    lines = [
        f"Pima logistic regression: {report.problem.size} rows to train, {passes} data passes, "
        f"{chains} chains. Everything is for one chain, averaged over the chains.",
        "",
        "prediction (step size with the lowest validation NLL)",
        f"{'':28} {'step x N':>8} {'passes':>7} {'seconds':>7} {'test NLL':>16} {'accuracy':>8}",
    ]
    for row in rows(report, "prediction"):
        lines.append(
            f"{row['method']:28} {row['step']:8g} {row['data_passes']:7.1f} {row['seconds']:7.2f} "
            f"{row['test_nll']:7.4f} +- {row['test_nll_sd']:.4f} {row['test_accuracy']:8.3f}"
        )
    lines += [
        f"{'full gradient (reference)':28} {'':8} {reference['data_passes']:7.0f} "
        f"{reference['seconds']:7.2f} {reference['test_nll']:7.4f}           "
        f"{reference['test_accuracy']:8.3f}",
        "",
        "posterior (step size with the lowest error against the reference)",
        f"{'':28} {'step x N':>8} {'mean error':>10} {'sd error':>8} {'worth':>7} {'ESS':>7} {'R-hat':>6}",
    ]
    for row in rows(report, "posterior"):
        lines.append(
            f"{row['method']:28} {row['step']:8g} {row['mean_error']:10.3f} {row['sd_error']:8.3f} "
            f"{row['worth']:7.1f} {row['ess']:7.1f} {row['r_hat']:6.3f}"
        )
    lines += [
        f"{'full gradient (reference)':28} {'':8} {'':10} {'':8} {'':7} {reference['ess']:7.0f} "
        f"{reference['r_hat']:6.3f}",
        "",
        "mean error is in posterior sd, sd error is relative, both root mean squares over coordinates;",
        "worth: as good as so many independent draws, bias included (ESS does not see bias).",
    ]
    return "\n".join(lines)


def rows(report: Report, question: str) -> list[dict[str, Any]]:
    return [shown.row for shown in report.shown[question].values()]


def write(report: Report, folder: Path, command: str) -> list[str]:
    """Write numbers and figures; returns the names of the files."""
    every = [{"question": q, **row} for q in QUESTIONS for row in rows(report, q)]
    record = {
        "program": "vrsgmcmc",
        "experiment": "pima",
        "command": command,
        "settings": {**asdict(report.settings), "out": str(report.settings.out)},
        "versions": {name: version(name) for name in ("vrsgmcmc", "jax", "numpy", "matplotlib")},
        "python": platform.python_version(),
        "machine": platform.platform(),
        "device": jax.devices()[0].device_kind,
        "data": {
            "sha256": datasets.PIMA_SHA256,
            **{name: len(table[1]) for name, table in report.problem._asdict().items()},
        },
        "step_size_grid": [float(step) for step in STEP_SIZES],
        "step_size_unit": "h N, the step on the mean log-likelihood; h = step / N",
        "tuning": report.tuning,
        "reference": {
            **report.reference.row,
            "mean": dict(zip(COLUMNS, report.reference.mean.tolist(), strict=True)),
            "sd": dict(zip(COLUMNS, np.sqrt(report.reference.variance).tolist(), strict=True)),
        },
        "results": every,
    }
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    save_csv(folder / "table.csv", every)
    save_csv(folder / "curves.csv", points(report))
    pictures = {"curves": draw_curves(report), "marginals": draw_marginals(report)}
    saved = [figures.save(figure, folder / name) for name, figure in pictures.items()]
    return [RECORD, "table.csv", "curves.csv", *(name for names in saved for name in names)]


def points(report: Report) -> list[dict[str, Any]]:
    return [
        {
            "question": question,
            "method": name,
            "data_passes": float(shown.curves.passes[p]),
            "test_nll": float(shown.curves.test_nll[:, p].mean()),
            "test_nll_sd": float(shown.curves.test_nll[:, p].std()),
            "error": float(shown.curves.error(report.reference)[:, p].mean()),
        }
        for question in QUESTIONS
        for name, shown in report.shown[question].items()
        for p in range(len(shown.curves.passes))
    ]


def save_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def draw_curves(report: Report) -> figures.Figure:
    losses, worths = {}, {}
    for name, shown in report.shown["prediction"].items():
        losses[name] = (shown.curves.passes, shown.curves.test_nll.mean(axis=0))
    for name, shown in report.shown["posterior"].items():
        worths[name] = (shown.curves.passes, 1 / shown.curves.error(report.reference).mean(axis=0))
    return figures.curves(
        [
            figures.Panel(
                "Prediction: negative log-likelihood of the test data (lower is better)",
                losses,
                level=("full gradient", report.reference.row["test_nll"]),
            ),
            figures.Panel(
                "Posterior: worth so many independent draws (higher is better)",
                worths,
                log_y=True,
            ),
        ],
        x_label="data passes (log scale)",
    )


def draw_marginals(report: Report) -> figures.Figure:
    draws = {name: shown.draws for name, shown in report.shown["posterior"].items()}
    return figures.marginals(COLUMNS, report.reference.draws, draws)
