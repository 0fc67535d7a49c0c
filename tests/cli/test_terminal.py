"""Names of columns, classes and files cannot control the terminal, nor a spreadsheet."""

import ast
import csv
import logging
from pathlib import Path

import numpy as np
import pytest
from support.command_line import run_command

from vrsgmcmc import cli
from vrsgmcmc.cli.jobs.spreadsheet import spreadsheet_text
from vrsgmcmc.cli.terminal import safe_text

ESCAPE = "\x1b[31m\x07\u202e"
SHOWN = "\\x1b[31m\\x07\\u202e"


def hostile_table(constant=False):
    rng = np.random.default_rng(0)
    rows = [
        f"{a:.3f},{b:.3f},{1 if constant else i},{'=1+1' if a > b else f'@{ESCAPE}'}"
        for i, (a, b) in enumerate(rng.normal(size=(40, 2)))
    ]
    return "\n".join([f"a{ESCAPE},b,c{ESCAPE},y{ESCAPE}", *rows]) + "\n"


SAMPLE = ["sample", "t.csv", "--target", f"y{ESCAPE}", "--step-size", "0.01"]
COMMANDS = {
    "unknown column": ["sample", "t.csv", "--target", f"z{ESCAPE}", "--model", "mlp"],
    "three classes": ["sample", "t.csv", "--target", f"c{ESCAPE}", "--model", "logistic"],
    "formula": ["sample", "t.csv", "--formula", f"b ~ `z{ESCAPE}`"],
    "file": ["sample", f"{ESCAPE}.csv", "--target", "y", "--model", "mlp"],
    "configuration": ["sample", f"{ESCAPE}.toml"],
    "model file": [*SAMPLE, "--model", f"{ESCAPE}.py:build"],
    "directory": ["summary", ESCAPE],
    "resume": ["resume", ESCAPE],
    "verify": ["verify", ESCAPE],
    "word": [*SAMPLE, "--model", "logistic", ESCAPE],
    "command": [ESCAPE],
    "data set": ["data", "get", ESCAPE],
    "experiment": ["reproduce", ESCAPE],
    "setting": [*SAMPLE, "--set", f"{ESCAPE}=1"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(hostile_table())
    (tmp_path / "constant.csv").write_text(hostile_table(constant=True))
    return tmp_path


def check(text):
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", COMMANDS)
def test_messages_are_safe(name, folder, capsys):
    code, out, err = run_command(COMMANDS[name], capsys)
    assert code == 2
    check(out + err)
    assert "x1b[31m" in err


def test_a_name_with_a_line_break_stays_on_its_line(folder, capsys, without_figures):
    """As spreadsheets write the heading of a column: "Weight\\n(kg)"."""
    name = "weight\nvrsgmcmc: done"
    rows = [f"{a},1,'c\n{a % 2}'" for a in range(20)]
    text = "\n".join([f'"{name}","k{name}",y', *rows]).replace("'", '"')
    (folder / "t.csv").write_text(f"{text}\n")
    commands = [
        ["sample", "t.csv", "--target", "z", "--model", "mlp"],
        ["sample", "t.csv", "--target", f"z{name}", "--model", "mlp"],
        ["sample", "t.csv", "--target", name, "--model", "logistic"],
        ["sample", f"{name}.csv", "--target", "y", "--model", "mlp"],
        ["sample", "t.csv", "--target", "y", "--model", f"{name}.py:build"],
        ["check", "t.csv", "--target", "y", "--model", "logistic"],
        *([command, name] for command in ("summary", "resume", "verify", "report", "reproduce")),
    ]
    for words in commands:
        code, out, err = run_command(words, capsys)
        assert code == (0 if words[0] == "check" else 2)
        assert name not in out + err
    (folder / "file").write_text("")
    code, _, err = run_command(["report", "file", "--out", f"file/{name}"], capsys)
    assert name not in err


def test_a_run_is_safe_for_terminals_and_spreadsheets(folder, capsys, without_figures):
    words = ["constant.csv", *SAMPLE[2:], "--model", "logistic", "--num-steps", "60"]
    code, out, err = run_command(["sample", *words, "--out", f"run{ESCAPE}"], capsys)
    assert code == 4  # too short to be good
    check(out + err)
    assert f"left out: c{SHOWN}." in err
    assert f"/run{SHOWN}" in out
    for command in ("summary", "verify", "report"):
        code, out, err = run_command([command, f"run{ESCAPE}"], capsys)
        assert code == 0
        check(out + err)
    code, out, err = run_command(["check", *words], capsys)
    assert f"classes: =1+1, @{SHOWN}" in out
    check(out + err)
    with (folder / f"run{ESCAPE}" / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["actual"] for row in rows} == {"'=1+1", f"'@{ESCAPE}"}
    assert not any(cell.startswith(("=", "@")) for row in rows for cell in row.values())


def test_the_log_is_safe(capsys, monkeypatch):
    def warn(words):
        logging.getLogger("vrsgmcmc").warning("%s: restored", ESCAPE)
        return 0

    monkeypatch.setattr(cli, "run_command", warn)
    _, _, err = run_command([], capsys)
    assert err == f"{SHOWN}: restored\n"


def test_what_is_safe_stays():
    for text in ("plain\nlines", "Größe µ 数", ""):
        assert safe_text(text) == text
    for name in ("a", "-1", "+2.5", "1e5", "a=b"):
        assert spreadsheet_text(name) == name
    for name in ("=1", "+a", "-a", "@a", "\ta", "'a"):
        assert spreadsheet_text(name) == f"'{name}"


def test_only_one_place_writes_to_standard_error():
    for path in Path(cli.__file__).parent.rglob("*.py"):
        uses = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)]
        assert path.name == "terminal.py" or not any(n.attr == "stderr" for n in uses), path
