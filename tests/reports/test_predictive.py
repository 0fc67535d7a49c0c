"""Sections about predictions: scores as others define them, each beside a baseline."""

import numpy as np
import pytest
from sklearn import metrics

from vrsgmcmc.reports import (
    Predictions,
    PredictiveCheck,
    Probabilities,
    check_section,
    predictive_sections,
    reliability,
)

RNG = np.random.default_rng(0)
CLASSES = ("Adelie", "Chinstrap", "Gentoo")
TABLE, LABELS = RNG.dirichlet((1, 1, 1), 60), RNG.integers(0, 3, 60)
SCORES = "How well does it predict?"


def sections(predictive, **more):
    return {each.title: each for each in predictive_sections(predictive, **more)}


def test_scores_are_those_of_scikit_learn():
    bins = reliability(Probabilities(TABLE, LABELS))
    assert bins.brier == pytest.approx(metrics.brier_score_loss(LABELS, TABLE))
    assert bins.nll == pytest.approx(metrics.log_loss(LABELS, TABLE))
    binary, p = (LABELS > 0).astype(int), TABLE[:, 0]
    for probabilities in (p, np.stack([1 - p, p], 1)):
        bins = reliability(Probabilities(probabilities, binary))
        assert bins.brier == pytest.approx(metrics.brier_score_loss(binary, p))
        assert bins.nll == pytest.approx(metrics.log_loss(binary, p))


def test_the_majority_is_beside_the_accuracy():
    """99 of 100 rows are of one class, so an accuracy of 99 % says nothing."""
    labels = np.arange(100) == 0
    page = sections(Probabilities(np.full(100, 0.01), labels, ("no", "fraud"), (0.98, 0.02)))
    rows = {row[0]: row[1:] for row in page[SCORES].table.rows}
    assert rows["accuracy"] == (0.99, 0.99, "no better")
    assert rows["Brier score"][1] == pytest.approx((99 * 0.02**2 + 0.98**2) / 100)
    assert "its likeliest class is always no (98.0%)" in page[SCORES].text
    assert "scikit-learn's brier_score_loss" in page[SCORES].caption
    assert page["Are its probabilities right?"].figure.keywords["name"] == "fraud"
    assert "label 1" not in str(page)
    confusion = page["Which classes does it confuse?"].table
    assert confusion.cells() == [["no", "99", "0", "100%"], ["fraud", "1", "0", "0%"]]


def test_confusions_of_many_classes_are_the_most_frequent_pairs():
    labels = np.arange(60) % 20
    table = np.eye(20)[np.where(labels == 3, 7, labels)]
    page = sections(Probabilities(table, labels))
    assert page["Which classes does it confuse?"].table.rows == [("class 3", "class 7", 3)]


def test_a_page_has_one_rmse():
    """That of the mean without noise, where it is told; the noise of draws would blur it."""
    targets = RNG.normal(size=50)
    mean = targets + 0.3
    predictive = Predictions(mean + RNG.normal(size=(40, 50)), targets, mean, center=0.5)
    page = sections(predictive, scores={"r2": 0.9}, baseline={"r2": 0.0})
    rows = {row[0]: row[1:] for row in page[SCORES].table.rows}
    expected = 0.3, np.sqrt(np.mean((targets - 0.5) ** 2))
    assert rows["RMSE"][:2] == pytest.approx(expected)
    assert rows["RMSE"][2] == "better"
    assert rows["r2"] == (0.9, 0.0, "better")
    assert "the mean of the training rows, 0.5" in page[SCORES].text
    others = "".join(str(each.text) for title, each in page.items() if title != SCORES)
    assert "rmse" not in others.lower()


def test_scores_alone_and_nothing():
    page = sections(
        None, scores={"test_log_likelihood": -3.0}, baseline={"test_log_likelihood": -2.0}
    )
    assert page[SCORES].table.rows == [("test log likelihood", -3.0, -2.0, "no better")]
    assert sections(None) == {}


@pytest.mark.parametrize(
    ("observed", "simulated", "labels", "verdict", "statistics"),
    [
        (RNG.normal(size=200), RNG.normal(size=(100, 200)), (), "In these", {"mean", "least"}),
        (RNG.normal(3, size=200), RNG.normal(size=(100, 200)), (), "No. Unusual for this model: mean",
         {"standard deviation"}),
        (RNG.poisson(2, 200), RNG.poisson(2, (100, 200)), (), "In these", {"share of zeros"}),
        (RNG.poisson(2, 200) * (RNG.random(200) < 0.5), RNG.poisson(1, (100, 200)), (),
         "No.", {"share of zeros"}),
        (LABELS, RNG.integers(0, 3, (100, 60)), CLASSES, "In these", {"share of Gentoo"}),
        (LABELS, np.zeros((100, 60)), CLASSES, "No. Unusual for this model: share of Adelie",
         {"share of Adelie"}),
    ],
    ids=["numbers", "other numbers", "counts", "too many zeros", "classes", "one class"],
)  # fmt: skip
def test_simulated_data_are_compared_with_the_data(
    observed, simulated, labels, verdict, statistics
):
    section = check_section(PredictiveCheck(observed, simulated, labels))
    assert section.text.startswith(verdict)
    assert statistics <= {row[0] for row in section.table.rows}
    axes = section.figure(width=3.8).axes[0]
    heights = [bar.get_height() for bar in axes.patches]
    assert sum(heights) == pytest.approx(1, abs=0.011)  # a long tail is cut
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert names == list(labels) or not labels


def test_a_check_with_other_rows_is_refused():
    with pytest.raises(ValueError, match=r"shapes \(3,\) and \(5, 4\)"):
        check_section(PredictiveCheck(np.ones(3), np.ones((5, 4))))
