"""The examples of `docs/command-line.md`."""

import re
import shlex
import signal
from pathlib import Path

import pytest
from support.command_line import HOSTILE, OWN_MODEL, TRAVERSAL, run_command, table_text

from vrsgmcmc.experiments import gaussian, lstm_ptb, pima

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


EXAMPLES = [line for block in blocks("sh") for line in block.splitlines()]


@pytest.mark.parametrize("line", EXAMPLES)
def test_the_words_of_the_examples_exist(line, tmp_path, capsys, monkeypatch):
    """As far as the first look at a file, of which there is none."""
    monkeypatch.chdir(tmp_path)
    program, *words = shlex.split(line)
    assert program == "vrsgmcmc"
    monkeypatch.setattr(pima, "run", lambda *_: signal.raise_signal(signal.SIGINT))
    for module in (gaussian, lstm_ptb):
        monkeypatch.setattr(module, "run", lambda *_: signal.raise_signal(signal.SIGINT))
    monkeypatch.delenv("VRSGMCMC_DATA", raising=False)
    monkeypatch.setenv("VRSGMCMC_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, _, err = run_command(words, capsys)
    if words[0] == "reproduce":
        assert code == (0 if "--list" in words else 130)
    elif words[0] == "data":
        assert code == (2 if "get" in words else 0)
    else:
        assert code == 2
        assert re.search("no such (file|directory)|no file|not a run directory", err)


@pytest.mark.slow
def test_the_examples_do_what_the_page_says(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = (
        table_text("yes")
        .replace(HOSTILE, "age")
        .replace(TRAVERSAL, "dose")
        .replace("=outcome", "outcome")
    )
    Path("patients.csv").write_text(rows)
    Path("new-patients.csv").write_text(rows)
    Path("config.toml").write_text(blocks("toml")[0])
    Path("my_model.py").write_text(OWN_MODEL)
    for line in EXAMPLES:
        _, *words = shlex.split(line)
        if words[0] not in ("reproduce", "data"):
            code, out, _ = run_command(words, capsys)
            assert code == 0, line
        if words[0] == "plan":  # its lines are those of a configuration
            lines = 'data = "patients.csv"\ntarget = "outcome"\n' + out
            Path("planned.toml").write_text(lines)
            assert run_command(["sample", "planned.toml", "--out", "planned-run"], capsys)[0] == 0
    assert Path("compared/report.html").is_file()
