"""The section that says how right a result is."""

from dataclasses import replace

import numpy as np

from vrsgmcmc.advice import Accuracy
from vrsgmcmc.reports import accuracy_sections, describe_accuracy, name_parameters

RECORD = Accuracy(
    mean=np.linspace(0.01, 0.2, 12),
    sd=np.full(12, 0.03),
    names=tuple(f"w{j}" for j in range(12)),
    subject="parameter",
    ess=1234.0,
    r_hat=1.02,
    bias=0.01,
    virial=1.0,
    virial_error=0.1,
    laplace_mean=np.linspace(0.0, 0.3, 12),
    laplace_sd=np.full(12, 1.1),
    evaluations=10,
    notes=("Something was left out.",),
)


def test_the_worst_parameters_are_shown_with_laplace_beside_them():
    (section,) = accuracy_sections(RECORD)
    assert section.title == "How right is it?"
    assert section.text.startswith("Not good: the mean of w11 may be off by 0.2 sd")
    for text in ("The least ESS, of means and sds, is 1,234, the largest R-hat 1.020. Something was",
                 "The worst 10 of 12."):  # fmt: skip
        assert text in section.text
    assert section.table.cells()[0] == ["w11", "0.200", "3.0%", "+0.300", "1.100"]
    assert len(section.table.rows) == 10
    ((title, table),) = section.more
    assert title == "All 12 parameters"
    assert {row[0] for row in table.rows} == set(RECORD.names)


def test_the_names_of_a_report_replace_those_of_leaves():
    draws = {"a": np.zeros((1, 5, 10)), "b": np.zeros((1, 5, 2))}
    named = name_parameters(RECORD, draws, {"b": ("slope", "bend")})
    assert named.names == (*RECORD.names[:10], "slope", "bend")
    assert "the mean of bend may be off" in named.verdict
    assert name_parameters(RECORD, draws, None) is RECORD
    prediction = replace(RECORD, subject="prediction")
    assert name_parameters(prediction, draws, {"b": ("slope", "bend")}) is prediction


def test_the_first_sentences_say_whether_to_rely_on_it():
    assert describe_accuracy(RECORD).startswith(
        "Do not rely on these numbers yet. Not good: the mean"
    )
    good = replace(RECORD, mean=np.full(12, 0.02))
    assert describe_accuracy(good).startswith(
        "The computation is right to within 0.02 posterior sta"
    )
    assert "not measured" in describe_accuracy(replace(good, bias=np.nan))
    assert "not measured" not in describe_accuracy(good)


def test_predictions_have_no_laplace_and_nothing_gives_no_section():
    record = replace(RECORD, subject="prediction", laplace_mean=None, laplace_sd=None)
    (section,) = accuracy_sections(record)
    assert tuple(section.table.header) == ("prediction", "mean off by", "sd off by")
    assert list(accuracy_sections(None)) == []
