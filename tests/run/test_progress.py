"""Progress of a run: a table on a terminal, plain lines elsewhere, or nothing."""

import io
import sys
from types import ModuleType

import numpy as np
from rich.console import Console
from support.sample_methods import PRACTICAL, STEPS, X, Y, assert_same_run, loglik, whole_run

from vrsgmcmc.run import progress

COLUMNS = ("step", "data passes", "steps/s", "mean loglik", "left")


def test_plain_lines_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    result = PRACTICAL.run(progress=None, first_chunk=9)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) > 5
    assert all(column in line for line in lines for column in COLUMNS)
    w = result.state.position[0]
    mean = np.mean([loglik(w, datum) for datum in zip(X, Y, strict=True)])
    for text in (f"{STEPS} / {STEPS}", f"{result.data_passes:.2f}", f"{mean:.4f}", "0:00"):
        assert text in lines[-1]
    assert_same_run(result, whole_run(PRACTICAL))


def test_no_progress_is_silent(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    PRACTICAL.run(progress=False)
    assert capsys.readouterr() == ("", "")


def test_short_runs_are_silent(capsys):
    PRACTICAL.run(progress=None)
    assert capsys.readouterr() == ("", "")


def test_a_table_on_a_terminal(monkeypatch, capsys):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=160)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    result = PRACTICAL.run(progress=True)
    shown = screen.getvalue()
    assert all(column in shown for column in COLUMNS)
    assert f"{STEPS} / {STEPS}" in shown
    assert capsys.readouterr().err == ""
    assert_same_run(result, whole_run(PRACTICAL))


def test_a_bar_in_a_notebook(monkeypatch, capsys):
    """What IPython is handed: one display, which is updated, and cleared unless progress=True."""
    pictures = []

    class Handle:
        def update(self, picture):
            pictures.append(picture)

    def display(picture, display_id):
        pictures.append(picture)
        return Handle()

    module = ModuleType("IPython.display")
    vars(module).update(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    notebook = Console(file=io.StringIO(), force_jupyter=True)
    monkeypatch.setattr(progress, "Console", lambda **_: notebook)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_PICTURES", -1.0)
    result = PRACTICAL.run(progress=None, first_chunk=9)
    assert len(pictures) > 5
    assert '<progress value="1.0000" max="1">' in pictures[-2]
    assert all(column in pictures[-2] for column in COLUMNS)
    assert pictures[-1] == ""
    assert_same_run(result, whole_run(PRACTICAL))
    PRACTICAL.run(progress=True)
    assert f"{STEPS} / {STEPS}" in pictures[-1]
    pictures.clear()
    PRACTICAL.run(progress=False)
    assert pictures == []
    assert capsys.readouterr() == ("", "")
