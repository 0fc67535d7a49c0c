"""Tables as people have them, through the command line as far as the sampler; the slow tests run it."""

import gzip
import json
import subprocess
import sys

import jax
import numpy as np
import pandas
import pytest
from support.command_line import run_command

from vrsgmcmc.cli import jobs

RNG = np.random.default_rng(0)
X = RNG.normal(size=80)
KIND = np.array(["red", "green", "blue"])[RNG.integers(0, 3, 80)]
DAY = np.array([f"2024-01-{1 + i % 28:02d}" for i in range(80)])
YES = np.where(X + RNG.normal(size=80) > 0, "yes", "no")
NUMBER = 2 * X + RNG.normal(size=80)
COUNT = RNG.poisson(np.exp(0.3 + 0.8 * X))
BASE = {"x": np.round(X, 3), "kind": KIND, "y": YES}


def text(columns, comma=",", **changes):
    table = pandas.DataFrame({**columns, **changes})
    return table.to_csv(index=False, sep=comma, lineterminator="\n")


def with_holes(code):
    cells = [str(each) for each in BASE["x"]]
    cells[3] = cells[30] = code
    return text(BASE, x=cells)


def parquet(path):
    pandas.DataFrame(BASE).to_parquet(path)


def feather(path):
    pandas.DataFrame(BASE).to_feather(path)


def money(columns, **changes):
    return text(columns, ";", x=[f"{abs(v):.2f}".replace(".", ",") for v in X], **changes)


TABLES = {  # name -> file, content, flags, what is said
    "text columns": (
        "t.csv", text(BASE), [], ["'kind' has 3 levels; the reference is 'blue'.", "Model: logistic."],
    ),
    "all levels": ("t.csv", text(BASE), ["--levels", "all"], ["'kind' has 3 levels"]),
    "names and ids": (
        "t.csv",
        text({"id": np.arange(80), "name": [f"Ms {i}" for i in range(80)], **BASE}),
        [],
        ["Left out, since they differ from row to row, as names and ids do: id, name."],
    ),
    "codes of missing cells": ("t.csv", with_holes("?"), [], ["2 of 80 rows have missing cells"]),
    "empty cells": ("t.csv", with_holes(""), ["--missing", "drop"], ["2 of 80 rows have missing"]),
    "filled in": ("t.csv", with_holes("-"), ["--missing", "impute"], ["median of its column"]),
    "a code of one's own": ("t.csv", with_holes("-999"), ["--set", 'na=["-999"]'], ["2 of 80 rows"]),
    "dates": ("t.csv", text(BASE, when=DAY), [], ["'when' is the number of days since 2024-01-01."]),
    "money": ("t.csv", text(BASE, x=[f'"${1000 + i:,}"' for i in range(80)]), [], ["Model: log"]),
    "decimal comma": ("t.csv", money(BASE), [], ["Model: logistic."]),
    "Latin-1": ("t.csv", text(BASE, kind=np.where(KIND == "red", "größe", KIND)).encode("latin-1"),
                [], ["it was read as Latin-1"]),
    "UTF-16": ("t.csv", text(BASE).encode("utf-16"), [], ["it was read as UTF-16"]),
    "Parquet": ("t.parquet", parquet, [], ["Model: logistic."]),
    "Feather": ("t.feather", feather, [], ["Model: logistic."]),
    "gzip": ("t.csv.gz", gzip.compress(text(BASE).encode()), [], ["Model: logistic."]),
    "a number": ("t.csv", text(BASE, y=NUMBER), [], ["Model: linear.", "noise sd: Exponential(1)"]),
    "a robust number": ("t.csv", text(BASE, y=NUMBER), ["--model", "robust"], ["Student-t with 4"]),
    "a count": ("t.csv", text(BASE, y=COUNT), [], ["'y' is a count", "Model: poisson."]),
    "several classes": ("t.csv", text(BASE, x=X), ["--target", "kind"], ["Model: softmax."]),
    "classes in an order": (
        "t.csv", text(BASE, x=X), ["--target", "kind", "--model", "ordinal"],
        ["Order of the classes: blue < green < red."],
    ),
    "a network": (
        "t.csv", text(BASE),
        ["--model", "mlp", "--hidden", "3", "--step-size", "1e-3", "--num-steps", "300"],
        ["Model: mlp with 3 hidden units."],
    ),
    "collinear columns": (
        "t.csv", text({"twice": np.round(2 * BASE["x"], 3), **BASE}), [],
        ["Columns that follow from others were left out: 'x' repeats twice."],
    ),
    "a formula": (
        "t.csv", text(BASE, y=NUMBER), ["--formula", "y ~ poly(x, 2) + C(kind) + x:kind"],
        ["Model: linear."],
    ),
    "groups": ("t.csv", text(BASE, y=NUMBER), ["--formula", "y ~ x + (1 | kind)"],
               ["sd of (1 | kind): Exponential(1)"]),
    "a prior": ("t.csv", text(BASE), ["--prior", "laplace(0.5)"], ["Laplace(0, 0.5)"]),
}  # fmt: skip


def write(path, content):
    if callable(content):
        content(path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def words_of(flags):
    target = [] if {"--formula", "--target"} & {*flags} else ["--target", "y"]
    return [*target, *flags]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_reaches_the_sampler_and_what_was_done_is_said(name, tmp_path, capsys, monkeypatch):
    file, content, flags, notes = TABLES[name]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / file, content)

    def stop(config, problem):
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(problem.data))
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "choose", stop)
    code, out, err = run_command(["sample", file, *words_of(flags)], capsys)
    assert code == 130, err
    assert out == ""
    lines = err.splitlines()
    for note in notes:
        assert any(line.startswith("- ") and note in line for line in lines), err
    assert "rows to train, " in err
    assert [each.name for each in tmp_path.iterdir()] == [file]


SAID = """\
- 'y' has 2 classes: it is text, and 'yes' is the event.
- Left out, since they differ from row to row, as names and ids do: id.
- 'when' holds dates (year-month-day) and counts days.
- 2 of 80 rows have missing cells and were left out: 2 in column 'x' (first in line 5).
- 'when' is the number of days since 2024-01-01.
- 'kind' has 3 levels; the reference is 'blue'.
- 62 rows are for training and 16, drawn at random, for testing.
- Model: logistic. Prior: coefficients of standardised columns: N(0, 2.5²); intercept: N(0, 5²).
62 rows to train, 16 to test; 5 parameters
vrsgmcmc: interrupted.
The same command starts it again, or goes on with what was committed.
"""


def test_what_is_said_about_a_table_word_by_word(tmp_path, capsys, monkeypatch):
    cells = [str(each) for each in BASE["x"]]
    cells[3] = cells[30] = "NA"
    table = {"id": np.arange(80), "when": DAY, **BASE, "x": cells}
    (tmp_path / "t.csv").write_text(text(table))
    monkeypatch.setattr(jobs, "choose", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    words = ["sample", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "run"]
    assert run_command(words, capsys) == (130, "", SAID)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_table_becomes_a_report_and_predictions(name, tmp_path, capsys, monkeypatch):
    """Few draws: whether they are good is not asked here."""
    file, content, flags, _ = TABLES[name]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / file, content)
    budget = [] if "--step-size" in flags else ["--budget", "300 passes"]
    words = [*words_of(flags), *budget, "--num-chains", "2", "--out", "run"]
    code, out, err = run_command(["sample", file, *words], capsys)
    assert code in (0, 4), err
    assert "should not" not in err
    assert ("What goes with" in out) == (name != "a network")
    record = json.loads((tmp_path / "run" / "job.json").read_text())
    assert record["format"] == "vrsgmcmc job 2"
    assert len(jobs.load(tmp_path / "run").rows.notes) >= 2
    assert run_command(["verify", "run"], capsys)[0] == 0
    assert run_command(["summary", "run"], capsys)[0] == 0
    code, out, err = run_command(["predict", "run", file, "--out", "p.csv"], capsys)
    assert code == 0, err
    rows = pandas.read_csv(tmp_path / "p.csv")
    assert 76 <= len(rows) <= 80
    assert {"row", "actual"} < {*rows.columns}


REFUSED = {
    "a column that is none": (["t.csv", "--target", "z"], "has no column 'z'"),
    "a table that is none": (["no.csv", "--target", "y"], "no such file"),
    "a ragged table": (["ragged.csv", "--target", "y"], "line 3"),
    "an option": (["t.csv", "--target", "y", "--modle", "linear"], "Did you mean --model?"),
    "a method": (["t.csv", "--target", "y", "--estimator", "sgva"], "estimator: must be one of"),
    "a key of another method": (
        ["t.csv", "--target", "y", "--estimator", "svrg", "--anchor-size", "9"],
        "anchor_size belongs to estimator practical",
    ),
    "a model": (["t.csv", "--target", "y", "--model", "linear"], "linear needs numbers"),
    "a prior": (["t.csv", "--target", "y", "--prior", "weka"], "prior: must be one of"),
    "a formula": (["t.csv", "--formula", "y ~ z"], "has no column 'z'"),
    "a place": (["t.csv", "--target", "y", "--out", "/proc/here"], "that can be written"),
}


def test_a_refusal_imports_no_jax(tmp_path):
    (tmp_path / "t.csv").write_text(text(BASE))
    (tmp_path / "ragged.csv").write_text("a,y\n1,2\n1\n")
    program = f"""
import sys
from vrsgmcmc.cli import main
for words in {[words for words, _ in REFUSED.values()]!r}:
    assert main(["sample", *words]) == 2
    assert "jax" not in sys.modules, words
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=100
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(REFUSED)
    for line, (_, message) in zip(lines, REFUSED.values(), strict=True):
        assert message in line
