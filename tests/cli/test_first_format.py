"""A job of the format "vrsgmcmc job 1", as version 0.1.0 wrote it, opens, verifies and goes on."""

import json
import shutil
from pathlib import Path

import jax
import pytest
from support.command_line import rewrite, run_command

JOB = Path(__file__).parent / "fixtures" / "job-1"  # 2000 steps of a logistic regression


@pytest.fixture
def copy(tmp_path):
    """A copy of the directory, in float32 as it was made."""
    with jax.enable_x64(False):
        yield Path(shutil.copytree(JOB, tmp_path / "job"))


def test_it_verifies_and_is_summarised(copy, capsys):
    assert run_command(["verify", copy], capsys)[0] == 0
    code, out, err = run_command(["summary", copy], capsys)
    assert (code, err) == (0, "")
    assert "practical + sgld: finished; 2,000 steps" in out
    for text in (
        "intercept   -0.1751   0.516  106  0.988",
        "accuracy: 0.9167",
        "Not good: R-hat is",
    ):
        assert text in out


def test_it_is_resumed_and_reported_with_the_same_numbers(copy, without_figures, capsys):
    scores = json.loads((JOB / "findings.json").read_text())
    code, out, _ = run_command(["resume", copy], capsys)
    assert code == 4
    assert "test log likelihood: -0.2858" in out
    again = json.loads((copy / "findings.json").read_text())
    assert {name: again[name] for name in scores} == pytest.approx(scores)
    assert run_command(["report", copy], capsys)[0] == 0
    page = (copy / "report.html").read_text()
    assert "Prior: N(0, 1) on every parameter." in page


def test_newer_commands_say_that_it_is_old(copy, capsys):
    table = copy.parent / "table.csv"
    table.write_text("age,dose,outcome\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(40)))
    code, _, err = run_command(["sample", table, "--target", "outcome", "--out", copy], capsys)
    assert code == 2
    assert "holds a run of an earlier version. Go on with it: vrsgmcmc resume" in err
    code, _, err = run_command(["predict", copy, table, "--out", copy.parent / "p.csv"], capsys)
    assert code == 2
    assert "is a run of an earlier version, which does not say what was done to its table." in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record["config"].update(surprise=1), "unknown key 'surprise'"),
        (lambda record: record["config"].update(model="ordinal"), "has no model 'ordinal'"),
        (lambda record: record["config"].update(model=None), "is not the record of a job"),
        (lambda record: record["config"].update(model="m.py:f"), "must be one of"),
        (lambda record: record["config"].update(prior_variance=-1.0), "prior_variance: must be gr"),
        (lambda record: record.update(format="vrsgmcmc job 2"), "is not the record of a job"),
    ],
)
def test_what_is_no_such_record_is_refused(change, message, copy, capsys):
    rewrite(copy, change)
    code, _, err = run_command(["resume", copy], capsys)
    assert code == 2
    assert message in err


@pytest.mark.slow
def test_it_samples_again_without_its_chains(copy, without_figures, capsys):
    shutil.rmtree(copy / "chains")
    assert run_command(["resume", copy], capsys)[0] in (0, 4)
    assert run_command(["verify", copy], capsys)[0] == 0
