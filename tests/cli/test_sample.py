"""`sample`, `resume` and `check`: from a table to a run directory."""

import csv
import fcntl
import json
import os
import re
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import (
    COMMAND,
    HOSTILE,
    OWN_MODEL,
    ROWS,
    TRAVERSAL,
    run_command,
    table_text,
)

from vrsgmcmc.advice import Audit
from vrsgmcmc.cli.jobs import predictions


def test_a_run_is_a_directory_with_everything_in_it(finished_run):
    names = {file.name for file in finished_run.iterdir()}
    assert names == {"job.json", "data.safetensors", "chains", "figures", "findings.json",
                     "findings.sha256", "predictions.csv", "report.html"}  # fmt: skip
    record = json.loads((finished_run / "job.json").read_text())
    assert record["settings"]["estimator"] == {"name": "practical", "anchor_size": 20}
    assert record["settings"]["burn_in"] == 2400
    assert record["recipe"]["target"]["labels"] == [HOSTILE, "no"]
    assert record["format"] == "vrsgmcmc job 2"
    assert record["table"]["notes"][0].startswith("'=outcome' has 2 classes: it is text")
    assert record["config"]["data"] == "table.csv"
    scores = json.loads((finished_run / "findings.json").read_text())
    names = ("test_log_likelihood", "accuracy", "brier_score")
    assert set(scores) == {*names, "calibration_error", *(f"baseline_{name}" for name in names)}
    assert scores["accuracy"] > scores["baseline_accuracy"]
    assert scores["test_log_likelihood"] > scores["baseline_test_log_likelihood"]


def test_predictions_are_probabilities_of_the_test_rows(finished_run, shared_folder):
    with (finished_run / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    lines = (shared_folder / "table.csv").read_text().splitlines()
    assert len(rows) == ROWS // 5
    for row in rows:
        each = float(row[f"P({HOSTILE})"]), float(row["P(no)"])
        assert sum(each) == pytest.approx(1)
        assert row["predicted"] == ((HOSTILE, "no") if each[0] > each[1] else ("no", HOSTILE))[0]
        assert lines[int(row["row"]) - 1].split(",")[2] == row["actual"]
    right = np.mean([row["predicted"] == row["actual"] for row in rows])
    assert right == json.loads((finished_run / "findings.json").read_text())["accuracy"]
    assert right > 0.7


def test_hostile_names_are_escaped_and_lead_nowhere(shared_folder):
    page = (shared_folder / "run" / "report.html").read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert TRAVERSAL in page
    assert {file.name for file in shared_folder.iterdir()} == {"table.csv", "run"}
    assert not (shared_folder.parent / "evil").exists()
    assert not (shared_folder.parent.parent / "evil").exists()
    record = (shared_folder / "run" / "chains" / "environment.json").read_text()
    assert str(Path.home()) not in record


def test_a_finished_run_is_loaded_and_not_run_again(
    finished_run, shared_folder, without_figures, capsys, monkeypatch
):
    monkeypatch.setattr("vrsgmcmc.run.loop.Loop.run", lambda self: pytest.fail("ran again"))
    before = (finished_run / "chains" / "commit.json").read_bytes()
    words = [
        "sample",
        shared_folder / "table.csv",
        *COMMAND,
        "--model",
        "logistic",
        "--num-steps",
        "12000",
    ]
    for again in (["resume", finished_run], [*words, "--out", finished_run]):
        code, out, _ = run_command(again, capsys)
        assert code == 0
        assert "test log likelihood: -0." in out
    assert (finished_run / "chains" / "commit.json").read_bytes() == before


def test_another_configuration_or_other_data_are_refused_with_a_difference(
    finished_run, shared_folder, capsys
):
    words = [
        "sample",
        shared_folder / "table.csv",
        *COMMAND,
        "--model",
        "logistic",
        "--out",
        finished_run,
    ]
    code, _, err = run_command([*words, "--num-steps", "700"], capsys)
    assert code == 2
    assert (
        f"--out {finished_run} holds another run:\n  num_steps: 12000 in the run, 700 here" in err
    )
    other = finished_run.parent / "table.csv"
    other.write_text(table_text().replace("0.", "1.", 1))
    code, _, err = run_command(["sample", other, *words[2:], "--num-steps", "12000"], capsys)
    assert code == 2
    assert "data.sha256: " in err


def test_a_run_of_the_library_cannot_be_resumed_from_here(finished_run, capsys):
    code, _, err = run_command(["resume", finished_run / "chains"], capsys)
    assert code == 2
    assert "its model is in your program: run that program again with run_dir" in err


def test_a_model_of_one_s_own_is_named_each_time(
    shared_folder, without_figures, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("my_model.py").write_text(OWN_MODEL)
    words = [
        "sample",
        shared_folder / "table.csv",
        *COMMAND,
        "--num-steps",
        "12000",
        "--out",
        "run",
    ]
    code, out, _ = run_command([*words, "--model", "my_model.py:build"], capsys)
    assert code == 0
    assert "accuracy" in out
    assert "my_model" not in (Path("run") / "job.json").read_text().replace("--model my_model", "")
    Path("my_model.py").rename("moved.py")
    for words in (["resume", "run"], ["audit", "run"]):
        code, _, err = run_command(words, capsys)
        assert code == 2
        assert "Give it again: --model FILE.py:FUNCTION." in err
        assert run_command([*words, "--model", "moved.py:build"], capsys)[0] == 0
    code, _, err = run_command(
        ["resume", shared_folder / "run", "--model", "moved.py:build"], capsys
    )
    assert code == 2
    assert "is logistic. Leave --model out." in err


def test_all_chains_diverged_is_code_3(shared_folder, without_figures, tmp_path, capsys):
    words = [
        "sample",
        shared_folder / "table.csv",
        *COMMAND[2:],
        "--model",
        "logistic",
        "--num-steps",
        "12000",
    ]
    words[words.index("0.05")] = "1e30"
    code, out, err = run_command(
        [*words, "--target", "=outcome", "--out", tmp_path / "run"], capsys
    )
    assert code == 3
    assert "every chain became non-finite. chain 0 became non-finite at step" in err
    assert "Try a step size of" in err
    assert "wrote findings.json, report.html" in out
    assert run_command(["resume", tmp_path / "run"], capsys)[0] == 3


def when_committed(path, number):
    """Send this process a signal as soon as a run that has a commit is written."""

    def is_free():
        with (path / "chains" / "run.lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def wait():
        while not (path / "chains" / "commit.json").exists() or is_free():
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), number)

    threading.Thread(target=wait, daemon=True).start()


def test_a_signal_leaves_a_run_that_goes_on(shared_folder, tmp_path, capsys):
    out = tmp_path / "long run"
    words = [
        "sample",
        shared_folder / "table.csv",
        *COMMAND,
        "--model",
        "logistic",
        "--num-steps",
        "100000000",
    ]
    words[words.index("--thin") + 1] = "1000000"
    when_committed(out, signal.SIGTERM)
    code, _, err = run_command([*words, "--out", out], capsys)
    assert code == 143
    assert "everything is committed. Go on with: vrsgmcmc resume '" in err
    for command in ("report", "audit"):
        code, _, err = run_command([command, out], capsys)
        assert code == 2
        assert "is interrupted at step" in err
    code, text, _ = run_command(["summary", out], capsys)
    assert code == 0
    first = int(re.search(r"interrupted at step (\d+)", text)[1])
    when_committed(out, signal.SIGINT)
    code, _, err = run_command(["resume", out], capsys)
    assert code == 130
    assert int(re.search(r"interrupted at step ([\d,]+)", err)[1].replace(",", "")) >= first
    assert run_command(["verify", out], capsys)[0] == 0


def test_check_tells_shapes_memory_and_time_and_writes_nothing(
    shared_folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = ["check", shared_folder / "table.csv", *COMMAND, "--model", "logistic"]
    code, out, _ = run_command(words, capsys)
    assert code == 0
    for text in ("48 rows to train, 12 to test, 2 columns", "gradient norm", "time: about",
                 "parameters: 3 (intercept [], weights [2])", "memory: ", "disk: about"):  # fmt: skip
        assert text in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("holds", "advice"), [(True, "Take a smaller step size"), (False, "far")])
def test_widths_without_limit_are_blamed_on_the_step_size_or_on_the_chain(
    holds, advice, monkeypatch
):
    widths = 30.0, 30, (), (), 0, 0, None, holds
    audit = Audit("practical", False, "the chain is far away", np.inf, 0.1, 0.1, 0.2, *widths)
    monkeypatch.setattr(predictions, "audit", lambda result: audit)
    result = SimpleNamespace(context=SimpleNamespace(sampler=SimpleNamespace(step_size=0.1)))
    with pytest.raises(ValueError, match=advice):
        predictions.audit_result(result)
