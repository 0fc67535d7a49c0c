"""The results: claims, and numbers in the documents, follow from the curves by the present rules."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from vrsgmcmc import theory
from vrsgmcmc.experiments import (
    cnn4_cifar10,
    gaussian,
    lstm_ptb,
    lstm_wikitext2,
    mlp_cifar10,
    mlp_mnist,
    n1_sensitivity,
    resnet20_cifar10,
)
from vrsgmcmc.experiments.claims import OF_SAMPLES
from vrsgmcmc.experiments.curves import Curve, MethodResult, standard_error
from vrsgmcmc.experiments.methods import ANCHORED, EQUAL, PAPER, SGLD, SHUFFLED, SVRG
from vrsgmcmc.experiments.segments import Trace

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
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
        if where in ("test", "train", "test_sample", "train_sample"):
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


def load_results(name, norm=None):
    """Method -> its result."""
    record = json.loads((RESULTS / name / "run.json").read_text())
    size = (record if norm is None else record[norm])["data"]
    rows = [row for row in table(name) if row.get("norm") == norm]
    methods = NETWORKS[name, norm].methods
    return {
        each: load_result(methods[each], size, [row for row in rows if row["method"] == each])
        for each in dict.fromkeys(row["method"] for row in rows)
    }


@pytest.mark.parametrize(("name", "norm"), NETWORKS, ids=lambda part: part or "")
def test_claims_follow_from_the_curves(name, norm):
    record = json.loads((RESULTS / name / "run.json").read_text())
    prefix = "" if norm is None else f"{norm}: "
    stored = [claim for claim in record["claims"] if claim["text"].startswith(prefix)]
    claims = NETWORKS[name, norm].claims(load_results(name, norm))
    assert [{**claim._asdict(), "text": prefix + claim.text} for claim in claims] == stored
    page = (RESULTS / name / "report.html").read_text()
    assert page.count(OF_SAMPLES) == sum(OF_SAMPLES in c["evidence"] for c in record["claims"]) > 0


# ------------------------------------------------ what the documents say about the other reading


def written(document):
    """The text of a document, on one line."""
    return " ".join((ROOT / document).read_text().split())


PAGE, README = written("docs/experiments.md"), written("README.md")
LOSS = ("test_sample", "nll")


def final(result, rows, measure):
    values = result.scores[rows][measure][-1]
    return values.mean(), standard_error(values)


def last_crossing(ours, theirs, rows, fraction=1.0):
    """The pass from which on our curve lies below; each value a mean over this fraction before it."""
    passes = np.linspace(1.5, 99, 2000)

    def smooth(result):
        values = Curve(result.passes(), result.scores[rows]["nll"]).at(passes).mean(1)
        starts = np.searchsorted(passes, fraction * passes)
        return np.array([values[min(a, i) : i + 1].mean() for i, a in enumerate(starts)])

    behind = np.flatnonzero(smooth(ours) >= smooth(theirs))
    return passes[behind[-1]] if behind.size else 0.0


def test_samples_of_the_small_network_on_cifar10_say_otherwise():
    results = load_results("mlp-cifar10")
    for name in (SGLD, EQUAL, PAPER, SHUFFLED, SVRG):
        cells = [
            f"{final(results[name], rows, 'nll')[0]:.3f}" for rows in ("train", "train_sample")
        ]
        exact = [
            "{:.4f} ± {:.4f}".format(*final(results[name], r, "nll")) for r in ("test", LOSS[0])
        ]
        assert f"| {name} | {' | '.join(exact + cells)} |" in PAGE
    ends = {name: final(each, *LOSS) for name, each in results.items()}
    for name in (SGLD, EQUAL):  # more than two standard errors
        (ours, error), (theirs, other) = ends[PAPER], ends[name]
        assert ours + 2 * np.hypot(error, other) < theirs
        assert final(results[PAPER], "test", "nll")[0] > final(results[name], "test", "nll")[0]
        behind = [results[PAPER].scores[rows]["nll"].mean(1) for rows in ("train", "train_sample")]
        ahead = [results[name].scores[rows]["nll"].mean(1) for rows in ("train", "train_sample")]
        assert np.all(np.array(behind) > np.array(ahead))
    assert ends[SVRG][0] + 2 * np.hypot(ends[SVRG][1], ends[PAPER][1]) < ends[PAPER][0]
    short = {name: f"{ends[name][0]:.3f}" for name in (SGLD, EQUAL, PAPER, SVRG)}
    assert (
        f"vrSG-MCMC ended at {short[PAPER]}, SGLD at {short[EQUAL]} (n = 30) and {short[SGLD]} "
        f"(n = 10), SVRG-LD at {short[SVRG]}"
    ) in README
    crossings = [last_crossing(results[PAPER], results[SGLD], LOSS[0], f) for f in (1.0, 0.2)]
    assert "until about pass {:.0f}, or {:.0f} if".format(*crossings) in PAGE
    curve = results[SGLD].scores[LOSS[0]]["nll"].mean(1)
    lowest = results[SGLD].passes()[curve.argmin()]
    assert f"lowest near pass {int(lowest)}, at {curve.min():.3f}" in PAGE
    errors = {n: f"{final(results[n], LOSS[0], 'error')[0]:.1%}".replace("%", " %") for n in short}
    assert (
        f"are {errors[SGLD]} (n = 10), {errors[EQUAL]} (n = 30), {errors[PAPER]} (vrSG-MCMC) and "
        f"{errors[SVRG]} (SVRG-LD)"
    ) in PAGE


def test_samples_end_lower_for_every_size_of_the_anchor():
    results = load_results("n1-sensitivity")
    anchors = {name: each for name, each in results.items() if name.startswith(ANCHORED)}
    ends = [final(each, *LOSS)[0] for each in anchors.values()]
    plain = final(results[SGLD], *LOSS)[0]
    below = sum(end < plain for end in ends)
    assert (
        f"for {below} of {len(ends)} n1 ({min(ends):.4f} to {max(ends):.4f} against {plain:.4f}"
        in PAGE
    )
    crossings = [last_crossing(each, results[SGLD], LOSS[0]) for each in anchors.values()]
    assert f"between pass {int(min(crossings))} and pass {np.ceil(max(crossings)):.0f}." in PAGE
    (a, da), (b, db) = (final(results[name], *LOSS) for name in (EQUAL, PAPER))
    assert f"n1 = 100 at {a:.4f} and {b:.4f} (standard errors {da:.4f} and {db:.4f})" in PAGE
    equal = [final(results[name], *LOSS)[0] for name in ("SGLD, n = 220", f"{ANCHORED}2000")]
    assert "n1 = 2000 at {:.4f} and {:.4f}.".format(*equal) in PAGE


def test_the_other_networks_in_both_readings():
    ends = {
        key: {n: final(each, *LOSS)[0] for n, each in load_results(*key).items()}
        for key in NETWORKS
    }
    losses = {key: "{:.4f}, {:.4f}, {:.4f}".format(*(e[n] for n in (SGLD, EQUAL, PAPER)))
              for key, e in ends.items()}  # fmt: skip
    for key in [
        ("cnn4-cifar10", None),
        ("resnet20-cifar10", "batch-norm"),
        ("lstm-wikitext2", None),
    ]:
        assert max(ends[key][SGLD], ends[key][EQUAL]) < ends[key][PAPER] - 0.1
    group_norm = ("resnet20-cifar10", "group-norm")
    for key in [("mlp-mnist", None), ("lstm-ptb", None), group_norm]:
        assert abs(ends[key][SGLD] - ends[key][PAPER]) < 0.01
    first, second, third = losses[group_norm].split(", ")
    assert f"a loss of {first} (n = 10), {second} (n = 30) and {third} (vrSG-MCMC;" in PAGE
    first, second, third = losses["resnet20-cifar10", "batch-norm"].split(", ")
    assert f"batch-norm {first}, {second} and {third}." in PAGE
    short = [f"{ends[group_norm][name]:.3f}" for name in (PAPER, EQUAL, SGLD)]
    assert "one seed, {} against {} (n = 30) and {} (n = 10)".format(*short) in README
    for text in ("lstm-ptb", "lstm-wikitext2"):
        ours, plain, equal = (
            f"{final(load_results(text)[name], LOSS[0], 'perplexity')[0]:.1f}"
            for name in (PAPER, SGLD, EQUAL)
        )
        assert f"last sample is {ours} for vrSG-MCMC, {plain} (n = 10) and {equal} (n = 30)" in PAGE
    cnn = [
        f"{final(load_results('cnn4-cifar10')[name], LOSS[0], 'error')[0]:.1%}".replace("%", " %")
        for name in (SGLD, EQUAL, PAPER)
    ]
    assert "of the samples {}, {} and {}.".format(*cnn) in PAGE
    mnist = load_results("mlp-mnist")
    (equal, error), (ours, other) = (final(mnist[name], *LOSS) for name in (EQUAL, PAPER))
    assert (
        f"of the samples {equal:.4f} against {ours:.4f}, with standard errors of {error:.4f} and "
        f"{other:.4f}"
    ) in PAGE


def test_shorter_runs_are_named():
    phrases = {
        "cnn4-cifar10": "CNN-4 after {:g} of {:g} passes",
        "resnet20-cifar10": "ResNet-20 (both norms) after {:g} of {:g},",
        "lstm-ptb": "Penn Treebank after {:g} of {:g},",
        "lstm-wikitext2": "WikiText-2 after {:g} of {:g}.",
    }
    for name, norm in NETWORKS:
        record = json.loads((RESULTS / name / "run.json").read_text())
        ran = (record if norm is None else record[norm])["size"]["passes"]
        full = NETWORKS[name, norm].sizes["paper"].passes
        assert (ran < full) == (name in phrases)
        if name in phrases:
            assert phrases[name].format(ran, full) in PAGE


def test_the_gaussian_at_the_best_step_sizes_instead_of_those_of_the_grid():
    data = np.random.default_rng(0).normal(0.7, 1.0, gaussian.N).astype(np.float32)
    problem = theory.gaussian_mean(data)
    record = json.loads((RESULTS / "gaussian" / "run.json").read_text())
    grid, best = {}, {}
    for name, sampler in gaussian.METHODS.items():
        end = np.array(
            [sampler.affordable_steps(gaussian.N, record["size"]["passes"] * gaussian.N)]
        )

        def mse(log_step, sampler=sampler, end=end):
            return gaussian.exact_mse(problem, sampler, float(np.exp(log_step)), end)["exact_mse"][
                0
            ]

        tuning = np.array(record["tuning"][name])
        near = np.log(gaussian.STEP_SIZES[tuning.argmin()])
        bounds = (near - np.log(2.5), near + np.log(2.5))
        grid[name] = tuning.min()
        best[name] = minimize_scalar(
            mse, bounds=bounds, method="bounded", options={"xatol": 1e-3}
        ).fun
    one, ten, hundred = (best[f"SGLD, n = {n}"] for n in (1, 10, 100))
    ours, pairs = best["vrSG-MCMC, n2 = 1"], best["vrSG-MCMC, n2 = 10"]
    assert f"{1 - ours / one:.0%}".replace("%", " %") + " below that of the best SGLD" in PAGE
    assert f"({ours * 1e5:.3f}e-5 against {one * 1e5:.3f}e-5)" in PAGE
    assert f"cost more: {pairs * 1e5:.3f}e-5" in PAGE
    assert f"ten end {ten / one - 1:.1%}".replace("%", " %") + " above those of one" in PAGE
    assert f"a hundred {hundred / one - 1:.0%}".replace("%", " %") + " (on the grid" in PAGE
    plain = [grid[f"SGLD, n = {n}"] for n in (1, 10, 100)]
    assert (
        f"(on the grid {plain[1] / plain[0] - 1:.1%} and {plain[2] / plain[0] - 1:.0%})"
    ).replace("%", " %") in PAGE
