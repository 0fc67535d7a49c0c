"""Do the estimators of `vrsgmcmc.sklearn` predict as well as tuned ones of scikit-learn?

    python benchmarks/sklearn_scores.py --tables breast_cancer wine --repeats 2

Repeated 5-fold cross-validation with the same folds for all, and scaling inside the pipeline. For each
fold: the mean log loss of the test rows (NLL; that of a number is Gaussian, with the sd that the model
says, or for scikit-learn's the residual sd of the training rows), Brier score (the sum over classes)
and expected calibration error (10 bins of the largest probability). Rows go to
results/sklearn/scores.csv, where those of the same table, model, repeat and fold are replaced. The
summary has the difference of the NLLs, ours less theirs, with its standard error over the folds.
"""

import argparse
import csv
import json
import platform
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vrsgmcmc as vr

FOLDS = 5
KEY = ("table", "model", "repeat", "fold")
SCORES = ("nll", "brier", "ece")
NUMBERS = ("diabetes",)  # tables whose target is a number
PAIRS = {"linear": "tuned linear", "network": "network of scikit-learn"}  # ours -> theirs


def read(table: str) -> tuple[np.ndarray, np.ndarray]:
    if table == "pima":
        return vr.datasets.pima()
    return getattr(datasets, f"load_{table}")(return_X_y=True)


def make_models(table: str, seed: int, budget: str | None) -> dict[str, Any]:
    """A model of each kind, without the scaling."""
    if table in NUMBERS:
        return {
            "linear": vr.sklearn.BayesianLinearRegression(random_state=seed, budget=budget),
            "tuned linear": RidgeCV(np.logspace(-3, 4, 30)),
            "network": vr.sklearn.BayesianMLPRegressor(random_state=seed),
            "network of scikit-learn": MLPRegressor(
                (50,), early_stopping=True, max_iter=2000, random_state=seed
            ),
        }
    tuned = LogisticRegressionCV(
        Cs=10, scoring="neg_log_loss", max_iter=5000, l1_ratios=(0,), use_legacy_attributes=False
    )
    return {
        "linear": vr.sklearn.BayesianLogisticRegression(random_state=seed, budget=budget),
        "tuned linear": tuned,
        "network": vr.sklearn.BayesianMLPClassifier(random_state=seed),
        "network of scikit-learn": MLPClassifier((50,), max_iter=2000, random_state=seed),
    }


def score_classes(model: Any, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    p = np.clip(model.predict_proba(x), 1e-12, 1.0)
    hits = y[:, None] == model.classes_
    top, right = p.max(axis=1), hits[np.arange(len(y)), p.argmax(axis=1)]
    bins = np.minimum((top * 10).astype(int), 9)
    gaps = [abs(np.sum(top[bins == b] - right[bins == b])) for b in range(10)]
    return {
        "nll": float(-np.log(p[hits]).mean()),
        "brier": float(np.mean(np.sum((p - hits) ** 2, axis=1))),
        "ece": float(np.sum(gaps) / len(y)),
    }


def score_numbers(model: Any, residual_sd: float | None, x: np.ndarray, y: np.ndarray) -> dict:
    """The Gaussian NLL; for a Bayesian model that of a normal with its predictive sd."""
    if residual_sd is None:
        mean, sd = model.predict(x, return_std=True)
    else:
        mean, sd = model.predict(x), residual_sd
    nll = 0.5 * ((y - mean) / sd) ** 2 + np.log(sd * np.sqrt(2 * np.pi))
    return {"nll": float(np.mean(nll)), "brier": np.nan, "ece": np.nan}


def measure(table: str, names: list[str], repeats: int, budget: str | None) -> list[dict]:
    """Scores of every model, repeat and fold."""
    x, y = (np.asarray(each) for each in read(table))
    rows = []
    for repeat in range(repeats):
        kind = KFold if table in NUMBERS else StratifiedKFold
        folds = kind(FOLDS, shuffle=True, random_state=repeat).split(x, y)
        for fold, (train, test) in enumerate(folds):
            for name, model in make_models(table, 10 * repeat + fold, budget).items():
                if name not in names:
                    continue
                pipeline, began = make_pipeline(StandardScaler(), model), time.process_time()
                pipeline.fit(x[train], y[train])
                seconds = time.process_time() - began
                if table in NUMBERS:
                    ours, parameters = name in PAIRS, x.shape[1] + 1
                    errors = y[train] - pipeline.predict(x[train])
                    sd = np.sqrt(np.sum(errors**2) / (len(train) - parameters))
                    scores = score_numbers(pipeline, None if ours else sd, x[test], y[test])
                else:
                    scores = score_classes(pipeline, x[test], y[test])
                row = {"table": table, "model": name, "repeat": repeat, "fold": fold}
                accuracy = getattr(model, "accuracy_", None)
                good = {"good": "" if accuracy is None else accuracy.good}
                rows.append({**row, **scores, **good, "cpu seconds": seconds})
                print(rows[-1], flush=True)
    return rows


def summarise(rows: list[dict]) -> list[dict]:
    """The means of each table and model, and of the pairs' differences."""
    summary = []
    for table in dict.fromkeys(row["table"] for row in rows):
        for ours, theirs in PAIRS.items():
            values = {
                name: {
                    (row["repeat"], row["fold"]): [float(row[score]) for score in SCORES]
                    for row in map(plain, rows)
                    if (row["table"], row["model"]) == (table, name)
                }
                for name in (ours, theirs)
            }
            shared = sorted(values[ours].keys() & values[theirs].keys())
            if len(shared) < 2:
                continue
            mine, other = (np.array([values[n][k] for k in shared]) for n in (ours, theirs))
            gaps = mine[:, 0] - other[:, 0]
            line = {"table": table, "model": ours, "against": theirs, "folds": len(shared)}
            for number, score in enumerate(SCORES):
                line[score] = float(mine[:, number].mean())
                line[f"{score} of theirs"] = float(other[:, number].mean())
            line["difference of nll"] = float(gaps.mean())
            line["standard error"] = float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
            summary.append(line)
    return summary


def plain(row: dict) -> dict:
    """A row with the types that it has in the file."""
    return {**row, "repeat": int(row["repeat"]), "fold": int(row["fold"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--tables", nargs="+", default=["breast_cancer", "wine", "pima", "diabetes"]
    )
    parser.add_argument("--models", nargs="+", default=[*PAIRS, *PAIRS.values()])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--budget", help="of vr.sample, for the linear models")
    parser.add_argument("--out", type=Path, default=Path("results/sklearn"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "scores.csv"
    for table in options.tables:
        new = measure(table, options.models, options.repeats, options.budget)
        old = []
        if path.exists():
            with path.open(newline="") as file:
                old = list(csv.DictReader(file))
        replaced = {tuple(str(row[name]) for name in KEY) for row in new}
        rows = [row for row in old if tuple(row[name] for name in KEY) not in replaced] + new
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(new[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        record = {
            "command": " ".join(["python benchmarks/sklearn_scores.py", *sys.argv[1:]]),
            "seeds": "folds: the repeat; models: 10 repeat + fold",
            "versions": {n: version(n) for n in ("vrsgmcmc", "jax", "numpy", "scikit-learn")},
            "python": platform.python_version(),
            "summary": summarise(rows),
        }
        (options.out / "scores.json").write_text(json.dumps(record, indent=1) + "\n")
        for line in record["summary"]:
            print(line, flush=True)


if __name__ == "__main__":
    main()
