"""The findings of a job: predictions for the test rows, scores, and the report."""

import json
from typing import Any, NamedTuple

import numpy as np

from vrsgmcmc import reports
from vrsgmcmc.advice import Accuracy, Audit, audit
from vrsgmcmc.experiments import csv_text
from vrsgmcmc.reports import Answer, Predictions, Probabilities
from vrsgmcmc.run import Result
from vrsgmcmc.run.store import Folder

from .answers import answer_of, check_of
from .directory import Job
from .outputs import FINDINGS, PREDICTIONS, SUMS, write_sums
from .problem import Problem
from .scores import score_own, score_table

BASELINE = "baseline_"  # before the name of a score of the prediction that uses no column
# scores of classes that a page computes itself, from the predictions
OWN_SCORES = {"test_log_likelihood", "accuracy", "brier_score", "calibration_error"}


class Findings(NamedTuple):
    """Scores by name, predictions for the test rows, the answer, and the audit."""

    scores: dict[str, float]
    baseline: dict[str, float]
    predictive: Probabilities | Predictions | None
    table: list[dict[str, Any]]  # rows of predictions.csv
    audit: Audit | None
    accuracy: Accuracy | None
    notes: tuple[str, ...]
    answer: Answer | None = None

    @property
    def page_scores(self) -> dict[str, float]:
        """The scores that a page does not compute itself."""
        return self.of_page(self.scores)

    @property
    def page_baseline(self) -> dict[str, float]:
        return self.of_page(self.baseline)

    def of_page(self, scores: dict[str, float]) -> dict[str, float]:
        own = OWN_SCORES if isinstance(self.predictive, Probabilities) else {"coverage_90"}
        return {name.replace("_", " "): v for name, v in scores.items() if name not in own}

    def to_json(self) -> dict[str, float]:
        return self.scores | {f"{BASELINE}{name}": v for name, v in self.baseline.items()}


def examine(job: Job, problem: Problem, result: Result) -> Findings:
    """Audit a result, and score its predictions unless every chain became non-finite."""
    accuracy = reports.name_parameters(result.record, result.draws, problem.names)
    findings = Findings({}, {}, None, [], None, accuracy, ())
    try:
        findings = findings._replace(audit=audit_result(result))
    except ValueError as error:
        findings = findings._replace(notes=(f"There is no audit: {error}",))
    if result.diverged.all():
        return findings
    if problem.table is None:
        scores = score_own(problem, result, job.config.seed)
    else:
        scores = score_table(problem, result)
    findings = findings._replace(**scores._asdict())
    return findings._replace(answer=answer_of(problem, result, findings))


def audit_result(result: Result) -> Audit:
    """The audit of a run; `ValueError` if it predicts nothing, for one of two reasons."""
    verdict = audit(result)
    widths = [verdict.inflation, verdict.plain_inflation, verdict.full_inflation]
    if not np.isfinite(widths).all():
        if not verdict.holds:  # the chain is elsewhere, and the verdict says where
            raise ValueError(verdict.verdict)
        raise ValueError(
            f"at step size {result.context.sampler.step_size:.3g} the predicted widths of the "
            "posterior are not finite. Take a smaller step size."
        )
    return verdict


def write(job: Job, problem: Problem, result: Result, findings: Findings) -> list[str]:
    """Write predictions.csv, findings.json and the report; returns the names of the files."""
    folder, files = Folder(job.path), []
    folder.remove(SUMS)  # until all is written
    if findings.table:
        folder.write(PREDICTIONS, csv_text(findings.table).encode())
        files.append(PREDICTIONS)
    folder.write(FINDINGS, f"{json.dumps(findings.to_json(), indent=1)}\n".encode())
    files.append(FINDINGS)
    train, test = job.sizes
    notes = [*job.choice.notes, *findings.notes]
    if findings.answer is None:  # which has them as a list
        notes = [*problem.notes, *notes]
    facts = {
        "data": f"{job.config.data.name}: {train} rows to train, {test} to test",
        "target": job.target.name,
        **({"classes": ", ".join(job.target.labels)} if job.target.labels else {}),
        "seed": job.config.seed,
        "notes": " ".join(notes) or "none",
        **({} if result.decision is None else {"sampler": str(result.decision)}),
    }
    page = reports.of_result(
        result,
        title=f"{job.model} on {job.config.data.name}",
        names=problem.names,
        audit=findings.audit,
        accuracy=findings.accuracy,
        predictive=findings.predictive,
        answer=findings.answer,
        check=check_of(problem, result),
        scores=findings.page_scores,
        command=job.command,
        facts=facts,
    )
    pages = reports.write(page, job.path)
    write_sums(job.path, [*files, *pages])
    return [*files, *pages[:1]]
