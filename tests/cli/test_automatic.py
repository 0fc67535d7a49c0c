"""`sample` without a step size: the library chooses, and the directory keeps what it chose."""

import json
import shutil
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import rewrite, run_command, table_text

from vrsgmcmc import advice, cli, core
from vrsgmcmc.cli import jobs
from vrsgmcmc.cli.configuration import validate
from vrsgmcmc.run import store

MODULE = import_module("vrsgmcmc.advice.sample")
WORDS = ["--target", "=outcome", "--model", "logistic", "--ess", "500", "--num-chains", "2"]


@pytest.fixture(scope="module")
def automatic(tmp_path_factory):
    """A finished run, which nobody changes."""
    folder = tmp_path_factory.mktemp("automatic")
    (folder / "table.csv").write_text(table_text("yes"))
    words = ["sample", folder / "table.csv", *WORDS, "--out", folder / "run"]
    code = cli.main([*map(str, words)])
    return SimpleNamespace(folder=folder, run=folder / "run", words=words, code=code)


@pytest.fixture
def copy(automatic, tmp_path):
    shutil.copytree(automatic.run, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def without_pilot(monkeypatch):
    monkeypatch.setattr(MODULE, "decide", lambda *_: pytest.fail("decided again"))


def test_the_decision_and_the_accuracy_are_in_the_directory(automatic):
    settings = json.loads((automatic.run / "job.json").read_text())["settings"]
    assert settings == {"ess": 500.0, "num_chains": 2, "chain_method": "vmap"}
    names = {file.name for file in (automatic.run / "chains").iterdir()}
    assert {"decision.json", "decision.safetensors", "accuracy.json"} < names
    accuracy = advice.load_accuracy(automatic.run / "chains")
    assert automatic.code == (0 if accuracy.good else 4)
    page = (automatic.run / "report.html").read_text()
    assert "How right is it?" in page
    assert "in the metric of the Hessian" in page or "Chosen by a search" in page


def test_a_finished_run_is_read_and_says_the_same(
    automatic, copy, without_pilot, without_figures, capsys, monkeypatch
):
    monkeypatch.setattr("vrsgmcmc.run.loop.Loop.run", lambda self: pytest.fail("ran again"))
    code, out, _ = run_command(["resume", copy], capsys)
    accuracy = advice.load_accuracy(copy / "chains")
    assert code == automatic.code
    assert f"least ESS {accuracy.ess:,.0f}, largest R-hat {accuracy.r_hat:.3f}" in out
    assert out.startswith("What goes with =outcome = yes?")
    assert out.index("least ESS") < out.index("accuracy: ") < out.index("step size")
    assert run_command(["report", copy], capsys)[0] == 0
    code, out, _ = run_command(["summary", copy], capsys)
    assert code == 0
    assert "least ESS" in out
    assert run_command(["verify", copy], capsys)[0] == 0


def test_resume_repeats_no_pilot_and_no_bit_differs(automatic, tmp_path, capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    words = [*automatic.words[:-1], tmp_path / "run"]
    with monkeypatch.context() as patch:
        patch.setattr("vrsgmcmc.run.run_chains", interrupt)
        code, _, err = run_command(words, capsys)
    assert code == 130
    assert "vrsgmcmc resume" in err
    monkeypatch.setattr(MODULE, "decide", lambda *_: pytest.fail("decided again"))
    monkeypatch.setattr("vrsgmcmc.reports.writer.render", lambda *_: {"png": b"", "svg": b"<svg/>"})
    assert run_command(["resume", tmp_path / "run"], capsys)[0] == automatic.code
    here, there = (path / "chains" / "draws.sha256" for path in (tmp_path / "run", automatic.run))
    assert here.read_bytes() == there.read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ess": 501.0}, "ess: 500.0 in the run, 501.0 here"),
        ({"budget": "9000 passes"}, "evaluations"),
        ({"num_steps": 300}, "num_steps"),
        ({"step_size": 0.1, "burn_in": 1}, "chosen by the library: True in the run, False here"),
    ],
)
def test_chains_of_another_request_are_told_apart(change, message, copy, capsys):
    rewrite(copy, lambda record: record["settings"].update(change))
    code, _, err = run_command(["summary", copy], capsys)
    assert code == 2
    assert message in err
    assert run_command(["verify", copy], capsys)[0] == 1


@pytest.mark.parametrize("name", ["accuracy.json", "decision.json", "decision.safetensors"])
def test_verify_covers_decision_and_accuracy(name, copy, capsys):
    file = copy / "chains" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    code, out, _ = run_command(["verify", copy], capsys)
    assert code == 1
    assert name in out
    if name == "accuracy.json":
        assert "least ESS" not in run_command(["summary", copy], capsys)[1]


def test_the_accuracy_of_another_run_is_not_shown(copy, capsys):
    file = copy / "chains" / "accuracy.json"
    value = store.unseal(file.read_bytes())
    file.write_bytes(store.seal({**value, "commit": "0" * 64}))
    _, out, err = run_command(["summary", copy], capsys)
    assert "least ESS" not in out
    assert "accuracy.json is not as it was written, so it is not shown." in err
    assert "accuracy.json: of another run" in run_command(["verify", copy], capsys)[1]


def test_a_decision_that_fails_leaves_no_directory(automatic, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(MODULE, "decide", lambda *_: core.positive("sample", "budget", -1.0))
    code, _, err = run_command([*automatic.words[:-1], tmp_path / "run"], capsys)
    assert code == 2
    assert "sample(budget=-1.0)" in err
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_not_good_is_code_4_and_is_kept(automatic, without_figures, tmp_path, capsys):
    words = ["sample", automatic.folder / "table.csv", *WORDS[:4], "--step-size", "1e-4"]
    words += ["--num-steps", "200", "--out", tmp_path / "run"]
    code, out, _ = run_command(words, capsys)
    assert code == 4
    assert "Not good: R-hat is" in out
    assert (tmp_path / "run" / "report.html").is_file()
    code, again, _ = run_command(["resume", tmp_path / "run"], capsys)
    assert (code, again) == (4, out)


def test_plan_prints_keys_that_choose_the_same(automatic, capsys):
    code, out, _ = run_command(["plan", *automatic.words[1:-2]], capsys)
    assert code == 0
    lines = [line for line in out.splitlines() if not line.startswith("#")]
    keys = dict(line.split(" = ") for line in lines)
    assert keys["num_chains"] == "2"
    assert ("step_size" in keys) != ("ess" in keys)


def test_keys_without_a_step_size_are_kept_and_the_rest_is_left_open(automatic):
    values = {
        "data": str(automatic.folder / "table.csv"),
        "target": "=outcome",
        "model": "logistic",
    }
    problem = jobs.load(automatic.run).problem()
    config = validate({**values, "estimator": "practical", "burn_in": 9, "metric": "diagonal"})
    choice = jobs.choose(config, problem)
    assert choice.automatic
    assert choice.settings["estimator"] == {"name": "practical", "anchor_size": 24}
    assert {**choice.settings, "estimator": 0} == {
        "estimator": 0, "batch_size": 10, "burn_in": 9, "metric": "diagonal", "num_chains": 4,
        "chain_method": "vmap",
    }  # fmt: skip
    arguments = jobs.sample_arguments(choice, problem)
    assert arguments["estimator"].anchor_size == 24
    assert "integrator" not in arguments
    with pytest.raises(ValueError, match="not the settings of a run: run_dir"):
        jobs.sample_arguments(choice._replace(settings={"run_dir": "x"}), problem)


def test_a_job_with_the_plan_of_an_earlier_version_still_runs(tmp_path):
    job = jobs.load(Path(__file__).parent / "fixtures" / "job-1")
    settings = {
        "estimator": {"name": "control_variate", "center": "start"},
        "integrator": {"name": "sgld", "temperature": 1.0},
        "step_size": 1e-3, "batch_size": 4, "order": "shuffled", "clip": None,
        "anchor_order": "without_replacement", "num_steps": 40, "num_chains": 2, "burn_in": 0,
        "thin": 1, "chain_method": "vmap",
    }  # fmt: skip
    choice = jobs.SamplerChoice(settings, [np.ones(3, np.float32)], ("Chosen by vr.plan",))
    job = job._replace(path=tmp_path, choice=choice)
    result = jobs.run(job, job.problem(), progress=False)
    assert result.num_steps == 40
    np.testing.assert_array_equal(result.context.sampler.estimator.center, np.ones(3))
