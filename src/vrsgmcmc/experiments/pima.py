"""Bayesian logistic regression on the Pima diabetes data: five gradient estimators at equal cost.

The 768 rows are split into 460 to train, 154 to validate and 154 to test, and standardised; the prior
is N(0, I). Every method gets the same number of data passes, SGLD dynamics, and the same grid of step
sizes. Two questions, each with the step size that answers it best on the grid:

- prediction: the negative log-likelihood of the test data under the average of the predictions so
  far; step size chosen on the validation data.
- posterior: how well one chain knows posterior means and variances, against a long full-gradient
  BAOAB run (the error C of `knowledge.py`; the chain is worth 1/C independent draws); step size
  chosen by C.

Tuning and the runs that are shown use different keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import expit

import vrsgmcmc as vr
from vrsgmcmc import datasets, figures
from vrsgmcmc.experiments import Settings
from vrsgmcmc.experiments.knowledge import Knowledge, error, score, watch
from vrsgmcmc.experiments.record import aligned, save_csv, save_record
from vrsgmcmc.types import Estimator

STEP_SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # h N: per mean log-likelihood
DRAWS = 1000  # kept of each chain, about
REFERENCE_STEPS = 10_000  # of each of 16 chains
QUESTIONS = ("prediction", "posterior")
COLUMNS = ("intercept", *datasets.PIMA_COLUMNS)

PREDICTION = {  # column -> its key in a row, and its format
    "step x N": ("step", "g"),
    "passes": ("data_passes", ".1f"),
    "seconds": ("seconds", ".2f"),
    "test NLL": ("test_nll", ".4f"),
    "+-": ("test_nll_sd", ".4f"),
    "accuracy": ("test_accuracy", ".3f"),
}
POSTERIOR = {
    "step x N": ("step", "g"),
    "mean error": ("mean_error", ".3f"),
    "sd error": ("sd_error", ".3f"),
    "worth": ("worth", ".1f"),
    "ESS": ("ess", ".1f"),
    "R-hat": ("r_hat", ".3f"),
}

Table: TypeAlias = tuple[np.ndarray, np.ndarray]  # x [rows, 9], ones first; y [rows]


class Method(NamedTuple):
    estimator: Estimator
    batch_size: int = 10
    order: str = "without_replacement"
    anchor_order: str = "without_replacement"

    def cost(self, size: int, steps: Any) -> Any:
        """Per-datum gradient evaluations of so many steps."""
        every = self.estimator.every(size, self.batch_size)
        refreshes = -(-steps // every) if every else 1
        each = self.estimator.cost(size, self.batch_size)
        return steps * each + self.estimator.anchor(size) * refreshes

    def affordable(self, size: int, passes: int) -> int:
        """The most steps that cost at most so many passes."""
        costs = self.cost(size, np.arange(1, passes * size // self.batch_size + 1))
        return int(np.searchsorted(costs, passes * size, side="right"))


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
    row: dict[str, Any]
    draws: Float[np.ndarray, "draws d"]


class Shown(NamedTuple):
    """A method's run at the step size that answers one question best."""

    row: dict[str, Any]
    passes: Float[np.ndarray, " points"]
    curves: Knowledge
    error: Float[np.ndarray, "chain points"]
    draws: Float[np.ndarray, "draws d"]


class Report(NamedTuple):
    settings: Settings
    problem: Problem
    reference: Reference
    tuning: dict[str, dict[str, list[float]]]  # method -> question -> criterion on the grid
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
        runs = {h: sample(problem, method, h, settings, stage=1) for h in set(best.values())}
        for question, h in best.items():
            shown[question][name] = show(problem, reference, name, method, h, runs[h])
        steps = ", ".join(f"{h:g}/N for the {question}" for question, h in best.items())
        say(f"{name}: step size {steps}")
    return Report(settings, problem, reference, tuning, shown)


def prepare() -> Problem:
    x, y = datasets.pima()
    (x, y), test = datasets.split(x, y, test_fraction=0.2, seed=0)
    train, validation = datasets.split(x, y, test_fraction=0.25, seed=0)
    parts = train, validation, test
    tables = [datasets.with_intercept(x) for x in datasets.standardise(*(x for x, _ in parts))]
    return Problem(*((x.astype(np.float32), y) for x, (_, y) in zip(tables, parts, strict=True)))


def chains(problem: Problem, seed: int, stage: int, **options: Any) -> vr.Result:
    """Chains from zero; `stage` sets reference, tuning and shown runs apart."""
    result = vr.sample(
        jax.random.fold_in(jax.random.key(seed), stage),
        vr.models.logistic.posterior(prior_variance=1.0),
        problem.train,
        vr.models.logistic.initial(len(COLUMNS)),
        progress=False,
        **options,
    )
    if result.interrupted:  # half a comparison is none
        raise KeyboardInterrupt
    return result


def long_run(problem: Problem, seed: int) -> Reference:
    """The reference: no gradient noise, and a scheme whose stationary law is nearly exact."""
    result = chains(
        problem,
        seed,
        stage=2,
        estimator=vr.full(),
        integrator=vr.splitting("BAOAB", friction=8.0),
        step_size=0.08,
        num_steps=500 + REFERENCE_STEPS,
        burn_in=500,
        thin=5,
        num_chains=16,
    )
    draws = result.draws.reshape(-1, len(COLUMNS)).astype(np.float64)
    nll, accuracy = score(likelihoods(problem.test, draws).mean(axis=0, keepdims=True))
    row = {
        "method": "full gradient (reference)",
        "data_passes": result.data_passes,
        "seconds": result.seconds,
        "test_nll": float(nll[0]),
        "test_accuracy": float(accuracy[0]),
        **convergence(result),
    }
    return Reference(row, draws)


def tune(
    problem: Problem, reference: Reference, method: Method, settings: Settings
) -> dict[str, list[float]]:
    """Question -> its criterion for each step size of the grid, all of them in one run."""
    repeats = max(1, settings.chains // len(STEP_SIZES))
    result = sample(problem, method, np.repeat(STEP_SIZES, repeats), settings, stage=0)
    curves = watch(result.draws, partial(likelihoods, problem.validation))
    criteria = curves.nll, error(curves.mean, curves.variance, reference.draws)
    last = [values[:, -1].reshape(-1, repeats).mean(axis=1) for values in criteria]
    return dict(zip(QUESTIONS, (values.tolist() for values in last), strict=True))


def sample(
    problem: Problem, method: Method, step: Any, settings: Settings, stage: int
) -> vr.Result:
    """As many steps as the passes allow."""
    num_steps = method.affordable(problem.size, settings.passes)
    return chains(
        problem,
        settings.seed,
        stage,
        estimator=method.estimator,
        step_size=np.asarray(step) / problem.size,
        batch_size=method.batch_size,
        order=method.order,
        anchor_order=method.anchor_order,
        num_steps=num_steps,
        thin=max(1, num_steps // DRAWS),
        num_chains=np.size(step) if np.ndim(step) else settings.chains,
    )


def likelihoods(
    table: Table, draws: Float[np.ndarray, "draws d"]
) -> Float[np.ndarray, "draws rows"]:
    """P(y_i | x_i, w) of every row for every draw w."""
    x, y = table
    return expit(draws @ (x * (2 * y - 1)[:, None]).T)


def show(
    problem: Problem,
    reference: Reference,
    name: str,
    method: Method,
    step: float,
    result: vr.Result,
) -> Shown:
    curves = watch(result.draws, partial(likelihoods, problem.test))
    passes = method.cost(problem.size, result.draw_steps[curves.ends - 1]) / problem.size
    distance = error(curves.mean, curves.variance, reference.draws)
    first = result.draws.shape[1] // 5
    kept = replace(result, draws=result.draws[:, first:], draw_steps=result.draw_steps[first:])
    sd = reference.draws.std(axis=0)
    mean_error = (curves.mean[:, -1] - reference.draws.mean(axis=0)) / sd
    sd_error = np.sqrt(curves.variance[:, -1]) / sd - 1
    row = {
        "method": name,
        "step": step,
        "num_steps": result.num_steps,
        "data_passes": result.data_passes,
        "seconds": result.seconds,
        "test_nll": float(curves.nll[:, -1].mean()),
        "test_nll_sd": float(curves.nll[:, -1].std()),
        "test_accuracy": float(curves.accuracy[:, -1].mean()),
        "mean_error": float(np.sqrt(np.mean(mean_error**2))),
        "sd_error": float(np.sqrt(np.mean(sd_error**2))),
        "worth": float(1 / distance[:, -1].mean()),
        **convergence(kept),
    }
    return Shown(row, passes, curves, distance, kept.draws.reshape(-1, len(COLUMNS)))


def convergence(result: vr.Result) -> dict[str, float]:
    """The worst coordinate's R-hat and ESS; ESS is for one chain, like everything else here."""
    table = result.summary(kind="diagnostics")
    ess, r_hat = table["ess_bulk"].to_numpy(), table["r_hat"].to_numpy()
    return {"r_hat": float(r_hat.max()), "ess": float(ess.min()) / len(result.diverged)}


def table(report: Report) -> str:
    """The numbers as text."""
    prediction, posterior = ([run.row for run in report.shown[q].values()] for q in QUESTIONS)
    full = report.reference.row
    return f"""
Pima logistic regression, {report.problem.size} rows, {report.settings.chains} chains
numbers are for one chain; seconds for all of them, without compiling (the reference: with it)

prediction: the step size with the lowest validation NLL
{aligned([*prediction, full], PREDICTION)}

posterior: the step size with the lowest error against the reference
{aligned([*posterior, full], POSTERIOR)}

mean error: in posterior sd; sd error: relative; root mean squares over coordinates
worth: as good as so many independent draws, bias included (ESS does not see bias)"""


def write(report: Report, folder: Path, command: str) -> list[str]:
    """Write numbers and figures; returns the names of the files."""
    reference, problem = report.reference, report.problem
    runs = [(q, name, run) for q in QUESTIONS for name, run in report.shown[q].items()]
    every = [{"question": question, **run.row} for question, _, run in runs]
    moments = reference.draws.mean(axis=0).tolist(), reference.draws.std(axis=0).tolist()
    results = {
        "rows": {name: len(y) for name, (_, y) in problem._asdict().items()},
        "step_size_unit": "h N: the step on the mean log-likelihood; h = step / N",
        "step_size_grid": list(STEP_SIZES),
        "tuning": report.tuning,
        "reference": {**reference.row, "mean": moments[0], "sd": moments[1]},
        "coordinates": list(COLUMNS),
        "results": every,
    }
    points = [
        {
            "question": question,
            "method": name,
            "data_passes": float(run.passes[p]),
            "test_nll": float(run.curves.nll[:, p].mean()),
            "test_nll_sd": float(run.curves.nll[:, p].std()),
            "error": float(run.error[:, p].mean()),
        }
        for question, name, run in runs
        for p in range(run.passes.size)
    ]
    draws = {name: run.draws for name, run in report.shown["posterior"].items()}
    return [
        save_record(folder, "pima", command, report.settings, results),
        save_csv(folder / "table.csv", every),
        save_csv(folder / "curves.csv", points),
        *figures.save(draw_curves(report), folder / "curves"),
        *figures.save(figures.marginals(COLUMNS, reference.draws, draws), folder / "marginals"),
    ]


def draw_curves(report: Report) -> figures.Figure:
    losses = {
        name: (run.passes, run.curves.nll.mean(axis=0))
        for name, run in report.shown["prediction"].items()
    }
    worths = {
        name: (run.passes, 1 / run.error.mean(axis=0))
        for name, run in report.shown["posterior"].items()
    }
    prediction = figures.Panel(
        "Prediction: negative log-likelihood of the test data (lower is better)",
        losses,
        level=("full gradient", report.reference.row["test_nll"]),
    )
    posterior = figures.Panel(
        "Posterior: worth so many independent draws (higher is better)", worths, log_y=True
    )
    return figures.curves([prediction, posterior], x_label="data passes")
