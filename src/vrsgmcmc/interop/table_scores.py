"""How good predictions are, beside a baseline that knows the target's distribution and no column.

    log score   mean over rows of log (mean over draws of p(y_i | draw)); higher is better
    rmse        of the predictive mean, in the target's units
    accuracy    share of rows whose likeliest class is the true one
    brier       two classes: mean of (p - y)^2; more: mean of sum_k (p_k - [y = k])^2
    coverage    share of rows inside of their 90 % interval

The baseline predicts the class shares of the training rows; of a number a normal distribution with
their mean and sd; of a count a Poisson distribution, or a negative binomial one, with their mean (and
variance).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from vrsgmcmc.datasets.tables import Design

from .table_predictions import log_likelihood, own_units, predict


@dataclass(frozen=True)
class Scores:
    """Scores by name, of the model and of the baseline."""

    model: dict[str, float]
    baseline: dict[str, float]
    baseline_name: str
    rows: int

    def __str__(self) -> str:
        lines = [f"Scores on {self.rows} rows; the baseline is {self.baseline_name}:"]
        for name, value in self.model.items():
            other = f" (baseline {self.baseline[name]:.4g})" if name in self.baseline else ""
            lines.append(f"{name} {value:.4g}{other}")
        return "\n".join(lines)


def score(family: Any, train: Design, test: Design, draws: Any) -> Scores:
    """The scores of predictions for the rows of `test`."""
    values = log_likelihood(family, test, draws)
    log_score = float(np.mean(logsumexp(values, axis=0) - np.log(len(values))))
    predictions, truth = predict(family, test, draws), own_units(test, np.asarray(test.y))
    model, baseline = {"log_score": log_score}, {}
    if family.kind == "classes":
        count = len(test.target.labels)
        shares = np.bincount(train.y, minlength=count) / len(train.y)
        name = f"the class shares of the {len(train.y)} training rows"
        everywhere = np.broadcast_to(shares, (len(truth), count))
        with np.errstate(divide="ignore"):
            baseline["log_score"] = float(np.mean(np.log(shares[truth])))
        for scores, p in ((model, predictions.mean), (baseline, everywhere)):
            scores["accuracy"] = float(np.mean(p.argmax(1) == truth))
            scores["brier"] = brier(p, truth)
        return Scores(model, baseline, name, len(truth))
    old = own_units(train, np.asarray(train.y, np.float64))
    mean, variance = float(old.mean()), float(old.var())
    if family.kind == "number":
        name = f"a normal distribution, mean {mean:.4g}, sd {variance**0.5:.4g}"
        logs = stats.norm.logpdf(truth, mean, variance**0.5)
    elif family.name == "negative_binomial" and variance > mean:
        name = f"a negative binomial distribution, mean {mean:.4g}, variance {variance:.4g}"
        logs = stats.nbinom.logpmf(truth, mean**2 / (variance - mean), mean / variance)
    else:
        name = f"a Poisson distribution, mean {mean:.4g}"
        logs = stats.poisson.logpmf(truth, mean)
    baseline["log_score"] = float(np.mean(logs))
    for scores, middle in ((model, predictions.mean), (baseline, mean)):
        scores["rmse"] = float(np.sqrt(np.mean(np.square(middle - truth))))
    inside = (predictions.low <= truth) & (truth <= predictions.high)
    model["coverage_90"] = float(inside.mean())
    return Scores(model, baseline, name, len(truth))


def brier(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """scikit-learn's `brier_score_loss`, for two classes and for more."""
    square = np.square(probabilities - np.eye(probabilities.shape[1])[truth]).sum(1)
    return float(square.mean() / (2 if probabilities.shape[1] == 2 else 1))
