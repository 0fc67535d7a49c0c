"""The command line: its words, its exit codes, and the experiment that it runs."""

import csv
import json
import os
import subprocess
import sys
import xml.etree.ElementTree
from importlib.metadata import version

import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc import cli, figures
from vrsgmcmc.experiments import EXPERIMENTS, knowledge, pima

FILES = ["curves.csv", "curves.png", "curves.svg", "marginals.png", "marginals.svg"]
FILES += ["run.json", "table.csv"]


def run(arguments, capsys):
    """Exit code, stdout and stderr of a command, in this process."""
    try:
        code = cli.main(arguments)
    except SystemExit as exit:
        code = exit.code
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["reproduce", "--help"]])
def test_help_names_the_commands(arguments, capsys):
    code, out, err = run(arguments, capsys)
    assert code == 0
    assert "reproduce NAME" in out
    assert err == ""


def test_version(capsys):
    assert run(["--version"], capsys) == (0, f"vrsgmcmc {version('vrsgmcmc')}\n", "")


def test_list_shows_every_experiment_with_a_line_about_it(capsys):
    code, out, err = run(["reproduce", "--list"], capsys)
    assert (code, err) == (0, "")
    shown = dict(line.split("  ", 1) for line in out.splitlines())
    assert {name.strip(): text for name, text in shown.items()} == {
        name: experiment.summary for name, experiment in EXPERIMENTS.items()
    }


def test_help_of_an_experiment_shows_its_options_with_defaults(capsys):
    code, out, _ = run(["reproduce", "pima", "--help"], capsys)
    assert code == 0
    for text in ("--out", "pima-report", "--seed", "--chains", "--passes", "200"):
        assert text in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduc"], "unknown command 'reproduc'; did you mean reproduce? See vrsgmcmc --help."),
        (["walk"], "unknown command 'walk'; See vrsgmcmc --help."),
        (["--verion"], "unknown option '--verion'"),
        (["reproduce"], "reproduce what? Name an experiment"),
        (
            ["reproduce", "pimma"],
            "unknown experiment 'pimma'; did you mean pima? See vrsgmcmc reproduce --list.",
        ),
        (["reproduce", "pima", "--chans", "3"], "--chains"),
        (["reproduce", "pima", "--chains", "many"], "--chains"),
        (["reproduce", "pima", "--chains", "0"], "--chains must be at least 1, got 0."),
        (["reproduce", "pima", "--passes", "1"], "--passes must be at least 2, got 1."),
        (["reproduce", "pima", "--seed", "-1"], "--seed must be at least 0, got -1."),
    ],
)
def test_a_mistyped_command_is_answered_in_words_and_with_code_2(arguments, message, capsys):
    code, _, err = run(arguments, capsys)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_a_folder_with_other_things_in_it_is_refused_and_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("years of work")
    code, _, err = run(["reproduce", "pima", "--out", str(tmp_path)], capsys)
    assert code == 2
    assert f"--out {tmp_path}: this folder is not empty" in err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "content", ["", "[]", '{"program": "another", "experiment": "pima"}', '{"program": "vrsgmcmc"}']
)
def test_a_record_that_is_not_ours_does_not_open_a_folder(content, tmp_path, capsys):
    (tmp_path / "run.json").write_text(content)
    assert run(["reproduce", "pima", "--out", str(tmp_path)], capsys)[0] == 2
    assert (tmp_path / "run.json").read_text() == content


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path, capsys):
    file = tmp_path / "report"
    file.write_text("")
    code, _, err = run(["reproduce", "pima", "--out", str(file)], capsys)
    assert code == 2
    assert f"--out {file}: this is a file. Name a folder" in err
    code, _, err = run(["reproduce", "pima", "--out", str(file / "below")], capsys)
    assert code == 2
    assert str(file / "below") in err


def test_ctrl_c_ends_with_code_130_and_writes_nothing(tmp_path, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pima, "run", interrupted)
    code, _, err = run(["reproduce", "pima", "--out", str(tmp_path / "report")], capsys)
    assert (code, err) == (130, "vrsgmcmc: interrupted\n")
    assert list((tmp_path / "report").iterdir()) == []


def test_a_full_disk_is_told_in_words(tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pima, "run", lambda *_: None)
    monkeypatch.setattr(pima, "write", full)
    code, _, err = run(["reproduce", "pima", "--out", str(tmp_path)], capsys)
    assert code == 1
    assert f"could not write to {tmp_path}" in err
    assert "No space left" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["reproduce", "--list"],
        ["reproduce", "pima", "--help"],
        ["reproduce", "pimma"],
        ["reproduce", "pima", "--chains", "0"],
    ],
)
def test_words_come_without_jax_and_matplotlib(arguments):
    program = f"""
import sys
from vrsgmcmc.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
print(sorted({{"jax", "matplotlib", "scipy"}} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_python_m_runs_the_same_program_and_returns_its_exit_code(tmp_path):
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    for arguments, code in ((["--version"], 0), (["walk"], 2)):
        command = [sys.executable, "-m", "vrsgmcmc", *arguments]
        done = subprocess.run(
            command, capture_output=True, cwd=tmp_path, env=environment, timeout=60
        )
        assert done.returncode == code


@pytest.fixture
def small(monkeypatch):
    """Two methods, two step sizes, a shorter reference: the same code in less time."""
    few = {name: pima.METHODS[name] for name in ("SGLD, n = 10", "vrSG-MCMC")}
    monkeypatch.setattr(pima, "METHODS", few)
    monkeypatch.setattr(pima, "STEP_SIZES", (0.1, 1.0))
    monkeypatch.setattr(pima, "REFERENCE_STEPS", 2000)
    return few


def test_reproduce_pima_writes_figures_and_numbers(small, tmp_path, capsys):
    out = tmp_path / "new" / "report"
    options = ["--out", str(out), "--seed", "3", "--chains", "2", "--passes", "4"]
    code, text, progress = run(["reproduce", "pima", *options], capsys)
    assert code == 0
    assert sorted(file.name for file in out.iterdir()) == FILES

    lines = progress.splitlines()
    assert len(lines) == 1 + len(small)  # the reference, and one for each method
    for name, line in zip(small, lines[1:], strict=True):
        assert line.startswith(f"{name}: step size ")
        assert text.count(f"\n{name} ") == 2

    record = json.loads((out / "run.json").read_text())
    assert record["command"] == f"vrsgmcmc reproduce pima {' '.join(options)}"
    assert record["settings"] == {"out": str(out), "seed": 3, "chains": 2, "passes": 4}
    assert record["versions"]["vrsgmcmc"] == version("vrsgmcmc")
    assert record["rows"] == {"train": 460, "validation": 154, "test": 154}
    assert record["step_size_grid"] == [0.1, 1.0]
    assert record["reference"]["r_hat"] < 1.02
    for row in record["results"]:
        criterion = record["tuning"][row["method"]][row["question"]]
        assert row["step"] == record["step_size_grid"][int(np.argmin(criterion))]
        cost = small[row["method"]].cost(460, row["num_steps"])
        assert row["data_passes"] == cost / 460
        assert 3.9 < row["data_passes"] <= 4
        assert 0.4 < row["test_nll"] < 0.7
        assert all(np.isfinite(value) for value in row.values() if isinstance(value, float))

    with (out / "table.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(row["question"], row["method"]) for row in table] == [
        (question, name) for question in pima.QUESTIONS for name in small
    ]
    with (out / "curves.csv").open() as file:
        curves = list(csv.DictReader(file))
    ends = {(row["question"], row["method"]): row for row in curves}  # the last point of each
    for row in table:
        assert ends[row["question"], row["method"]]["test_nll"] == row["test_nll"]
    for name in ("curves", "marginals"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert xml.etree.ElementTree.parse(out / f"{name}.svg").getroot().tag.endswith("svg")

    # again: the folder is ours, and the seed gives the same numbers
    assert run(["reproduce", "pima", *options], capsys)[0] == 0
    again = json.loads((out / "run.json").read_text())
    for before, after in zip(record["results"], again["results"], strict=True):
        assert before.pop("seconds") > 0
        after.pop("seconds")
        assert before == after


@pytest.mark.parametrize("name", pima.METHODS)
@pytest.mark.parametrize("passes", [2, 3, 50])
def test_a_method_takes_as_many_steps_as_it_can_pay(name, passes):
    method, size = pima.METHODS[name], 460
    steps = method.affordable(size, passes)
    assert method.cost(size, steps) <= passes * size < method.cost(size, steps + 1)


@pytest.mark.parametrize("name", pima.METHODS)
def test_the_methods_compared_with_vr_cost_the_same_per_step(name):
    per_step = pima.METHODS[name].cost(460, 46_000) / 46_000
    assert per_step == (10 if name == "SGLD, n = 10" else 30)


def test_the_cost_is_the_one_that_sample_counts():
    method = pima.METHODS["SVRG-LD"]
    result = vr.sample(
        0,
        vr.models.gaussian.posterior(),
        np.random.default_rng(0).normal(size=460),
        np.zeros(()),
        estimator=method.estimator,
        batch_size=method.batch_size,
        num_steps=57,
        num_chains=1,
        keep="averages",
        progress=False,
    )
    assert result.evaluations == method.cost(460, 57) == 2 * 460 + 57 * 20


def test_running_averages_leave_out_the_first_fifth():
    values = np.random.default_rng(0).normal(size=(40, 3))
    ends = np.array([1, 2, 5, 17, 40])
    expected = [values[end // 5 : end].mean(axis=0) for end in ends]
    np.testing.assert_allclose(knowledge.running(values, ends), expected, atol=1e-14)


def test_knowledge_of_predictions_and_moments():
    draws = np.random.default_rng(0).normal(size=(2, 10, 1))
    known = knowledge.watch(draws, lambda chain: np.array([[0.25, 0.8]]) + 0 * chain)
    np.testing.assert_allclose(known.nll, -np.log([0.25, 0.8]).mean(), atol=1e-12)
    np.testing.assert_array_equal(known.accuracy, 0.5)
    assert known.ends.tolist() == list(range(1, 11))
    np.testing.assert_allclose(known.variance[:, -1, 0], draws[:, 2:, 0].var(axis=1), atol=1e-12)


def test_k_independent_draws_are_worth_k():
    rng = np.random.default_rng(0)
    scale, center = np.array([1.0, 5.0]), np.array([3.0, -1.0])
    reference = center + scale * rng.normal(size=(200_000, 2))
    draws = center + scale * rng.normal(size=(4000, 50, 2))
    distance = knowledge.error(draws.mean(axis=1), draws.var(axis=1), reference)
    # (k - 1)/k of the sample variance adds bias^2/4 = 1/(4 k^2) and takes a factor (k-1)/k: about 1/k
    deviation = 1 / distance.mean() - 50
    assert abs(deviation) < 1
    assert knowledge.error(reference.mean(axis=0), reference.var(axis=0), reference) < 1e-20


def test_labels_keep_their_order_and_their_distance():
    np.testing.assert_allclose(figures.isotonic(np.array([1.0, 3.0, 2.0, 2.0, 5.0, 4.0])),
                               [1, 7 / 3, 7 / 3, 7 / 3, 4.5, 4.5])  # fmt: skip
    x = np.array([1.0, 10.0])
    lines = {f"line {k}": (x, np.array([0.0, 1 + 1e-6 * k])) for k in range(5)}
    figure = figures.curves([figures.Panel("together", lines)], x_label="x")
    heights = [text.xyann[1] for text in figure.axes[0].texts]
    names = [text.get_text() for text in figure.axes[0].texts]
    assert names == [f"line {k}" for k in range(5)]
    assert np.diff(heights).min() > 0.07
    assert min(heights) >= 0
    assert max(heights) <= 1


def test_a_smoothed_marginal_is_the_density():
    x = np.linspace(-4, 4, 200)
    draws = np.random.default_rng(0).normal(size=100_000)
    expected = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(figures.density(draws, x), expected, atol=0.02)


def test_the_same_figure_is_the_same_file(tmp_path):
    lines = {"a": (np.array([1.0, 2.0]), np.array([1.0, 3.0]))}
    for name in ("first", "second"):
        figure = figures.curves([figures.Panel("title", lines, level=("b", 2.0))], x_label="x")
        assert figures.save(figure, tmp_path / name) == [f"{name}.png", f"{name}.svg"]
    for kind in ("png", "svg"):
        first, second = (tmp_path / f"{name}.{kind}" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()
