"""`predict`: the rows of another table, with what a run has learned."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from support.command_line import COMMAND, OWN_MODEL, run_command, table_text

from vrsgmcmc import cli
from vrsgmcmc.cli import jobs

RNG = np.random.default_rng(1)
SHORT = ["--step-size", "1e-3", "--num-steps", "300", "--num-chains", "2", "--batch-size", "8"]
HEADER = "x,colour,shop,price\n"


def lines(count, with_target=True):
    rows = []
    for i in range(count):
        x, colour, shop = RNG.normal(), ("red", "blue")[i % 2], ("north", "south", "east")[i % 3]
        price = 3 + 2 * x + (i % 2) + 0.1 * RNG.normal()
        rows.append(f"{x:.3f},{colour},{shop}" + f",{price:.3f}" * with_target)
    return rows


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    """A finished run of a number with levels and groups, which nobody changes."""
    folder = tmp_path_factory.mktemp("shops")
    (folder / "shops.csv").write_text(HEADER + "\n".join(lines(60)) + "\n")
    sample(folder / "shops.csv", "--formula", "price ~ x + colour + (1 | shop)", *SHORT)
    return folder


def sample(table, *words):
    """A run beside the table, without scores and report, which take most of the time."""
    words = ["sample", table, *words, "--out", table.parent / "run"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vrsgmcmc.cli.sample.run_and_report", lambda *job: jobs.run(*job[:2]) and 0)
        assert cli.main([str(word) for word in words]) == 0


def read(path):
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_rows_that_cannot_be_used_and_levels_that_are_new_are_named(
    shops, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = ["1.0,red,north", ",blue,east", "0.5,green,west", "-1.0,blue,south"]
    Path("new.csv").write_text("x,colour,shop\n" + "\n".join(rows) + "\n")
    code, out, err = run_command(["predict", shops / "run", "new.csv"], capsys)
    assert (code, out) == (0, "wrote 3 predictions of price to new-predictions.csv\n")
    assert "No predictions for 1 rows (lines 3)." in err
    assert "1 in column 'x' (first in line 3)" in err
    assert "'green'" in err or "green" in err
    assert "New levels of 'shop': west." in err
    table = read("new-predictions.csv")
    assert [row["row"] for row in table] == ["2", "4", "5"]
    assert list(table[0]) == ["row", "mean", "sd", "low_90", "high_90"]
    for row in table:
        assert float(row["low_90"]) < float(row["mean"]) < float(row["high_90"])


def test_predictions_are_those_of_the_problem_and_are_scored(shops, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text(HEADER + "\n".join([*lines(20), "0.1,red,north,"]) + "\n")
    code, out, _ = run_command(["predict", shops / "run", "new.csv", "--out", "p.csv"], capsys)
    assert code == 0
    assert re.search(r"^Scores on 20 rows; the baseline is a normal distribution", out)
    assert "rmse " in out
    job = jobs.load(shops / "run")
    problem = job.problem()
    result = jobs.run(job, problem, progress=False)
    expected = problem.table.predict(result, tmp_path / "new.csv")
    table = read("p.csv")
    np.testing.assert_allclose([float(row["mean"]) for row in table], expected.mean, rtol=1e-4)
    np.testing.assert_allclose([float(row["low_90"]) for row in table], expected.low, rtol=1e-4)
    assert table[-1]["actual"] == ""
    assert float(table[0]["actual"]) == pytest.approx(
        float(Path("new.csv").read_text().splitlines()[1].split(",")[-1])
    )


def test_a_file_that_is_there_is_not_overwritten(shops, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text(HEADER + "\n".join(lines(3)) + "\n")
    Path("p.csv").write_text("years of work")
    words = ["predict", shops / "run", "new.csv", "--out"]
    code, out, err = run_command([*words, "p.csv"], capsys)
    assert code == 2
    assert "p.csv: the file is there, and holds something else. Remove it, or name another" in err
    assert Path("p.csv").read_text() == "years of work"
    assert run_command([*words, "q.csv"], capsys)[0] == 0
    code, out, _ = run_command([*words, "q.csv"], capsys)
    assert code == 0
    assert "q.csv is there already, with the same 3 predictions of price" in out
    Path("link.csv").symlink_to("elsewhere.csv")
    assert run_command([*words, "link.csv"], capsys)[0] == 2
    assert not Path("elsewhere.csv").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x,colour\n1,red\n", "has no column 'shop'"),
        ("x,colour,shop\n,red,north\n", "every row has a missing cell"),
        ("x,colour,shop\nmany,red,north\n", "'many'"),
        ("", "is empty"),
        ("x,colour,shop,price\n1,red,north,dear\n", "'dear'"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    content, message, shops, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text(content)
    code, _, err = run_command(["predict", shops / "run", "new.csv", "--out", "p.csv"], capsys)
    assert code == 2
    assert message in err
    assert not Path("p.csv").exists()


def test_classes_have_probabilities_and_are_no_formulas(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text(table_text())
    sample(tmp_path / "table.csv", *COMMAND, "--model", "logistic", "--num-steps", "300")
    words = ["predict", "run", "table.csv", "--out", "p.csv"]
    code, out, _ = run_command(words, capsys)
    assert code == 0
    assert "accuracy" in out
    first = read("p.csv")[0]
    names = [name for name in first if name.startswith("P(")]
    assert sum(float(first[name]) for name in names) == pytest.approx(1, abs=1e-5)
    assert float(first[f"low_90({names[0][2:-1]})"]) < float(first[names[0]])
    assert not any(cell.startswith(("=", "@")) for row in read("p.csv") for cell in row.values())


@pytest.mark.slow
def test_a_model_of_one_s_own_predicts(
    shared_folder, without_figures, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN_MODEL)
    words = ["sample", shared_folder / "table.csv", *COMMAND, "--model", "own.py:build"]
    run_command([*words, "--num-steps", "2000", "--out", "run"], capsys)
    words = ["predict", "run", shared_folder / "table.csv", "--out", "p.csv"]
    code, _, err = run_command(words, capsys)
    assert code == 2
    assert "Give it again: --model FILE.py:FUNCTION." in err
    assert run_command([*words, "--model", "own.py:build"], capsys)[0] == 0
    assert len(read("p.csv")) == 60
