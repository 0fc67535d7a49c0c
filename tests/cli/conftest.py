"""Runs of the command line that several files read."""

import shutil

import pytest
from support.command_line import COMMAND, table_text

from vrsgmcmc import cli
from vrsgmcmc.reports import writer


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """A finished run, which nobody changes."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "table.csv").write_text(table_text())
    words = [
        "sample",
        folder / "table.csv",
        *COMMAND,
        "--model",
        "logistic",
        "--num-steps",
        "12000",
    ]
    assert cli.main([*map(str, words), "--out", str(folder / "run")]) == 0
    return folder


@pytest.fixture
def finished_run(shared_folder, tmp_path):
    """A copy of it: a run can be moved, and needs nothing outside its directory."""
    shutil.copytree(shared_folder / "run", tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def without_figures(monkeypatch):
    """Reports without the time that their figures take."""

    monkeypatch.setattr(writer, "render", lambda figure, *kinds: {"png": b"", "svg": b"<svg/>"})
