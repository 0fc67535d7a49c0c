"""The results of the networks: their claims follow from their curves, by the present rules."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from vrsgmcmc.experiments import (
    cnn4_cifar10,
    lstm_ptb,
    lstm_wikitext2,
    mlp_cifar10,
    mlp_mnist,
    n1_sensitivity,
    resnet20_cifar10,
)
from vrsgmcmc.experiments.curves import MethodResult
from vrsgmcmc.experiments.segments import Trace

RESULTS = Path(__file__).parents[2] / "results"
ONE = {
    "mlp-mnist": mlp_mnist,
    "mlp-cifar10": mlp_cifar10,
    "n1-sensitivity": n1_sensitivity,
    "cnn4-cifar10": cnn4_cifar10,
    "lstm-ptb": lstm_ptb,
    "lstm-wikitext2": lstm_wikitext2,
}
NETWORKS = {(name, None): module.EXPERIMENT for name, module in ONE.items()} | {
    ("resnet20-cifar10", norm): each for norm, each in resnet20_cifar10.EXPERIMENTS.items()
}


def table(name):
    with (RESULTS / name / "curves.csv").open() as file:
        return list(csv.DictReader(file))


def load_result(sampler, size, rows):
    """The result of a method, from its rows of curves.csv."""
    seeds = sorted({int(row["seed"]) for row in rows})

    def column(name):
        return np.array([[float(r[name]) for r in rows if int(r["seed"]) == c] for c in seeds]).T

    scores = {}
    for name in rows[0]:
        where, _, measure = name.rpartition("_")
        if where in ("test", "train", "test_sample"):
            scores.setdefault(where, {})[measure] = column(name)
    trace = Trace(
        ends=column("steps")[:, 0].astype(int),
        seconds=column("seconds")[:, 0] * len(seeds),
        averages={},
        diverged=np.zeros(len(seeds), bool),
    )
    result = MethodResult(sampler, size, float(rows[0]["step"]), {}, trace, scores, {})
    np.testing.assert_allclose(result.passes(), column("data_passes")[:, 0])
    np.testing.assert_allclose(result.paper_passes(), column("paper_passes")[:, 0])
    return result


@pytest.mark.parametrize(("name", "norm"), NETWORKS, ids=lambda part: part or "")
def test_claims_follow_from_the_curves(name, norm):
    experiment = NETWORKS[name, norm]
    record = json.loads((RESULTS / name / "run.json").read_text())
    size = (record if norm is None else record[norm])["data"]
    rows = [row for row in table(name) if row.get("norm") == norm]
    curves = {
        each: load_result(
            experiment.methods[each], size, [row for row in rows if row["method"] == each]
        )
        for each in dict.fromkeys(row["method"] for row in rows)
    }
    prefix = "" if norm is None else f"{norm}: "
    stored = [claim for claim in record["claims"] if claim["text"].startswith(prefix)]
    claims = experiment.claims(curves)
    assert [{**claim._asdict(), "text": prefix + claim.text} for claim in claims] == stored
