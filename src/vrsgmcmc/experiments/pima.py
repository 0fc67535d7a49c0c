"""Bayesian logistic regression on the Pima diabetes data: test NLL, and the posterior itself.

The 768 rows are split into 460 to train, 154 to validate and 154 to test, and standardised; the prior
is N(0, I). Every method gets the same number of data passes, SGLD dynamics, and the same grid of step
sizes. There are two questions, and the best step size is chosen for each:

- prediction: the negative log-likelihood of the test data under the average of the predictions so
  far; step size chosen on the validation data.
- posterior: the error C (`scores.py`) of the posterior means and variances of one chain, against long
  NUTS runs; the chain is worth 1/C independent draws. Step size chosen by C.

The tuning runs and the final runs have different keys.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import datasets
from vrsgmcmc.core import Sampler, observable
from vrsgmcmc.core.estimators import practical
from vrsgmcmc.core.integrators import sgld
from vrsgmcmc.models import logistic
from vrsgmcmc.reports import Claim, Report, Section, Table, figures

from . import claims, methods
from .checkpoints import Checkpoints
from .curves import AXES, Axis, MethodResult, Results, point_rows
from .methods import ANCHORED, PAPER, SGLD, check_passes
from .progress import ExperimentProgress, MethodProgress
from .scores import binary_nll, knowledge_error
from .segments import Task, cuts, run_segments
from .settings import ChainSize, Outcome, Settings

STEP_SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # h N: per mean log-likelihood
EVERY = 10  # steps between two predictions
PREDICTION, POSTERIOR = QUESTIONS = ("prediction", "posterior")
COLUMNS = ("intercept", *datasets.PIMA_COLUMNS)
METHODS = methods.METHODS | {f"{ANCHORED}{n}": Sampler(practical(n, 10), sgld()) for n in (50, 200)}


SIZES = {
    "smoke": ChainSize(passes=4, chains=8, points=4, methods=(SGLD, PAPER)),
    "small": ChainSize(passes=100, chains=32, points=24, methods=tuple(METHODS)),
    "paper": ChainSize(passes=200, chains=128, points=40, methods=tuple(METHODS)),
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


def load_reference() -> dict[str, Any]:
    """Posterior means and variances by NUTS (`benchmarks/pima_reference.py`)."""
    file = resources.files("vrsgmcmc.experiments") / "pima-posterior.json"
    return json.loads(file.read_text(encoding="utf-8"))


def run(settings: Settings, checkpoints: Checkpoints) -> Outcome:
    size = settings.pick_size(SIZES)
    chains = settings.seeds or size.chains
    samplers = settings.pick_methods({name: METHODS[name] for name in size.methods})
    problem, reference = prepare(), load_reference()
    check_passes(samplers, len(problem.train[0]), size.passes, steps=EVERY)
    observables: dict[str, Any] = {"mean": jnp.asarray, "square": jnp.square}
    for name, (x, _) in problem._asdict().items():
        observables[name] = observable(logistic.predict, data=x, every=EVERY)
    task = Task(logistic.posterior(), problem.train, logistic.initial(len(COLUMNS)), observables)

    def run_chains(sampler: Sampler, steps: np.ndarray, stage: int) -> tuple[Any, dict, dict]:
        """The trace, the scores by point and chain, and the moments at the end."""
        total = sampler.affordable_steps(task.size, size.passes * task.size)
        ends = cuts(total, size.points, least=total // 100, multiple=EVERY)
        key = jax.random.fold_in(jax.random.key(0), stage)
        steps = steps / task.size
        trace = run_segments(key, task, sampler, steps, ends, progress, checkpoints)
        mean = trace.late_averages("mean")
        variance = trace.late_averages("square") - mean**2
        error = knowledge_error(mean, variance, reference["mean"], reference["variance"])
        scores = {POSTERIOR: {"error": error}}
        for name, (_, y) in problem._asdict().items():
            scores[name] = {"nll": binary_nll(trace.late_averages(name), y)}
        return trace, scores, {"mean": mean[-1], "variance": variance[-1]}

    def run_method(sampler: Sampler, line: MethodProgress) -> tuple[dict, dict[str, MethodResult]]:
        """The scores of every step size, and the result with the best one, for each question."""
        grid, count = np.array(STEP_SIZES), max(chains, 8)
        _, scores, _ = run_chains(sampler, np.resize(grid, count), stage=0)
        index = np.arange(count) % len(grid)
        losses = {PREDICTION: scores["validation"]["nll"], POSTERIOR: scores[POSTERIOR]["error"]}
        tuning = {
            question: [float(np.mean(values[-1][index == h])) for h in range(len(grid))]
            for question, values in losses.items()
        }
        best = {q: STEP_SIZES[int(np.nanargmin(tuning[q]))] for q in QUESTIONS}
        runs = {h: run_chains(sampler, np.full(chains, h), stage=1) for h in set(best.values())}
        results = {q: MethodResult(sampler, task.size, h, {}, *runs[h]) for q, h in best.items()}
        nll, _ = results[PREDICTION].final("nll")
        line.text = f"test NLL {nll:.4f}, worth {worth(results[POSTERIOR]):.0f} draws"
        return tuning, results

    tuning, results = {}, {question: {} for question in QUESTIONS}
    with ExperimentProgress(list(samplers)) as progress:
        for name, sampler in samplers.items():
            with progress.method(name, parts=(1,) * (1 + len(QUESTIONS))) as line:
                tuning[name], each = run_method(sampler, line)
                for question in QUESTIONS:
                    results[question][name] = each[question]
    record = {
        "size": size._asdict(),
        "repetitions": chains,
        "rows": task.size,
        "step_size_unit": "h N: the step on the mean log-likelihood",
        "step_size_grid": list(STEP_SIZES),
        "tuning": tuning,
        "reference": reference,
        "seeds": {"key": 0, "tuning": "fold_in 0", "shown": "fold_in 1"},
    }
    lead = (
        f"{len(samplers)} methods, {size.passes:g} passes over {task.size} rows each, {chains} "
        "repetitions. Lower test NLL is better; a chain is worth as many independent draws as would "
        "know posterior means and variances as well."
    )
    table = final_table(results, reference)
    text = "\n".join("  ".join(map(str, row)) for row in [table.header, *table.rows])
    caption, nuts_nll = "Mean over repetitions; bands hold the middle 80 %.", reference["test_nll"]
    sections = [
        Section(f"Against {label}", figure=draw(results, nuts_nll, axis, label), caption=caption)
        for label, axis in AXES.items()
    ]
    units = (
        "Errors of posterior means are in posterior standard deviations, those of standard "
        "deviations are relative; root mean squares over coordinates and repetitions."
    )
    sections.append(Section("At the end", units, table=table))
    report = Report("Pima: Bayesian logistic regression", lead, sections, pima_claims(results))
    return Outcome(report, {"curves": curve_rows(results)}, record, text)


def worth(result: MethodResult) -> float:
    """The number of independent draws that know the posterior as well as a chain at its end."""
    return 1 / result.final("error", POSTERIOR)[0]


def curve_rows(results: Mapping[str, Results]) -> list[dict[str, Any]]:
    """A row for every point of every curve."""
    rows = []
    for question, runs in results.items():
        for name, each in runs.items():
            columns = {
                "steps": each.trace.ends,
                "data_passes": each.passes(),
                "paper_passes": each.paper_passes(),
                "seconds_all_chains": each.trace.seconds,
                "test_nll": each.scores["test"]["nll"].mean(1),
                "test_nll_sd": each.scores["test"]["nll"].std(1),
                "validation_nll": each.scores["validation"]["nll"].mean(1),
                "train_nll": each.scores["train"]["nll"].mean(1),
                "error": each.scores[POSTERIOR]["error"].mean(1),
            }
            rows += point_rows(columns, question=question, method=name, step=each.step)
    return rows


def final_table(results: Mapping[str, Results], reference: Mapping[str, Any]) -> Table:
    mean, sd = np.asarray(reference["mean"]), np.sqrt(reference["variance"])

    def row(name: str, prediction: MethodResult, posterior: MethodResult) -> tuple[str, ...]:
        nll = prediction.scores["test"]["nll"][-1]
        errors = (posterior.last["mean"] - mean) / sd, np.sqrt(posterior.last["variance"]) / sd - 1
        return (
            name,
            f"{prediction.step:g}",
            f"{nll.mean():.4f}",
            f"{nll.std():.4f}",
            f"{posterior.step:g}",
            *(f"{np.sqrt(np.mean(error**2)):.3f}" for error in errors),
            f"{worth(posterior):.0f}",
        )

    header = ("method", "h N", "test NLL", "sd", "h N for the posterior", "mean error", "sd error")
    rows = [row(name, *(results[q][name] for q in QUESTIONS)) for name in results[PREDICTION]]
    return Table((*header, "worth"), rows)


def draw(
    results: Mapping[str, Results], nuts_nll: float, axis: Axis, label: str
) -> Callable[..., figures.Figure]:
    """Test and training loss, and the worth of a chain, against a cost."""

    def lines(question: str, part: str, measure: str) -> dict[str, Any]:
        runs = results[question].items()
        return {name: (axis(each), each.scores[part][measure].mean(1)) for name, each in runs}

    test = {name: each.scores["test"]["nll"] for name, each in results[PREDICTION].items()}
    worths = {n: (x, 1 / error) for n, (x, error) in lines(POSTERIOR, POSTERIOR, "error").items()}
    panels = [
        figures.Panel(
            "Prediction: negative log-likelihood of the test data",
            lines(PREDICTION, "test", "nll"),
            level=("NUTS", nuts_nll),
            bands={n: tuple(np.quantile(v, (0.1, 0.9), axis=1)) for n, v in test.items()},
        ),
        figures.Panel(
            "Prediction: the same of the training data", lines(PREDICTION, "train", "nll")
        ),
        figures.Panel("Posterior: worth so many independent draws", worths, log_y=True),
    ]
    return partial(figures.curves, panels, x_label=label)


def pima_claims(results: Mapping[str, Results]) -> list[Claim]:
    """The paper's claims about prediction; the worth of the chains stands beside them."""
    prediction = results[PREDICTION]
    answers = claims.method_claims(prediction)
    if answers:
        listed = "; ".join(f"{n}: {worth(each):.0f}" for n, each in results[POSTERIOR].items())
        evidence = f"{answers[0].evidence} Worth, in draws: {listed}."
        answers[0] = answers[0]._replace(evidence=evidence)
    return [*answers, *claims.anchor_claims(prediction)]
