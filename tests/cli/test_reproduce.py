"""`reproduce`: its folder, its files, and what ends it."""

import json
import re
import signal
from importlib.metadata import version
from pathlib import Path

import pytest
from support.command_line import run_command

from vrsgmcmc import cli
from vrsgmcmc.experiments import Outcome, Settings, gaussian, pima, record
from vrsgmcmc.reports import Report, Section, Table
from vrsgmcmc.run import store


@pytest.fixture
def runs(monkeypatch):
    """The settings of each run of pima, which is replaced by a fixed outcome."""
    report = Report("Title", "Lead.", [Section("Part", table=Table(("a",), [(1,)]))])
    outcome = Outcome(report, {"curves": [{"x": 1, "y": 2.5}]}, {"seeds": {"shown": 2}}, "a table")
    calls = []
    monkeypatch.setattr(pima, "run", lambda settings, _: calls.append(settings) or outcome)
    return calls


def test_reproduce_writes_tables_a_record_and_a_report(runs, tmp_path, capsys):
    out = tmp_path / "new" / "report"
    words = [
        "reproduce",
        "pima",
        "--size",
        "smoke",
        "--seeds",
        "3",
        "--methods",
        "SGLD",
        "vr",
        "--out",
        out,
    ]
    code, text, err = run_command(words, capsys)
    assert (code, err) == (0, "")
    assert text == f"a table\n\nThe report is {out / 'report.html'}\n"
    (settings,) = runs
    assert (settings.size, settings.seeds, settings.methods) == ("smoke", 3, ("SGLD", "vr"))
    assert names_in(out) == {"curves.csv", "report.html", "run.json"}
    assert (out / "curves.csv").read_text().splitlines() == ["x,y", "1,2.5"]
    content = json.loads((out / "run.json").read_text())
    assert content["command"] == "vrsgmcmc " + " ".join(map(str, words))
    assert content["settings"]["seeds"] == 3
    assert content["versions"]["vrsgmcmc"] == version("vrsgmcmc")
    assert content["seeds"] == {"shown": 2}
    assert "vrsgmcmc reproduce pima" in (out / "report.html").read_text()


@pytest.mark.parametrize("lost", [None, "report.html", "run.json"])
def test_what_is_finished_is_not_run_again(lost, runs, tmp_path, capsys):
    out = tmp_path / "report"
    words = ["reproduce", "pima", "--out", out]
    assert run_command(words, capsys)[0] == 0
    if lost is not None:
        (out / lost).unlink()
    if lost == "run.json":  # the mark of a run that was interrupted
        (out / lost).write_text('{"program": "vrsgmcmc", "experiment": "pima", "unfinished": true}')
    before = {file: file.read_bytes() for file in out.iterdir()}
    code, text, _ = run_command(words, capsys)
    assert code == 0
    assert text.endswith(f"The report is {out / 'report.html'}\n")
    assert len(runs) == (1 if lost is None else 2)
    if lost is None:
        assert "pima was finished earlier, by vrsgmcmc " in text
        assert f"To run it again, remove {out}." in text
        assert {file: file.read_bytes() for file in out.iterdir()} == before


def names_in(folder):
    return {file.name for file in folder.iterdir()} - {record.LOCK}


def test_all_of_them_make_a_page_of_their_own(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("vrsgmcmc.cli.reproduce.EXPERIMENTS", {"gaussian": "", "pima": ""})
    monkeypatch.setattr(gaussian, "run", pima.run)
    monkeypatch.chdir(tmp_path)
    code, text, _ = run_command(["reproduce", "all", "--passes", "0.5"], capsys)
    assert code == 0
    assert text.splitlines()[-1] == "The report of everything is paper-report/report.html"
    assert names_in(tmp_path / "paper-report") == {"gaussian", "pima", "report.html", "run.json"}
    page = (tmp_path / "paper-report" / "report.html").read_text()
    assert "gaussian: Part" in page
    assert "pima: Part" in page
    assert [settings.passes for settings in runs] == [0.5, 0.5]
    code, text, _ = run_command(["reproduce", "all", "--passes", "0.5"], capsys)
    assert (code, len(runs)) == (0, 2)  # nothing was run
    assert text.splitlines()[-1] == "The report of everything is paper-report/report.html"
    (tmp_path / "paper-report" / "pima" / "report.html").unlink()
    assert run_command(["reproduce", "all", "--passes", "0.5"], capsys)[0] == 0
    assert len(runs) == 4  # the page of all needs every outcome


@pytest.mark.parametrize("passes", ["0", "-1", "inf", "many"])
def test_passes_are_a_positive_number(passes, capsys):
    code, _, err = run_command(["reproduce", "pima", f"--passes={passes}"], capsys)
    assert code == 2
    assert "--passes" in err
    assert "number" in err


@pytest.mark.parametrize(
    ("name", "passes", "message"),
    [
        ("gaussian", "0.1", "methods, 1, cost .* data: vrSG-MCMC, n2 = 1: 0.21;"),
        ("pima", "0.5", r"methods, 10, cost .* data: .*SVRG-LD: 1.44"),
    ],
)
def test_a_budget_is_kept_or_refused(name, passes, message, tmp_path, capsys):
    words = ["reproduce", name, "--size", "paper", "--passes", passes, "--out", tmp_path / "report"]
    code, _, err = run_command(words, capsys)
    assert code == 2
    assert re.search(message, err)


def test_the_folder_has_a_name_when_none_is_given(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_command(["reproduce", "pima", "pima"], capsys)[0] == 0
    assert [file.name for file in tmp_path.iterdir()] == ["pima-report"]
    assert len(runs) == 1
    assert runs[0].size == "small"


def test_results_are_not_replaced_by_those_of_other_settings(runs, tmp_path, capsys):
    words = ["reproduce", "pima", "--out", tmp_path / "report"]
    assert run_command([*words, "--size", "paper"], capsys)[0] == 0
    before = (tmp_path / "report" / "run.json").read_bytes()
    for others in (["--size", "smoke"], [], ["--size", "paper", "--methods", "SGLD"]):
        code, _, err = run_command([*words, *others], capsys)
        assert code == 2
        assert "holds the results of `vrsgmcmc reproduce pima" in err
        assert "Name another folder" in err
    assert (tmp_path / "report" / "run.json").read_bytes() == before
    assert run_command([*words, "--size", "paper"], capsys)[0] == 0
    assert len(runs) == 1


def test_two_commands_do_not_write_to_one_folder(runs, tmp_path, capsys):
    words = ["reproduce", "pima", "--out", tmp_path / "report"]
    assert run_command(words, capsys)[0] == 0
    with store.exclusive(tmp_path / "report" / record.LOCK, ""):
        code, _, err = run_command(words, capsys)
    assert code == 2
    assert "another vrsgmcmc reproduce is writing to this folder" in err
    assert run_command(words, capsys)[0] == 0
    assert len(runs) == 1


def test_a_word_for_methods_does_not_cut_a_number_short():
    methods = dict.fromkeys(["SGLD, n = 10", "vrSG-MCMC, n1 = 100", "vrSG-MCMC, n1 = 1000"])
    selection = {
        word: list(Settings(methods=(word,)).pick_methods(methods))
        for word in ("N1 = 100", "vrsg", "n =", "n", "100")
    }
    assert selection["N1 = 100"] == ["vrSG-MCMC, n1 = 100"]
    assert selection["vrsg"] == list(methods)[1:]
    assert selection["n ="] == ["SGLD, n = 10"]
    assert selection["n"] == list(methods)
    assert selection["100"] == ["vrSG-MCMC, n1 = 100"]
    with pytest.raises(ValueError, match="--methods n1 = 10: no method has this in its name"):
        Settings(methods=("n1 = 10",)).pick_methods(methods)


def test_methods_are_those_of_one_experiment(runs, tmp_path, capsys):
    words = ["reproduce", "pima", "gaussian", "--methods", "SGLD", "--out", tmp_path / "report"]
    code, _, err = run_command(words, capsys)
    assert (code, runs) == (2, [])
    assert "--methods SGLD: experiments have methods of their own. Name one experiment" in err
    assert not (tmp_path / "report").exists()


MISTAKES = [["pima", "--methods", "nothing"], ["pima", "--passes", "1e-6"]]


@pytest.mark.parametrize("words", [*MISTAKES, ["all", "--passes", "1e-6"]], ids=" ".join)
def test_a_mistake_leaves_no_folder(words, tmp_path, capsys):
    for out in (tmp_path / "new" / "report", tmp_path / "report"):
        code, _, err = run_command(["reproduce", *words, "--out", out], capsys)
        assert (code, list(tmp_path.iterdir())) == (2, [])
        assert f"vrsgmcmc: {' '.join(words[1:])}".replace("1e-6", "1e-06") in err


def test_a_mistake_does_not_empty_a_folder_that_was_there(tmp_path, capsys):
    assert run_command(["reproduce", *MISTAKES[0], "--out", tmp_path], capsys)[0] == 2
    assert names_in(tmp_path) == {"run.json"}


def test_a_record_that_was_cut_short_while_it_was_first_written_is_made_again(
    runs, tmp_path, capsys
):
    (tmp_path / "run.json.part").write_text('{"program": "vrsg')
    assert run_command(["reproduce", "pima", "--out", tmp_path], capsys)[0] == 0
    assert not (tmp_path / "run.json.part").exists()


def test_a_folder_with_other_things_in_it_is_refused_and_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("years of work")
    code, _, err = run_command(["reproduce", "pima", "--out", tmp_path], capsys)
    assert code == 2
    assert f"--out {tmp_path}: this folder is not empty" in err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "content", ["", "[]", '{"program": "another", "experiment": "pima"}', '{"program": "vrsgmcmc"}']
)
def test_a_record_that_is_not_ours_does_not_open_a_folder(content, tmp_path, capsys):
    (tmp_path / "run.json").write_text(content)
    assert run_command(["reproduce", "pima", "--out", tmp_path], capsys)[0] == 2
    assert (tmp_path / "run.json").read_text() == content


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_an_experiment_which_the_same_command_begins_again(
    number, code, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(pima, "run", lambda *_: signal.raise_signal(number))
    before = signal.getsignal(signal.SIGTERM)
    exit_code, _, err = run_command(["reproduce", "pima", "--out", tmp_path / "report"], capsys)
    assert (exit_code, err.splitlines()[0]) == (code, "vrsgmcmc: interrupted.")
    assert f"The same command starts it again: vrsgmcmc reproduce pima --out {tmp_path}" in err
    assert names_in(tmp_path / "report") == {"run.json"}
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_full_disk_is_told_in_words(runs, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "curves.csv")

    monkeypatch.setattr("vrsgmcmc.experiments.save_csv", full)
    code, _, err = run_command(["reproduce", "pima", "--out", tmp_path], capsys)
    assert (code, err) == (1, "vrsgmcmc: curves.csv: No space left on device\n")


def test_a_bug_is_told_in_words_and_its_traceback_is_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pima, "run", lambda *_: {}["nothing"])
    words = ["reproduce", "pima", "--out", tmp_path / "report"]
    code, _, err = run_command(words, capsys)
    assert code == 1
    assert "this should not happen: KeyError: 'nothing'" in err
    file = Path(re.search(r"The traceback is in (\S+);", err)[1])
    assert "Traceback" in file.read_text()
    file.unlink()
    assert cli.main([*map(str, words), "--debug"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    Path(re.search(r"The traceback is in (\S+);", err)[1]).unlink()
