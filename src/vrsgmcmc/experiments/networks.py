"""The runner of the experiments on networks: scores of the average prediction against cost.

Every method gets the same number of data passes and the same grid of step sizes. It takes the step
size whose average predictions have the lowest loss on validation data after a short run; the long run
has another key. The chain averages its predictions, one every few steps, over the last four fifths of
the run. The current sample alone gets scores too, at the end of each segment.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from vrsgmcmc.core import Sampler, observable

from . import network_page
from .checkpoints import Checkpoints
from .curves import MethodResult, format_score
from .experiment import Experiment, Size, Subject
from .methods import PAPER, SGLD, check_passes
from .progress import ExperimentProgress, MethodProgress
from .scores import EvaluationSet
from .segments import Trace, cuts, run_segments
from .settings import Outcome, Settings

TUNING_POINTS, TUNING_PREDICTIONS = 5, 10
VALIDATION = "validation"


def run(experiment: Experiment, settings: Settings, checkpoints: Checkpoints) -> Outcome:
    size = settings.pick_size(experiment.sizes)
    if settings.size == "smoke":  # no choice of a step size and, unless some are named, two methods
        names = experiment.methods if settings.methods else (SGLD, PAPER)
        experiment = experiment._replace(
            methods={name: experiment.methods[name] for name in names},
            step_sizes=experiment.step_sizes[:1],
        )
    methods = settings.pick_methods(experiment.methods)
    seeds = settings.seeds or size.seeds
    subject = to_device(experiment.load(settings))
    check_passes(methods, subject.size, size.passes)
    tuning = [size.tuning * len(group) for group in step_size_groups(experiment, subject)]
    results = {}
    with ExperimentProgress(list(methods)) as progress:
        for name, sampler in methods.items():
            with progress.method(name, parts=[*tuning, size.passes * seeds]) as line:
                work = Work(subject, sampler, progress, checkpoints)
                results[name] = run_method(work, experiment, size, seeds, line)
    return network_page.outcome(experiment, subject, results, size, seeds)


def to_device(subject: Subject) -> Subject:
    """The subject with arrays on the device, so that no segment copies them."""
    evaluation = {
        n: rows._replace(data=jax.device_put(rows.data)) for n, rows in subject.evaluation.items()
    }
    task = subject.task._replace(data=jax.device_put(subject.task.data))
    return subject._replace(task=task, evaluation=evaluation)


def step_size_groups(experiment: Experiment, subject: Subject) -> list[list[float]]:
    """The step sizes of each tuning run; none if the grid has only one."""
    grid = list(experiment.step_sizes)
    if len(grid) == 1:
        return []
    return [grid] if subject.task.schedule is None else [[h] for h in grid]


class Work(NamedTuple):
    """One method on one network."""

    subject: Subject
    sampler: Sampler
    progress: ExperimentProgress
    checkpoints: Checkpoints

    def trace(
        self,
        stage: int,
        steps: Sequence[float],
        passes: float,
        points: int,
        predictions: int,
        evaluation: Mapping[str, EvaluationSet],
        snapshots: Sequence[str] = (),
    ) -> Trace:
        """Run one chain for each step size h N; each stage has a key of its own.

        `snapshots`: the evaluation sets on which the current sample gets scores, too.
        """
        subject = self.subject
        affordable = self.sampler.affordable_steps(subject.size, passes * subject.size)
        every = max(1, affordable // predictions)
        observables = {
            name: observable(rows.predict, data=rows.data, every=every)
            for name, rows in evaluation.items()
        }
        scores = {name: sample_scores(evaluation[name]) for name in snapshots}
        return run_segments(
            jax.random.fold_in(jax.random.key(0), stage),
            subject.task._replace(observables=observables, snapshots=scores),
            self.sampler,
            np.asarray(steps) / (subject.size * subject.images_per_datum),
            cuts(affordable, points, multiple=every),
            self.progress,
            self.checkpoints,
        )

    def scores(self, trace: Trace, rows: str) -> dict[str, Float[np.ndarray, "points chain"]]:
        """The scores of the late average at each point."""
        return self.subject.evaluation[rows].scores(trace.late_averages(rows))


def tune(work: Work, experiment: Experiment, size: Size) -> dict[float, dict[str, list[float]]]:
    """Step size -> scores on validation data, point by point."""
    tuning, evaluation = {}, {VALIDATION: work.subject.evaluation[VALIDATION]}
    for group in step_size_groups(experiment, work.subject):
        trace = work.trace(0, group, size.tuning, TUNING_POINTS, TUNING_PREDICTIONS, evaluation)
        passes = work.sampler.evaluations(work.subject.size, trace.ends) / work.subject.size
        scores = work.scores(trace, VALIDATION)
        for c, h in enumerate(group):
            tuning[h] = {"data_passes": passes.tolist()} | {
                f"validation_{name}": np.where(trace.diverged[c], np.nan, values[:, c]).tolist()
                for name, values in scores.items()
            }
    return tuning


def best_step_size(tuning: Mapping[float, Mapping[str, Sequence[float]]]) -> float:
    """The step size with the lowest loss at the end; a chain that diverged never wins."""
    return min(tuning, key=lambda h: np.nan_to_num(tuning[h]["validation_nll"][-1], nan=np.inf))


def run_method(
    work: Work, experiment: Experiment, size: Size, seeds: int, line: MethodProgress
) -> MethodResult:
    """Tune the step size, then run with it."""
    tuning = tune(work, experiment, size)
    h = best_step_size(tuning) if tuning else experiment.step_sizes[0]
    evaluation = {n: rows for n, rows in work.subject.evaluation.items() if n != VALIDATION}
    rows, predictions = ("test", "train"), max(1, round(size.passes / size.every))
    trace = work.trace(1, [h] * seeds, size.passes, size.points, predictions, evaluation, rows)
    scores = {name: work.scores(trace, name) for name in rows}
    measures = evaluation["test"].measures
    for name, values in trace.snapshots.items():
        scores[f"{name}_sample"] = {m: values[..., i] for i, m in enumerate(measures)}
    final = format_score(measures[1], scores["test"][measures[1]][-1].mean())
    line.text = f"test {measures[1]} {final}, h N = {h:g}"
    last = {name: trace.late_average(name, -1) for name in evaluation}
    return MethodResult(work.sampler, work.subject.size, h, tuning, trace, scores, last)


def sample_scores(rows: EvaluationSet) -> Callable[[Any], Any]:
    """A function from parameters to the scores of their predictions, in the order of `measures`."""
    predict = jax.jit(rows.predict)

    def scores(params: Any) -> np.ndarray:
        return np.stack([*rows.scores(np.asarray(predict(params, rows.data))).values()])

    return scores
