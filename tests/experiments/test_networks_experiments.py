"""The runner of the experiments on networks: scores, claims, pages, and its smallest runs."""

import csv
import json

import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.cli import main
from vrsgmcmc.core import Sampler
from vrsgmcmc.experiments import EXPERIMENTS, Settings, n1_sensitivity, networks
from vrsgmcmc.experiments.checkpoints import Checkpoints
from vrsgmcmc.experiments.claims import OF_SAMPLES, anchor_claims, claim_smoother, method_claims
from vrsgmcmc.experiments.combined_page import join, wider_gap
from vrsgmcmc.experiments.curves import Curve, MethodResult, compare
from vrsgmcmc.experiments.experiment import Experiment, Size, Subject
from vrsgmcmc.experiments.images import flat, pictures
from vrsgmcmc.experiments.methods import ANCHORED, DEEP, EQUAL, METHODS, PAPER, SGLD, SVRG
from vrsgmcmc.experiments.mlp_mnist import other_images
from vrsgmcmc.experiments.network_checks import entropy
from vrsgmcmc.experiments.resnet20_cifar10 import IN_GROUPS, schedule
from vrsgmcmc.experiments.scores import EvaluationSet
from vrsgmcmc.experiments.segments import Task, Trace, apply_schedule
from vrsgmcmc.models import softmax

RNG = np.random.default_rng(0)


# scores


def test_scores_of_classes():
    rows = EvaluationSet(lambda *_: None, None, np.array([0, 1]))
    predicted = np.array([[[0.5, 0.5], [0.9, 0.1]], [[1.0, 0.0], [0.0, 1.0]]])  # two chains
    scores = rows.scores(predicted)
    np.testing.assert_allclose(scores["nll"], [-(np.log(0.5) + np.log(0.1)) / 2, 0])
    np.testing.assert_allclose(scores["error"], [0.5, 0])
    assert rows.measures == ("nll", "error")


def test_scores_of_observed_outcomes():
    rows = EvaluationSet(lambda *_: None, None)
    scores = rows.scores(np.array([[0.25, 0.25], [0.5, 0.125], [0.0, 1.0]]))
    np.testing.assert_allclose(scores["perplexity"][:2], [4, 4])
    assert np.isfinite(scores["nll"]).all()  # impossible words have a price, not an infinite one
    assert rows.measures == ("nll", "perplexity")


def test_entropy_of_uniform_and_certain_predictions():
    assert entropy(np.full((3, 10), 0.2)) == pytest.approx(np.log(10))  # sums to 2: brought to 1
    assert entropy(np.eye(4)) == pytest.approx(0, abs=1e-12)


# claims


def result(sampler, losses, *, seconds=1.0, sample=None, size=1000):
    """Curves of two seeds over 10, 20, 40 and 80 steps of a method."""
    losses = np.asarray(losses, float)[:, None] + np.array([0, 1e-4])
    trace = Trace(
        ends=np.array([10, 20, 40, 80]),
        seconds=2 * seconds * np.arange(1, 5),
        averages={},
        diverged=np.zeros(2, bool),
    )
    of_sample = losses if sample is None else np.asarray(sample, float)[:, None] + np.zeros(2)
    scores = {
        "test": {"nll": losses, "error": losses / 10},
        "train": {"nll": losses, "error": losses / 10},
        "test_sample": {"nll": of_sample, "error": of_sample},
    }
    return MethodResult(sampler, size, 0.1, {}, trace, scores, {})


BETTER, WORSE = (0.5, 0.4, 0.3, 0.2), (0.9, 0.8, 0.7, 0.6)
SAME_COST = Sampler(vr.minibatch(), vr.sgld())


def answered(claims):
    return [claim.answer for claim in claims]


def test_claims_hold_for_a_method_that_is_better_everywhere():
    curves = {SGLD: result(SAME_COST, WORSE, sample=(1, 0, 1, 0)), PAPER: result(SAME_COST, BETTER)}
    faster, smoother, in_time = method_claims(curves)
    assert answered([faster, in_time]) == ["yes", "yes"]
    assert smoother.answer == "not tested"  # too few points in the second half
    assert "100% of the curve" in faster.evidence
    assert "test nll 0.2001" in faster.evidence


def test_claims_are_read_of_the_average_and_of_the_samples():
    curves = {
        SGLD: result(SAME_COST, BETTER, sample=WORSE),
        PAPER: result(SAME_COST, WORSE, sample=BETTER),
    }
    faster, _, in_time = method_claims(curves)
    assert answered([faster, in_time]) == ["no", "no"]
    for claim in (faster, in_time):
        average, samples = claim.evidence.split("\n\n")
        assert average.startswith(
            "Of the average prediction: vrSG-MCMC has the lower test NLL on 0%"
        )
        assert samples.startswith(f"{OF_SAMPLES}yes. vrSG-MCMC has the lower test NLL on 100%")


def test_claims_fail_for_a_method_that_is_worse_everywhere():
    curves = {SGLD: result(SAME_COST, BETTER), PAPER: result(SAME_COST, WORSE)}
    assert answered(method_claims(curves)) == ["no", "not tested", "no"]


def test_a_method_that_is_better_first_and_worse_in_the_end_is_so_in_part():
    curves = {SGLD: result(SAME_COST, (0.9, 0.8, 0.7, 0.1)), PAPER: result(SAME_COST, BETTER)}
    faster, _, in_time = method_claims(curves)
    assert (faster.answer, in_time.answer) == ("in part", "in part")


def test_curves_are_compared_where_both_have_come_to():
    """By the paper's count the pair has made two thirds of the passes when both stop."""
    losses = np.array([0.8, 0.6, 0.4, 0.2])
    pair = result(METHODS[PAPER], losses)
    plain = result(METHODS[EQUAL], losses + 0.1)

    def ends(axis):
        return compare(pair.curve(axis), plain.curve(axis)).ends

    assert ends(MethodResult.passes) == pytest.approx((0.2, 0.3), abs=1e-3)
    later = 0.3 - 0.2 * np.log(2 / 3) / np.log(2)
    assert ends(MethodResult.paper_passes) == pytest.approx((0.2, later), abs=1e-3)


def test_curves_that_are_non_finite_or_do_not_overlap_are_not_compared():
    gone = result(SAME_COST, (0.5, 0.4, np.nan, np.nan))
    claims = method_claims({SGLD: result(SAME_COST, BETTER), PAPER: gone})
    assert answered(claims) == ["not tested"] * 3
    assert "on an unknown part of the curve by data passes" in claims[0].evidence
    early, late = Curve(np.array([1, 2]), np.ones((2, 1))), Curve(np.array([3, 4]), np.ones((2, 1)))
    assert compare(early, late).lower is None
    assert compare(early, late).mostly_lower is None
    sizes = {f"{ANCHORED}200": result(SAME_COST, BETTER), f"{ANCHORED}300": gone}
    claims = anchor_claims({SGLD: gone} | sizes)
    assert answered(claims) == ["not tested"] * 2
    assert "differ by up to an unknown part by data passes" in claims[1].evidence
    curves = {"mlp-cifar10": of_losses(1, 0.9), "cnn4-cifar10": of_losses(1, np.nan)}
    (claim,) = wider_gap(curves)
    assert claim.answer == "not tested"
    assert "cnn4-cifar10 unknown" in claim.evidence


def test_smoother_means_by_more_than_chance():
    def rough(jumps):
        steps = np.linspace(10, 300, 30)
        losses = np.exp(-steps / 100)[:, None] + np.array([0, 0.01])
        noise = np.random.default_rng(0).normal(size=losses.shape)
        trace = Trace(steps.astype(int), steps, {}, np.zeros(2, bool))
        sample = losses + jumps * noise
        scores = {name: {"nll": losses, "error": losses} for name in ("test", "train")}
        return MethodResult(
            SAME_COST, 1000, 0.1, {}, trace, {**scores, "test_sample": {"nll": sample}}, {}
        )

    def answer(ours, theirs):
        return claim_smoother({SGLD: rough(theirs), PAPER: rough(ours)}).answer

    assert answer(0.01, 0.1) == "yes"
    assert answer(0.099, 0.1) == "in part"
    assert answer(0.1, 0.01) == "no"


def test_time_is_a_cost_of_its_own():
    """Who is a little ahead by passes and much slower is behind in time, and the other way round."""
    lower, higher = BETTER, np.add(BETTER, 0.01)
    slow = {SGLD: result(SAME_COST, higher), PAPER: result(SAME_COST, lower, seconds=3.9)}
    assert answered(method_claims(slow)) == ["yes", "not tested", "no"]
    fast = {SGLD: result(SAME_COST, lower, seconds=3.9), PAPER: result(SAME_COST, higher)}
    assert answered(method_claims(fast)) == ["no", "not tested", "yes"]


def test_the_paper_counts_a_pair_of_gradients_once():
    """At the paper's cost the curve of a pair is ahead, at the honest one behind."""
    losses = 0.9 - np.log2([10, 20, 40, 80]) / 10
    curves = {SGLD: result(SAME_COST, losses), PAPER: result(METHODS[PAPER], losses - 0.12)}
    evidence = method_claims(curves)[0].evidence
    assert " on 0% of the curve by data passes" in evidence
    assert " on 100% of the curve by the paper's count" in evidence
    np.testing.assert_allclose(curves[PAPER].passes(), [0.3, 0.6, 1.2, 2.4])
    np.testing.assert_allclose(curves[PAPER].paper_passes(), [0.2, 0.4, 0.8, 1.6])


def test_svrg_that_starts_late_and_ends_low():
    late = result(SAME_COST, (0.9, 0.8, 0.7, 0.1))
    curves = {SGLD: result(SAME_COST, WORSE), PAPER: result(SAME_COST, BETTER), SVRG: late}
    assert method_claims(curves)[1].answer == "yes"
    curves[SVRG] = result(SAME_COST, WORSE)
    assert method_claims(curves)[1].answer == "in part"


def test_a_claim_needs_its_methods():
    assert method_claims({SGLD: result(SAME_COST, BETTER)}) == []
    assert anchor_claims({SGLD: result(SAME_COST, BETTER)}) == []


def test_claims_about_the_size_of_the_anchor():
    curves = {SGLD: result(SAME_COST, WORSE), PAPER: result(SAME_COST, WORSE)}
    assert answered(anchor_claims(curves | {f"{ANCHORED}50": curves[PAPER]})) == ["no"]
    curves |= {f"{ANCHORED}{n}": result(SAME_COST, BETTER) for n in (100, 200, 300)}
    assert answered(anchor_claims(curves)) == ["yes", "yes"]
    curves[f"{ANCHORED}300"] = result(SAME_COST, (0.95, 0.9, 0.8, 0.7))
    assert answered(anchor_claims(curves)) == ["in part", "no"]
    assert "for 2 of 3 n1 by data passes" in anchor_claims(curves)[0].evidence


def of_losses(theirs, ours, **columns):
    """Rows as of curves.csv, two seeds each; the second half is as low as it will get."""
    return [
        {
            **columns,
            "method": name,
            "data_passes": str(passes),
            "paper_passes": str(passes / (1 if name == SGLD else 1.5)),
            "test_nll": str(loss * max(1.0, 3 / passes) + seed),
        }
        for name, loss in ((SGLD, theirs), (PAPER, ours))
        for passes in (1.0, 2.0, 3.0, 6.0)
        for seed in (-0.1, 0.1)
    ]


def test_the_gap_between_architectures():
    grows = {"mlp-cifar10": of_losses(1, 1.1), "cnn4-cifar10": of_losses(1, 0.9)}
    (claim,) = wider_gap(grows)
    assert claim.answer == "yes"
    assert "after 6 passes: mlp-cifar10 -10.0%, cnn4-cifar10 +10.0%" in claim.evidence
    assert "after 4 passes as the paper counts: mlp-cifar10 -10.0%" in claim.evidence
    two = [*of_losses(1, 1.3, norm="group-norm"), *of_losses(1, 0.1, norm="batch-norm")]
    (claim,) = wider_gap({**grows, "resnet20-cifar10": two})
    assert claim.answer == "in part"
    assert "resnet20-cifar10, group-norm -30.0%, resnet20-cifar10, batch-norm +90" in claim.evidence
    shrinks = {"mlp-cifar10": of_losses(1, 1.3), "cnn4-cifar10": of_losses(1, 1.1)}
    assert wider_gap(shrinks)[0].answer == "no"  # a smaller loss is no gain
    assert wider_gap({"mlp-cifar10": of_losses(1, 2)}) == []


# declarations


def test_every_network_has_methods_of_equal_cost_and_the_papers_step():
    from vrsgmcmc.experiments import cnn4_cifar10, mlp_cifar10, mlp_mnist, resnet20_cifar10

    per_step = {name: METHODS[name].evaluations(50_000, 1000) / 1000 for name in METHODS}
    assert per_step["SGLD, n = 10"] == 10
    assert per_step["SGLD, n = 30"] == per_step[PAPER] == 30
    assert set(IN_GROUPS) == set(DEEP) == set(cnn4_cifar10.EXPERIMENT.methods)
    for name, method in IN_GROUPS.items():  # a group is ten images
        assert 10 * method.evaluations(5000, 1000) == METHODS[name].evaluations(50_000, 1000)
    assert 0.25 in mlp_mnist.EXPERIMENT.step_sizes
    assert 0.01 in mlp_cifar10.EXPERIMENT.step_sizes
    assert 1.0 in resnet20_cifar10.GROUP_NORM.step_sizes
    assert schedule(0) == 0.1
    assert schedule(50_000) == 0.01
    assert n1_sensitivity.EXPERIMENT.step_sizes == (0.01,)
    costs = [m.evaluations(50_000, 1000) / 1000 for m in n1_sensitivity.EXPERIMENT.methods.values()]
    assert costs == [10, 30, 220, 30, 40, 50, 60, 70, 80, 90, 120, 220]


def test_a_schedule_has_one_scale():
    task = Task(softmax.posterior(2), None, None, {}, schedule=schedule)
    assert apply_schedule(task, [2.0, 2.0])(0) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="one scale"):
        apply_schedule(task, [1.0, 2.0])


def test_pixels_in_a_row():
    x = RNG.integers(0, 256, (2, 3, 3, 1)).astype(np.uint8)
    pixels = flat(x)
    assert pixels.dtype == np.float32
    np.testing.assert_allclose(pixels[1].reshape(3, 3) * 255, x[1, :, :, 0], rtol=1e-6)


def test_real_images_are_split(data_dir):
    settings = Settings(data_dir=data_dir)
    digits = pictures("mnist", settings)
    assert [len(part.x) for part in digits] == [55_000, 5_000, 10_000]
    assert digits.train.x.shape[1:] == (28, 28, 1)
    photographs = pictures("cifar10", settings)
    assert [len(part.y) for part in photographs] == [45_000, 5_000, 10_000]
    others = other_images(digits, settings)
    assert others.shape[1:] == (28, 28, 1)
    red, green, blue = photographs.test.x[0, 5, 7].astype(float)
    assert others[0, 3, 5, 0] == round((red + green + blue) / 3)


# runs


def tiny(settings):
    x = np.random.default_rng(0).normal(size=(120, 2))
    y = (x[:, 0] > 0).astype(np.int32)
    rows = {
        name: EvaluationSet(softmax.predict, x[part], y[part])
        for name, part in (("validation", slice(20)), ("test", slice(20, 60)), ("train", slice(60)))
    }
    rows["elsewhere"] = EvaluationSet(softmax.predict, 100 * x[:10])
    return Subject(Task(softmax.posterior(2), (x, y), softmax.initial(2, 2)), rows)


TINY = Experiment(
    "Two classes",
    tiny,
    {"small": Size(passes=30, tuning=5, seeds=2, points=4, every=1)},
    step_sizes=(0.01, 0.3),
    methods={SGLD: METHODS[SGLD], PAPER: Sampler(vr.practical(20, 10), vr.sgld())},
)


@pytest.mark.slow
def test_a_small_run_from_the_grid_to_the_page(tmp_path):
    outcome = networks.run(TINY, Settings(), Checkpoints(tmp_path))
    rows = outcome.tables["curves"]
    assert {row["method"] for row in rows} == {SGLD, PAPER}
    assert {row["seed"] for row in rows} == {0, 1}
    last = rows[-1]
    assert 29 < last["data_passes"] <= 30
    assert last["paper_passes"] == pytest.approx(last["data_passes"] * 12 / 22, rel=0.02)
    assert last["test_error"] < 0.2
    assert last["test_nll"] < np.log(2)
    tuning = outcome.record["tuning"][SGLD]
    assert outcome.record["chosen"][SGLD] == min(
        tuning, key=lambda h: tuning[h]["validation_nll"][-1]
    )
    assert outcome.record["chosen_at_the_end_of_the_grid"] == [SGLD, PAPER]  # it has but two
    assert 0 < outcome.record["calibration"][PAPER]["ECE"] < 0.3
    assert "practical" in outcome.record["audit"]
    titles = [section.title for section in outcome.report.sections]
    assert "Every step size" in titles
    (calibration,) = [s for s in outcome.report.sections if s.title == "Calibration"]
    assert calibration.table.header[-1] == "entropy, elsewhere"
    assert len(outcome.report.claims) == 3

    again = networks.run(TINY, Settings(), Checkpoints(tmp_path))  # from checkpoints
    assert again.tables == outcome.tables

    pair = join("Both", "norm", {"a": outcome, "b": again})
    assert [row["norm"] for row in pair.tables["curves"]] == ["a"] * len(rows) + ["b"] * len(rows)
    assert pair.report.sections[0].heading.startswith("a: ")
    nested = join("All", "of", {"c": pair}).report
    assert nested.sections[-1].topic == "c, b"
    assert [lead[:6] for lead in nested.lead.split("\n\n")] == ["c: a: ", "c: b: "]
    assert pair.report.claims[-1].text.startswith("b: ")


@pytest.mark.parametrize(
    "passes", [20, *(pytest.param(each, marks=pytest.mark.slow) for each in (1.3, 3, 9))]
)
def test_no_method_gets_more_passes_than_it_should(passes):
    methods = {name: METHODS[name] for name in (SGLD, SVRG)}
    settings = Settings(passes=passes, seeds=1)
    outcome = networks.run(
        TINY._replace(methods=methods, step_sizes=(0.01,)), settings, Checkpoints(None)
    )
    ends = {row["method"]: row["data_passes"] for row in outcome.tables["curves"]}
    assert passes - 1 < ends[SVRG] <= passes
    assert passes - 0.1 - passes / 9 < ends[SGLD] <= passes


def test_passes_that_do_not_pay_for_a_step_are_refused():
    experiment = TINY._replace(methods={name: METHODS[name] for name in (SGLD, SVRG)})
    with pytest.raises(
        ValueError, match=r"--passes 0.5: the fewest .*, 1, cost .*: SVRG-LD: 1.17\. Give more"
    ):
        networks.run(experiment, Settings(passes=0.5), Checkpoints(None))


@pytest.mark.slow
def test_a_non_finite_chain_is_reported_and_does_not_stop_the_page(monkeypatch):
    """One seed of vrSG-MCMC is lost, and the smaller step size of SGLD, after its first segment."""
    run_segments = networks.run_segments

    def losing(key, task, sampler, steps, ends, *others):
        trace = run_segments(key, task, sampler, steps, ends, *others)
        lost = np.zeros(len(steps), bool)
        lost[0] = "test" in trace.averages if sampler.batch_size == 9 else steps[0] < steps[-1]
        averages = {name: values.copy() for name, values in trace.averages.items()}
        for values in averages.values():
            values[0, lost] = np.nan
        return trace._replace(averages=averages, diverged=lost)

    monkeypatch.setattr(networks, "run_segments", losing)
    methods = {SGLD: METHODS[SGLD], PAPER: Sampler(vr.practical(20, 10), vr.sgld(), batch_size=9)}
    outcome = networks.run(TINY._replace(methods=methods), Settings(), Checkpoints(None))
    assert outcome.record["diverged"] == {SGLD: 0, PAPER: 1}
    assert outcome.record["chosen"] == {SGLD: 0.3, PAPER: 0.3}
    assert np.isnan(outcome.record["tuning"][SGLD][0.01]["validation_nll"]).all()
    assert outcome.record["calibration"][PAPER]["ECE"] > 0
    assert outcome.record["audit"] is not None


def test_a_smallest_run(tmp_path, capsys):
    check_smoke(("mlp-mnist",), tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("lstm-ptb", "--methods", "n1"), *((name,) for name in EXPERIMENTS)]
)
def test_the_smallest_run_of_every_experiment(words, tmp_path, capsys):
    """`.ci/run` does the same for all of them, with one page."""
    check_smoke(words, tmp_path, capsys)


def check_smoke(words, tmp_path, capsys):
    assert main(["reproduce", *words, "--size", "smoke", "--out", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "run.json").read_text(), parse_constant=pytest.fail)
    assert record["experiment"] == words[0]
    with (tmp_path / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    scores = [float(row.get("test_nll") or row["mse"]) for row in rows]
    assert scores
    assert np.isfinite(scores).all()
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert not (tmp_path / "unfinished").exists()
    assert "The report is" in capsys.readouterr().out
