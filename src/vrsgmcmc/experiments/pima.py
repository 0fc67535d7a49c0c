"""Bayesian logistic regression on the Pima diabetes data: test NLL, and the posterior itself.

The 768 rows are split into 460 to train, 154 to validate and 154 to test, and standardised; the prior
is N(0, I). Every method gets the same number of data passes, SGLD dynamics, and the same grid of step
sizes. Two questions, each with the step size that answers it best:

- prediction: the negative log-likelihood of the test data under the average of the predictions so
  far; step size chosen on the validation data.
- posterior: how well one chain knows posterior means and variances, against long NUTS runs (the
  error C of `scores.py`; the chain is worth 1/C independent draws); step size chosen by C.

Tuning and the runs that are shown use different keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import datasets, models
from vrsgmcmc.core import observable
from vrsgmcmc.core.estimators import practical
from vrsgmcmc.experiments import claims
from vrsgmcmc.experiments.checkpoints import Memory
from vrsgmcmc.experiments.claims import ANCHORED, PAPER, SGLD
from vrsgmcmc.experiments.methods import Method, check_passes
from vrsgmcmc.experiments.progress import Board, Line
from vrsgmcmc.experiments.scores import binary_nll, knowledge_error
from vrsgmcmc.experiments.segments import Task, Trace, cuts, follow
from vrsgmcmc.experiments.settings import Outcome, Settings
from vrsgmcmc.experiments.shown import Shown
from vrsgmcmc.reports import Claim, Report, Section, Table, figures

STEP_SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # h N: per mean log-likelihood
EVERY = 10  # steps between two predictions
QUESTIONS = ("prediction", "posterior")
COLUMNS = ("intercept", *datasets.PIMA_COLUMNS)
METHODS = claims.METHODS | {f"{ANCHORED}{n}": Method(practical(n, 10)) for n in (50, 200)}


class Size(NamedTuple):
    passes: float
    chains: int
    points: int
    methods: tuple[str, ...] = tuple(METHODS)


SIZES = {
    "smoke": Size(passes=4, chains=8, points=4, methods=(SGLD, PAPER)),
    "small": Size(passes=100, chains=32, points=24),
    "paper": Size(passes=200, chains=128, points=40),
}


class Problem(NamedTuple):
    train: tuple[np.ndarray, np.ndarray]  # x [rows, 9], ones first; y [rows]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def prepare() -> Problem:
    x, y = datasets.pima()
    (x, y), test = datasets.split(x, y, test_fraction=0.2, seed=0)
    train, validation = datasets.split(x, y, test_fraction=0.25, seed=0)
    parts = train, validation, test
    tables = [datasets.with_intercept(x) for x in datasets.standardise(*(x for x, _ in parts))]
    return Problem(*((x.astype(np.float32), y) for x, (_, y) in zip(tables, parts, strict=True)))


def reference() -> dict[str, Any]:
    """Posterior means and variances by NUTS (`benchmarks/pima_reference.py`)."""
    file = resources.files("vrsgmcmc.experiments") / "pima-posterior.json"
    return json.loads(file.read_text(encoding="utf-8"))


def identity(w: Any) -> Any:
    return w


def square(w: Any) -> Any:
    return jnp.square(w)


class Curves(NamedTuple):
    """What each chain of a run knows, point by point."""

    trace: Trace
    nll: dict[str, np.ndarray]  # of validation, test and training data: [points, chain]
    error: np.ndarray  # C
    mean: np.ndarray  # [chain, 9], at the end
    variance: np.ndarray


class Best(NamedTuple):
    """A run with the step size that answers a question best."""

    step: float
    curves: Curves


def run(settings: Settings, memory: Memory) -> Outcome:
    size = settings.of(SIZES)
    chains = settings.seeds or size.chains
    methods = settings.chosen({name: METHODS[name] for name in size.methods})
    problem, known = prepare(), reference()
    train = problem.train
    check_passes(methods, len(train[0]), size.passes, steps=EVERY)
    task = Task(
        models.logistic.posterior(),
        train,
        models.logistic.initial(len(COLUMNS)),
        {
            "mean": identity,
            "square": square,
            **{
                name: observable(models.logistic.predict, data=x, every=EVERY)
                for name, (x, _) in problem._asdict().items()
            },
        },
    )

    def curves(method: Method, steps: Any, stage: int) -> Curves:
        total = method.affordable(task.size, size.passes)
        ends = cuts(total, size.points, least=total // 100, multiple=EVERY)
        key = jax.random.fold_in(jax.random.key(0), stage)
        steps = np.asarray(steps) / task.size
        trace = follow(key, task, method, steps, ends, board=board, memory=memory)
        points = range(len(ends))
        mean = np.stack([trace.known("mean", p) for p in points])
        variance = np.stack([trace.known("square", p) for p in points]) - mean**2
        nll = {
            name: np.stack([binary_nll(trace.known(name, p), y) for p in points])
            for name, (_, y) in problem._asdict().items()
        }
        error = knowledge_error(mean, variance, known["mean"], known["variance"])
        return Curves(trace, nll, error, mean[-1], variance[-1])

    def one(method: Method, line: Line) -> tuple[dict[str, list[float]], dict[str, Best]]:
        tried = curves(method, np.resize(np.asarray(STEP_SIZES), max(chains, 8)), stage=0)
        rows = np.arange(max(chains, 8)) % len(STEP_SIZES)
        tuning = {
            question: [float(np.mean(values[-1][rows == h])) for h in range(len(STEP_SIZES))]
            for question, values in (
                ("prediction", tried.nll["validation"]),
                ("posterior", tried.error),
            )
        }
        best = {q: STEP_SIZES[int(np.nanargmin(tuning[q]))] for q in QUESTIONS}
        runs = {h: curves(method, np.full(chains, h), stage=1) for h in set(best.values())}
        nll = runs[best["prediction"]].nll["test"][-1].mean()
        worth = 1 / runs[best["posterior"]].error[-1].mean()
        line.text = f"test NLL {nll:.4f}, worth {worth:.0f} draws"
        return tuning, {q: Best(h, runs[h]) for q, h in best.items()}

    found = {}
    with Board(list(methods)) as board:
        for name, method in methods.items():
            with board.line(name, parts=(1,) * (1 + len(QUESTIONS))) as line:
                found[name] = one(method, line)
    return outcome(task, methods, found, known, size, chains)


def outcome(
    task: Task,
    methods: dict[str, Method],
    found: dict[str, Any],
    known: Any,
    size: Size,
    chains: int,
) -> Outcome:
    shown = {q: {name: runs[q] for name, (_, runs) in found.items()} for q in QUESTIONS}
    rows = []
    for question in QUESTIONS:
        for name, (step, one) in shown[question].items():
            for p, end in enumerate(one.trace.ends):
                rows.append(
                    {
                        "question": question,
                        "method": name,
                        "step": step,
                        "steps": int(end),
                        "data_passes": float(methods[name].cost(task.size, end) / task.size),
                        "paper_passes": float(methods[name].paper_cost(task.size, end) / task.size),
                        "seconds_all_chains": float(one.trace.seconds[p]),
                        "test_nll": float(one.nll["test"][p].mean()),
                        "test_nll_sd": float(one.nll["test"][p].std()),
                        "validation_nll": float(one.nll["validation"][p].mean()),
                        "train_nll": float(one.nll["train"][p].mean()),
                        "error": float(one.error[p].mean()),
                    }
                )
    last = {q: {r["method"]: r for r in rows if r["question"] == q} for q in QUESTIONS}
    sd = np.sqrt(known["variance"])
    table = Table(
        (
            "method",
            "h N",
            "test NLL",
            "sd",
            "h N for the posterior",
            "mean error",
            "sd error",
            "worth",
        ),
        [
            (
                name,
                f"{last['prediction'][name]['step']:g}",
                f"{last['prediction'][name]['test_nll']:.4f}",
                f"{last['prediction'][name]['test_nll_sd']:.4f}",
                f"{last['posterior'][name]['step']:g}",
                f"{_rms((run.curves.mean - known['mean']) / sd):.3f}",
                f"{_rms(np.sqrt(run.curves.variance) / sd - 1):.3f}",
                f"{1 / last['posterior'][name]['error']:.0f}",
            )
            for name, run in shown["posterior"].items()
        ],
    )
    axes = {
        "data passes": lambda name, trace: methods[name].cost(task.size, trace.ends) / task.size,
        "passes as the paper counts (n1/m + n2 per step)": lambda name, trace: (
            methods[name].paper_cost(task.size, trace.ends) / task.size
        ),
        "seconds for one chain": lambda name, trace: trace.seconds / chains,
    }
    report = Report(
        title="Pima: Bayesian logistic regression",
        lead=f"{len(methods)} methods, {size.passes:g} passes over {task.size} rows each, {chains} "
        "repetitions. Lower test NLL is better; a chain is worth as many independent draws as would "
        "know posterior means and variances as well.",
        sections=[
            *(
                Section(
                    f"Against {label}",
                    figure=picture(shown, known, axis, label),
                    caption="Mean over repetitions; bands hold the middle 80 %.",
                )
                for label, axis in axes.items()
            ),
            Section(
                "At the end",
                "Errors of posterior means are in posterior standard deviations, those of standard "
                "deviations are relative; root mean squares over coordinates and repetitions.",
                table=table,
            ),
        ],
        claims=answers(task.size, methods, shown),
    )
    record = {
        "size": size._asdict(),
        "repetitions": chains,
        "rows": task.size,
        "step_size_unit": "h N: the step on the mean log-likelihood",
        "step_size_grid": list(STEP_SIZES),
        "tuning": {name: tuning for name, (tuning, _) in found.items()},
        "reference": known,
        "seeds": {"key": 0, "tuning": "fold_in 0", "shown": "fold_in 1"},
    }
    text = "\n".join("  ".join(map(str, row)) for row in [table.header, *table.rows])
    return Outcome(report, {"curves": rows}, record, text)


def picture(shown: Any, known: Any, axis: Callable, label: str) -> figures.Figure:
    def lines(question: str, value: Callable) -> tuple[dict, dict]:
        runs = shown[question].items()
        middle = {n: (axis(n, one.curves.trace), value(one.curves).mean(1)) for n, one in runs}
        band = {n: tuple(np.quantile(value(one.curves), (0.1, 0.9), axis=1)) for n, one in runs}
        return middle, band

    prediction, band = lines("prediction", lambda curves: curves.nll["test"])
    training, _ = lines("prediction", lambda curves: curves.nll["train"])
    worth = {
        n: (axis(n, one.curves.trace), 1 / one.curves.error.mean(1))
        for n, one in shown["posterior"].items()
    }
    return figures.curves(
        [
            figures.Panel(
                "Prediction: negative log-likelihood of the test data",
                prediction,
                level=("NUTS", known["test_nll"]),
                bands=band,
            ),
            figures.Panel("Prediction: the same of the training data", training),
            figures.Panel("Posterior: worth so many independent draws", worth, log_y=True),
        ],
        x_label=label,
    )


def answers(
    size: int, methods: dict[str, Method], shown: dict[str, dict[str, Best]]
) -> list[Claim]:
    """The paper's statements about prediction; what the chains are worth stands beside them."""
    curves = {
        name: Shown(
            methods[name], size, step, {}, one.trace, {"test": {"nll": one.nll["test"]}}, {}
        )
        for name, (step, one) in shown["prediction"].items()
    }
    worth = {name: 1 / one.error[-1].mean() for name, (_, one) in shown["posterior"].items()}
    listed = "; ".join(f"{name}: {value:.0f}" for name, value in worth.items())
    found = []
    if {SGLD, PAPER} <= set(curves):
        faster = claims.faster(curves)
        found.append(faster._replace(evidence=f"{faster.evidence} Worth, in draws: {listed}."))
        if claims.SVRG in curves:
            found.append(claims.svrg_ends_lower(curves))
        found.append(claims.equal_time(curves))
    return [*found, *claims.every_anchor(curves)]


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
