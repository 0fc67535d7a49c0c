"""The command line: its words, its exit codes, and what it writes."""

import csv
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from vrsgmcmc import cli
from vrsgmcmc.cli import COMMANDS, jobs
from vrsgmcmc.experiments import EXPERIMENTS, Outcome, Settings, gaussian, lstm_ptb, pima, record
from vrsgmcmc.reports import Report, Section, Table, figures
from vrsgmcmc.run.store.files import as_json
from vrsgmcmc.run.store.files import record as sum_of

HOSTILE = "<script>alert(1)</script>"
TRAVERSAL = "../../evil"


def run(arguments, capsys):
    """Exit code, stdout and stderr of a command, in this process."""
    capsys.readouterr()
    code = cli.main([str(word) for word in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


# words


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_the_commands_and_the_exit_codes(arguments, capsys):
    code, out, err = run(arguments, capsys)
    assert (code, err) == (0, "")
    for name, (_, told) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(told)}$", out, flags=re.MULTILINE)
    for text in ("2 bad input", "3 all chains diverged", "130 or 143"):
        assert text in out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(name, capsys):
    code, out, err = run([name, "--help"], capsys)
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: vrsgmcmc {name}")


def test_version(capsys):
    assert run(["--version"], capsys) == (0, f"vrsgmcmc {version('vrsgmcmc')}\n", "")


def test_list_shows_every_experiment_with_a_line_about_it(capsys):
    code, out, err = run(["reproduce", "--list"], capsys)
    assert (code, err) == (0, "")
    shown = dict(line.split("  ", 1) for line in out.splitlines())
    assert {name.strip(): text.strip() for name, text in shown.items()} == EXPERIMENTS


def test_every_key_of_a_configuration_is_a_flag(capsys):
    _, out, _ = run(["sample", "--help"], capsys)
    for text in (
        "--step-size",
        "--num-chains",
        "--no-intercept",
        "practical|minibatch",
        "--set KEY",
    ):
        assert text in out


HEAVY = {"jax", "jaxlib", "matplotlib", "numpy", "pandas", "pydantic", "scipy", "xarray", "zarr"}


def test_help_is_quick_because_nothing_heavy_is_imported():
    program = f"""
import sys
from vrsgmcmc.cli import main
for words in [["--help"], ["--version"], ["reproduce", "--list"], ["reproduce", "pimma"], ["walk"],
              ["sample", "a.csv", "--tarjet", "y"], *([name, "--help"] for name in {list(COMMANDS)!r})]:
    main(words)
print(sorted({HEAVY!r} & set(sys.modules)))
"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.splitlines()[-1] == "[]"
    assert (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.6
    )  # for all of them


def test_python_m_runs_the_same_program_and_returns_its_exit_code(tmp_path):
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    for arguments, code in ((["--version"], 0), (["walk"], 2)):
        command = [sys.executable, "-m", "vrsgmcmc", *arguments]
        done = subprocess.run(
            command, capture_output=True, cwd=tmp_path, env=environment, timeout=60
        )
        assert done.returncode == code


# reproduce


@pytest.fixture
def found(monkeypatch):
    """The command around an experiment, without the experiment."""
    report = Report("Title", "Lead.", [Section("Part", table=Table(("a",), [(1,)]))])
    outcome = Outcome(report, {"curves": [{"x": 1, "y": 2.5}]}, {"seeds": {"shown": 2}}, "a table")
    seen = []
    monkeypatch.setattr(pima, "run", lambda settings, _: seen.append(settings) or outcome)
    return seen


def test_reproduce_writes_tables_a_record_and_a_report(found, tmp_path, capsys):
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
    code, text, err = run(words, capsys)
    assert (code, err) == (0, "")
    assert text == f"a table\n\nThe report is {out / 'report.html'}\n"
    (settings,) = found
    assert (settings.size, settings.seeds, settings.methods) == ("smoke", 3, ("SGLD", "vr"))
    assert names_in(out) == {"curves.csv", "report.html", "run.json"}
    assert (out / "curves.csv").read_text().splitlines() == ["x,y", "1,2.5"]
    told = json.loads((out / "run.json").read_text())
    assert told["command"] == "vrsgmcmc " + " ".join(map(str, words))
    assert told["settings"]["seeds"] == 3
    assert told["versions"]["vrsgmcmc"] == version("vrsgmcmc")
    assert told["seeds"] == {"shown": 2}
    assert "vrsgmcmc reproduce pima" in (out / "report.html").read_text()
    assert run(words, capsys)[0] == 0  # again: the folder is ours


def names_in(folder):
    return {file.name for file in folder.iterdir()} - {record.LOCK}


def test_all_of_them_make_a_page_of_their_own(found, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("vrsgmcmc.cli.reproduce.EXPERIMENTS", {"gaussian": "", "pima": ""})
    monkeypatch.setattr(gaussian, "run", pima.run)
    monkeypatch.chdir(tmp_path)
    code, text, _ = run(["reproduce", "all", "--passes", "0.5"], capsys)
    assert code == 0
    assert text.splitlines()[-1] == "The report of everything is paper-report/report.html"
    assert names_in(tmp_path / "paper-report") == {"gaussian", "pima", "report.html", "run.json"}
    page = (tmp_path / "paper-report" / "report.html").read_text()
    assert "gaussian: Part" in page
    assert "pima: Part" in page
    assert [settings.passes for settings in found] == [0.5, 0.5]


@pytest.mark.parametrize("passes", ["0", "-1", "inf", "many"])
def test_passes_are_a_positive_number(passes, capsys):
    code, _, err = run(["reproduce", "pima", f"--passes={passes}"], capsys)
    assert code == 2
    assert "--passes" in err
    assert "number" in err


@pytest.mark.parametrize(
    ("name", "passes", "told"),
    [
        ("gaussian", "0.1", "methods, 1, cost .* data: vrSG-MCMC, n2 = 1: 0.21;"),
        ("pima", "0.5", r"methods, 10, cost .* data: .*SVRG-LD: 1.44"),
    ],
)
def test_a_budget_is_kept_or_refused(name, passes, told, tmp_path, capsys):
    words = ["reproduce", name, "--size", "paper", "--passes", passes, "--out", tmp_path / "report"]
    code, _, err = run(words, capsys)
    assert code == 2
    assert re.search(told, err)


def test_the_folder_has_a_name_when_none_is_given(found, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["reproduce", "pima", "pima"], capsys)[0] == 0
    assert [file.name for file in tmp_path.iterdir()] == ["pima-report"]
    assert len(found) == 1
    assert found[0].size == "small"


def test_results_are_not_replaced_by_those_of_other_settings(found, tmp_path, capsys):
    words = ["reproduce", "pima", "--out", tmp_path / "report"]
    assert run([*words, "--size", "paper"], capsys)[0] == 0
    before = (tmp_path / "report" / "run.json").read_bytes()
    for others in (["--size", "smoke"], [], ["--size", "paper", "--methods", "SGLD"]):
        code, _, err = run([*words, *others], capsys)
        assert code == 2
        assert "holds the results of `vrsgmcmc reproduce pima" in err
        assert "Name another folder" in err
    assert (tmp_path / "report" / "run.json").read_bytes() == before
    assert run([*words, "--size", "paper"], capsys)[0] == 0
    assert len(found) == 2


def test_two_commands_do_not_write_to_one_folder(found, tmp_path, capsys):
    words = ["reproduce", "pima", "--out", tmp_path / "report"]
    assert run(words, capsys)[0] == 0
    with store.exclusive(tmp_path / "report" / record.LOCK, ""):
        code, _, err = run(words, capsys)
    assert code == 2
    assert "another vrsgmcmc reproduce is writing to this folder" in err
    assert run(words, capsys)[0] == 0
    assert len(found) == 2


def test_a_word_for_methods_does_not_cut_a_number_short():
    methods = dict.fromkeys(["SGLD, n = 10", "vrSG-MCMC, n1 = 100", "vrSG-MCMC, n1 = 1000"])
    chosen = {
        word: list(Settings(methods=(word,)).pick_methods(methods))
        for word in ("N1 = 100", "vrsg", "n =", "n", "100")
    }
    assert chosen["N1 = 100"] == ["vrSG-MCMC, n1 = 100"]
    assert chosen["vrsg"] == list(methods)[1:]
    assert chosen["n ="] == ["SGLD, n = 10"]
    assert chosen["n"] == list(methods)
    assert chosen["100"] == ["vrSG-MCMC, n1 = 100"]
    with pytest.raises(ValueError, match="--methods n1 = 10: no method has this in its name"):
        Settings(methods=("n1 = 10",)).pick_methods(methods)


def test_methods_are_those_of_one_experiment(found, tmp_path, capsys):
    words = ["reproduce", "pima", "gaussian", "--methods", "SGLD", "--out", tmp_path / "report"]
    code, _, err = run(words, capsys)
    assert (code, found) == (2, [])
    assert "--methods SGLD: experiments have methods of their own. Name one experiment" in err
    assert not (tmp_path / "report").exists()


def test_a_record_that_was_cut_short_while_it_was_first_written_is_made_again(
    found, tmp_path, capsys
):
    (tmp_path / "run.json.part").write_text('{"program": "vrsg')
    assert run(["reproduce", "pima", "--out", tmp_path], capsys)[0] == 0
    assert not (tmp_path / "run.json.part").exists()


def test_a_folder_with_other_things_in_it_is_refused_and_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("years of work")
    code, _, err = run(["reproduce", "pima", "--out", tmp_path], capsys)
    assert code == 2
    assert f"--out {tmp_path}: this folder is not empty" in err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "content", ["", "[]", '{"program": "another", "experiment": "pima"}', '{"program": "vrsgmcmc"}']
)
def test_a_record_that_is_not_ours_does_not_open_a_folder(content, tmp_path, capsys):
    (tmp_path / "run.json").write_text(content)
    assert run(["reproduce", "pima", "--out", tmp_path], capsys)[0] == 2
    assert (tmp_path / "run.json").read_text() == content


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_an_experiment_which_the_same_command_begins_again(
    number, code, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(pima, "run", lambda *_: signal.raise_signal(number))
    before = signal.getsignal(signal.SIGTERM)
    found, _, err = run(["reproduce", "pima", "--out", tmp_path / "report"], capsys)
    assert (found, err.splitlines()[0]) == (code, "vrsgmcmc: interrupted.")
    assert f"The same command starts it again: vrsgmcmc reproduce pima --out {tmp_path}" in err
    assert names_in(tmp_path / "report") == {"run.json"}
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_full_disk_is_told_in_words(found, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "curves.csv")

    monkeypatch.setattr("vrsgmcmc.experiments.save_csv", full)
    code, _, err = run(["reproduce", "pima", "--out", tmp_path], capsys)
    assert (code, err) == (1, "vrsgmcmc: curves.csv: No space left on device\n")


def test_a_bug_is_told_in_words_and_its_traceback_is_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pima, "run", lambda *_: {}["nothing"])
    words = ["reproduce", "pima", "--out", tmp_path / "report"]
    code, _, err = run(words, capsys)
    assert code == 1
    assert "this should not happen: KeyError: 'nothing'" in err
    file = Path(re.search(r"The traceback is in (\S+);", err)[1])
    assert "Traceback" in file.read_text()
    file.unlink()
    assert cli.main([*map(str, words), "--debug"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    Path(re.search(r"The traceback is in (\S+);", err)[1]).unlink()


# ruff: noqa: E501 - one line for each mistake
# bad input: each answered in words, with code 2, and without a trace on disk

GOOD = "age,dose,group,outcome\n" + "".join(
    f"{30 + i},{i % 3},{'abc'[i % 3]},{i % 2}\n" for i in range(40)
)
FILES = {
    "good.csv": GOOD,
    "ragged.csv": "a,y\n1,2\n1\n",
    "empty.csv": "",
    "words.csv": "a,y\nx,1\n",
    "holes.csv": "a,y\n1,\n2,1\n",
    "binary.csv": b"\x00\xff\xfe",
    "numbers.csv": "1,2\n3,4\n",
    "one.csv": "a,y\n" + "".join(f"{i},1\n" for i in range(30)),
    "tiny.csv": "a,y\n1,0\n2,1\n",
    "table.xlsx": "",
    "broken.npz": b"PK",
    "good.toml": 'data = "good.csv"\ntarget = "outcome"\nmodel = "logistic"\nfeatures = ["age", "dose"]\n',
    "typo.toml": 'data = "good.csv"\ntarget = "outcome"\nmodle = "logistic"\n',
    "twice.toml": "seed = 1\nseed = 2\n",
    "nothing.toml": "",
    "broken.toml": "seed == 1\n",
    "code.toml": 'data = "good.csv"\ntarget = "outcome"\nmodel = "evil.py:build"\n',
    "evil.py": "open('evil.txt', 'w').close()\ndef build(x, y):\n    pass\n",
    "syntax.py": "def build(x, y)\n    pass\n",
    "raises.py": "def build(x, y):\n    return 1 / 0\n",
    "number.py": "build = 5\n",
    "starts.py": "import vrsgmcmc as vr\ndef build(x, y):\n    p = vr.models.logistic.posterior()\n"
    "    return p, lambda key: undefined\n",
    "returns.py": "def build(x, y):\n    return x\n",
}
SAMPLE = ["sample", "good.csv", "--target", "outcome", "--features", "age", "dose"]
GIVEN = [*SAMPLE, "--model", "logistic", "--step-size", "0.01"]
BAD = {
    "command": (["reproduc"], "unknown command 'reproduc'. Did you mean reproduce?"),
    "command like nothing": (["walk"], "unknown command 'walk'. See vrsgmcmc --help."),
    "option": (["--verion"], "unknown option '--verion'."),
    "no experiment": (["reproduce"], "reproduce what? Name an experiment: gaussian, pima"),
    "experiment": (["reproduce", "pimma"], "unknown experiment 'pimma'. Did you mean pima?"),
    "size": (["reproduce", "pima", "--size", "huge"], "invalid choice: 'huge'"),
    "seeds": (["reproduce", "pima", "--seeds", "many"], "invalid whole number value: 'many'"),
    "seeds 0": (["reproduce", "pima", "--seeds", "0"], "--seeds must be at least 1, got 0."),
    "option of reproduce": (["reproduce", "pima", "--seed", "1"], "'--seed'. Did you mean --seeds?"),
    "option without value": (["reproduce", "pima", "--out"], "argument --out: expected one argument"),
    "out is a file": (["reproduce", "pima", "--out", "good.csv"], "this is a file. Name a folder"),
    "out below a file": (["reproduce", "pima", "--out", "good.csv/x"], "--out good.csv/x: Not a directory"),
    "no file": (["sample"], "the following arguments are required: FILE"),
    "file is missing": (["sample", "none.csv", "--target", "y", "--model", "logistic"], "none.csv: no such file"),
    "config is missing": (["sample", "none.toml"], "none.toml: no such file."),
    "kind of file": (["sample", "table.xlsx", "--target", "y", "--model", "mlp"], "ends in .csv, .tsv, .npz"),
    "no target": (["sample", "good.csv", "--model", "logistic"], "target is not given: it is the column"),
    "no model": (["sample", "good.csv", "--target", "outcome"], "model is not given: it is logistic, softmax"),
    "target": ([*SAMPLE[:2], "--target", "outcom", "--model", "mlp"], "Did you mean 'outcome'?"),
    "feature": ([*SAMPLE, "--features", "agee", "--model", "mlp"], "no column 'agee'. Did you mean 'age'?"),
    "model": ([*SAMPLE, "--model", "logistik"], "got 'logistik'. Did you mean logistic?"),
    "flag": ([*GIVEN, "--num-chain", "3"], "unknown option '--num-chain'. Did you mean --num-chains?"),
    "flag twice": ([*GIVEN, "--step-size", "0.02"], "--step-size is given twice."),
    "flag and set": ([*GIVEN, "--set", "step_size=1"], "--set step_size and --step-size are both given."),
    "set twice": ([*GIVEN, "--set", "seed=1", "--set", "seed=2"], "--set seed is given twice."),
    "set without value": ([*GIVEN, "--set", "seed"], "write --set KEY=VALUE"),
    "set unknown": ([*GIVEN, "--set", "chains=3"], "unknown key 'chains'."),
    "one word more": ([*GIVEN, "--seed", "1", "again"], "one word too many: 'again'."),
    "step": ([*SAMPLE, "--model", "logistic", "--step-size", "fast"], "step_size: must be a finite number"),
    "step 0": ([*SAMPLE, "--model", "logistic", "--step-size", "0"], "step_size: must be greater than 0"),
    "step negative": ([*SAMPLE, "--model", "logistic", "--step-size=-1"], "greater than 0, got -1"),
    "step nan": ([*SAMPLE, "--model", "logistic", "--step-size", "nan"], "must be a finite number, got nan"),
    "chains": ([*GIVEN, "--num-chains", "0"], "num_chains: must be greater than or equal to 1, got 0."),
    "steps": ([*GIVEN, "--num-steps", "1.5"], "num_steps: must be a whole number, got 1.5."),
    "burn-in": ([*GIVEN, "--num-steps", "9", "--burn-in", "9"], "sample(burn_in=9): num_steps=9 includes"),
    "thin": ([*GIVEN, "--num-steps", "9", "--thin", "100"], "sample(thin=100): only 8 steps follow burn_in"),
    "batch": ([*GIVEN, "--batch-size", "500"], "batch_size=500"),
    "n2 >= n1": ([*GIVEN, "--batch-size", "9", "--anchor-size", "9"], "anchor_size"),
    "n1 > N": ([*GIVEN, "--anchor-size", "500"], "anchor_size=500"),
    "temperature": ([*GIVEN, "--temperature=-1"], "temperature: must be greater than or equal to 0"),
    "friction": ([*GIVEN, "--integrator", "sghmc"], "integrator sghmc needs a friction"),
    "word": ([*GIVEN, "--integrator", "splitting", "--friction", "1", "--word", "XYZ"], "word"),
    "order": ([*GIVEN, "--order", "random"], "order: must be one of with_replacement"),
    "clip": ([*GIVEN, "--clip", "0"], "clip: must be greater than 0"),
    "no step for an estimator": ([*SAMPLE, "--model", "mlp", "--estimator", "saga"], "but no step_size"),
    "budget": ([*SAMPLE, "--model", "logistic", "--budget", "some"], "plan(budget='some'): write a number"),
    "test fraction": ([*GIVEN, "--test-fraction", "1"], "test_fraction: must be less than 1"),
    "task": ([*GIVEN, "--task", "regression"], "model logistic is for classification"),
    "ragged": (["sample", "ragged.csv", "--target", "y", "--model", "mlp"], "line 3 has 1 cells"),
    "empty": (["sample", "empty.csv", "--target", "y", "--model", "mlp"], "empty.csv is empty"),
    "words": (["sample", "words.csv", "--target", "y", "--model", "mlp"], "line 2, column 'a': 'x' is not"),
    "holes": (["sample", "holes.csv", "--target", "y", "--model", "mlp"], "1 in column 'y' (first in line 2)"),
    "not text": (["sample", "binary.csv", "--target", "y", "--model", "mlp"], "binary.csv is not UTF-8"),
    "no header": (["sample", "numbers.csv", "--target", "y", "--model", "mlp"], "the first line holds numbers"),
    "one class": (["sample", "one.csv", "--target", "y", "--model", "logistic"], "'1' in every row"),
    "two rows": (["sample", "tiny.csv", "--target", "y", "--model", "logistic"], "leaves both some rows"),
    "three classes": (
        ["sample", "good.csv", "--target", "group", "--model", "logistic"],
        "has 3 classes (a, b, c), and logistic tells two apart. Use --model softmax.",
    ),
    "text for a number": (["sample", "good.csv", "--target", "group", "--model", "linear"], "'a' in line 2"),
    "broken arrays": (["sample", "broken.npz", "--target", "y", "--model", "mlp"], "broken.npz cannot be read"),
    "key of a config": (["sample", "typo.toml"], "unknown key 'modle'. Did you mean model?"),
    "key twice": (["sample", "twice.toml"], "a key is given twice"),
    "empty config": (["sample", "nothing.toml"], "data is not given"),
    "broken config": (["sample", "broken.toml"], "this is no TOML"),
    "code in a config": (["sample", "code.toml"], "names code, and a configuration cannot"),
    "code in a setting": ([*SAMPLE, "--set", "model=evil.py:build"], "code is named by the flag alone"),
    "no such model file": ([*SAMPLE, "--model", "none.py:build"], "there is no file none.py"),
    "no such function": ([*SAMPLE, "--model", "evil.py:other"], "evil.py has no function other"),
    "no Python file": ([*SAMPLE, "--model", "good.csv:build"], "write FILE.py:FUNCTION"),
    "a model that does not parse": ([*SAMPLE, "--model", "syntax.py:build"], "could not be loaded: line 1"),
    "a model that fails": ([*SAMPLE, "--model", "raises.py:build"], "line 2: ZeroDivisionError"),
    "a start that fails": ([*SAMPLE, "--model", "starts.py:build"], "init(key) failed: line 4: NameError"),
    "a model that is a number": ([*SAMPLE, "--model", "number.py:build"], "has no function build"),
    "a model that returns data": ([*SAMPLE, "--model", "returns.py:build"], "must return (posterior, init)"),
    "out is not empty": ([*GIVEN, "--out", "."], "--out . is not empty and not a run: it holds"),
    "out of sample is a file": ([*GIVEN, "--out", "good.csv"], "--out good.csv: this is a file."),
    "resume nothing": (["resume", "none"], "none: no such directory."),
    "resume no run": (["resume", "."], ".: no run: it has no job.json."),
    "verify no run": (["verify", "none"], "none is not a run directory."),
    "summary of no run": (["summary", "."], "'.' is not a run directory: it has no commit.json."),
    "report of no run": (["report", "none"], "'none' is not a run directory"),
    "report of nothing": (["report"], "the following arguments are required: RUN"),
    "audit of no run": (["audit", "none"], "none: no such directory."),
    "plan with a step": (["plan", *GIVEN[1:]], "step_size is given, so there is nothing to plan."),
    "check typo": (["check", "typo.toml"], "unknown key 'modle'."),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with files, good and bad, where the command runs."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_answered_in_words_and_with_code_2(name, folder, capsys):
    arguments, message = BAD[name]
    code, out, err = run(arguments, capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert err.rsplit("vrsgmcmc: ", 1)[1].strip()
    left = {file.name for file in folder.iterdir()} - set(FILES) - {"__pycache__"}
    assert left <= ({"evil.txt"} if name == "no such function" else set())


def test_there_are_at_least_sixty():
    assert len(BAD) >= 60


# sample, and what can be done with a run

ROWS = 60


def table_text(label=HOSTILE):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 2))
    y = x[:, 0] + 0.5 * rng.normal(size=ROWS) > 0
    lines = [f"{a:.4f},{b:.4f},{label if c else 'no'}" for (a, b), c in zip(x, y, strict=True)]
    return "\n".join([f"{HOSTILE},{TRAVERSAL},=outcome", *lines]) + "\n"


SETTINGS = [
    "--no-intercept",
    "--num-chains",
    "2",
    "--batch-size",
    "4",
    "--anchor-size",
    "20",
    "--thin",
    "2",
]
COMMAND = ["--target", "=outcome", "--step-size", "0.02", *SETTINGS]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A finished run, which nobody changes."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "table.csv").write_text(table_text())
    words = ["sample", folder / "table.csv", *COMMAND, "--model", "logistic", "--num-steps", "600"]
    assert cli.main([*map(str, words), "--out", str(folder / "run")]) == 0
    return folder


@pytest.fixture
def finished(shared, tmp_path):
    """A copy of it: a run can be moved, and needs nothing outside its directory."""
    shutil.copytree(shared / "run", tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def undrawn(monkeypatch):
    """Reports without the time that their figures take."""

    def save(figure, path):
        for suffix in (".png", ".svg"):
            path.with_name(path.name + suffix).write_text("<svg/>")
        return [f"{path.name}.png", f"{path.name}.svg"]

    monkeypatch.setattr(figures, "save", save)


def test_a_run_is_a_directory_with_everything_in_it(finished):
    names = {file.name for file in finished.iterdir()}
    assert names == {"job.json", "data.safetensors", "chains", "figures", "findings.json",
                     "predictions.csv", "report.html"}  # fmt: skip
    told = json.loads((finished / "job.json").read_text())
    assert told["settings"]["estimator"] == {"name": "practical", "anchor_size": 20}
    assert told["settings"]["burn_in"] == 120
    assert told["table"]["labels"] == [HOSTILE, "no"]
    assert told["config"]["data"] == "table.csv"
    assert set(json.loads((finished / "findings.json").read_text())) == {
        "test_log_likelihood",
        "accuracy",
        "brier_score",
        "calibration_error",
    }


def test_predictions_are_probabilities_of_the_test_rows(finished, shared):
    with (finished / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    lines = (shared / "table.csv").read_text().splitlines()
    assert len(rows) == ROWS // 5
    for row in rows:
        each = float(row[f"P({HOSTILE})"]), float(row["P(no)"])
        assert sum(each) == pytest.approx(1)
        assert row["predicted"] == ((HOSTILE, "no") if each[0] > each[1] else ("no", HOSTILE))[0]
        assert lines[int(row["row"]) - 1].split(",")[2] == row["actual"]
    right = np.mean([row["predicted"] == row["actual"] for row in rows])
    assert right == json.loads((finished / "findings.json").read_text())["accuracy"]
    assert right > 0.7


def test_hostile_names_are_escaped_and_lead_nowhere(shared):
    page = (shared / "run" / "report.html").read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert TRAVERSAL in page
    assert {file.name for file in shared.iterdir()} == {"table.csv", "run"}
    assert not (shared.parent / "evil").exists()
    assert not (shared.parent.parent / "evil").exists()
    record = (shared / "run" / "chains" / "environment.json").read_text()
    assert str(Path.home()) not in record


def test_a_finished_run_is_loaded_and_not_run_again(finished, shared, undrawn, capsys, monkeypatch):
    monkeypatch.setattr("vrsgmcmc.run.loop.Run.go", lambda self: pytest.fail("ran again"))
    before = (finished / "chains" / "commit.json").read_bytes()
    words = ["sample", shared / "table.csv", *COMMAND, "--model", "logistic", "--num-steps", "600"]
    for again in (["resume", finished], [*words, "--out", finished]):
        code, out, _ = run(again, capsys)
        assert code == 0
        assert "test log likelihood: -0." in out
    assert (finished / "chains" / "commit.json").read_bytes() == before


def test_another_configuration_or_other_data_are_refused_with_a_difference(
    finished, shared, capsys
):
    words = ["sample", shared / "table.csv", *COMMAND, "--model", "logistic", "--out", finished]
    code, _, err = run([*words, "--num-steps", "700"], capsys)
    assert code == 2
    assert f"--out {finished} holds another run:\n  num_steps: 600 in the run, 700 here" in err
    other = finished.parent / "table.csv"
    other.write_text(table_text().replace("0.", "1.", 1))
    code, _, err = run(["sample", other, *words[2:], "--num-steps", "600"], capsys)
    assert code == 2
    assert "data.sha256: " in err


@pytest.mark.parametrize("name", ["data.safetensors", "job.json"])
def test_a_job_that_a_full_disk_left_unfinished_is_written_by_the_same_command(name, finished):
    """A limit on the size of files stands for the disk: the data do not fit, or only the record."""
    job, out = jobs.load(finished), finished.parent / "unfinished"
    data, record = ((finished / each).stat().st_size for each in ("data.safetensors", "job.json"))
    assert 100 < data < record
    whole = (job.config, job.ready, job.choice, job.command)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (data if name == "job.json" else 100, limits[1]))
    try:
        with pytest.raises(OSError, match=f"no room to write {name}.*run the same again"):
            jobs.save(out, *whole)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert jobs.find(out, *whole[:2]) is None
    jobs.save(out, *whole)
    assert jobs.find(out, *whole[:2]) is not None
    assert jobs.verify(out) == []
    assert {file.name for file in out.iterdir()} == {"data.safetensors", "job.json"}


@pytest.mark.parametrize(
    "names", [["data.safetensors"], ["job.json.part", "data.safetensors", "thesis.tex"]]
)
def test_a_folder_that_only_looks_like_an_unfinished_job_is_refused(names, finished):
    job, out = jobs.load(finished), finished.parent / "own"
    out.mkdir()
    for name in names:
        (out / name).write_text("years of work")
    with pytest.raises(ValueError, match=r"is not empty and not a run: it holds data\.safet"):
        jobs.find(out, job.config, job.ready)


def test_verify_says_that_all_is_well(finished, capsys):
    assert run(["verify", finished], capsys)[0] == 0
    code, out, _ = run(["verify", finished / "chains"], capsys)
    assert (code, out) == (0, f"{finished / 'chains'}: every file is as it was committed.\n")


@pytest.mark.parametrize("name", ["job.json", "data.safetensors", "chains/state-1.safetensors"])
def test_verify_finds_a_flipped_bit_and_resume_does_not_use_it(name, finished, capsys):
    names = sorted((finished / "chains").glob("state-*"))
    file = names[-1] if name.startswith("chains") else finished / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    code, out, _ = run(["verify", finished], capsys)
    assert code == 1
    assert file.name in out
    if not name.startswith("chains"):
        code, _, err = run(["resume", finished], capsys)
        assert code == 2
        assert f"{file.name} is damaged" in err


def test_summary_needs_neither_data_nor_model(finished, capsys):
    (finished / "report.html").unlink()
    for path in (finished, finished / "chains"):
        code, out, err = run(["summary", path], capsys)
        assert (code, err) == (0, "")
        assert "practical + sgld: finished; 600 steps" in out
        assert len(re.findall(r"^\S+ +-?\d\.\d+ +\d", out, flags=re.MULTILINE)) == 2


def test_report_is_written_again_and_several_are_compared(finished, capsys):
    page = (finished / "report.html").read_text()
    (finished / "report.html").unlink()
    assert run(["report", finished], capsys)[0] == 0
    seconds = r"seconds</t[hd]>.*?</tr>"  # as far as the last commit knows them
    assert re.sub(seconds, "", page, flags=re.DOTALL) == re.sub(
        seconds, "", (finished / "report.html").read_text(), flags=re.DOTALL
    )
    out = finished.parent / "compared"
    code, _, _ = run(["report", finished, finished / "chains", "--out", out], capsys)
    assert code == 0
    text = (out / "report.html").read_text()
    assert "Side by side" in text
    assert HOSTILE not in text
    assert run(["report", finished / "chains"], capsys)[0] == 0
    assert (finished / "chains" / "report.html").is_file()


def test_audit_gives_a_verdict(finished, capsys):
    code, out, _ = run(["audit", finished], capsys)
    assert code == 0
    assert re.match("(no )?gain: practical makes posterior variances", out)


def test_a_run_of_the_library_cannot_be_resumed_from_here(finished, capsys):
    code, _, err = run(["resume", finished / "chains"], capsys)
    assert code == 2
    assert "its model is in your program: run that program again with run_dir" in err


def rewrite(path, change):
    """A record that was changed, with a right checksum: as an attacker would write it."""
    told = json.loads((path / "job.json").read_text())
    told.pop("sha256")
    change(told)
    (path / "job.json").write_bytes(as_json({**told, "sha256": sum_of(as_json(told)).sha256}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda told: told["config"].update(model="evil.py:build"), "must be one of logistic"),
        (lambda told: told["config"].update(model="own"), "a run directory cannot name code"),
        (lambda told: told["config"].update(surprise=1), "unknown key 'surprise'"),
        (
            lambda told: told["files"].update({"../../table.csv": [1, ""]}),
            "names a file that is none",
        ),
        (lambda told: told["settings"]["estimator"].update(name="ito"), "unknown estimator 'ito'"),
        (
            lambda told: told["settings"]["integrator"].update(name="os.system"),
            "unknown integrator",
        ),
        (
            lambda told: told["settings"]["estimator"].update(surprise=1),
            "not the settings of a run",
        ),
        (lambda told: told["settings"].update(run_dir="elsewhere"), "not the settings of a run"),
        (lambda told: told.update(format="vrsgmcmc job 9"), "of the format 'vrsgmcmc job 9'"),
        (lambda told: told.pop("table"), "is not the record of a job"),
        (lambda told: told.update(table=[]), "is not the record of a job"),
    ],
)
def test_a_record_can_name_neither_code_nor_files(change, message, finished, capsys, monkeypatch):
    monkeypatch.chdir(finished.parent)
    Path("evil.py").write_text(FILES["evil.py"])
    rewrite(finished, change)
    code, _, err = run(["resume", finished], capsys)
    assert code == 2
    assert message in err
    assert not Path("evil.txt").exists()


OWN = """
from vrsgmcmc.models import logistic

def build(x, y):
    return logistic.posterior(), logistic.initial(x.shape[1]), logistic.predict
"""


def test_a_model_of_one_s_own_is_named_each_time(shared, undrawn, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my_model.py").write_text(OWN)
    words = ["sample", shared / "table.csv", *COMMAND, "--num-steps", "600", "--out", "run"]
    code, out, _ = run([*words, "--model", "my_model.py:build"], capsys)
    assert code == 0
    assert "accuracy" in out
    assert "my_model" not in (Path("run") / "job.json").read_text().replace("--model my_model", "")
    Path("my_model.py").rename("moved.py")
    for words in (["resume", "run"], ["audit", "run"]):
        code, _, err = run(words, capsys)
        assert code == 2
        assert "Give it again: --model FILE.py:FUNCTION." in err
        assert run([*words, "--model", "moved.py:build"], capsys)[0] == 0
    code, _, err = run(["resume", shared / "run", "--model", "moved.py:build"], capsys)
    assert code == 2
    assert "is logistic. Leave --model out." in err


def test_all_chains_diverged_is_code_3(shared, undrawn, tmp_path, capsys):
    words = [
        "sample",
        shared / "table.csv",
        *COMMAND[2:],
        "--model",
        "logistic",
        "--num-steps",
        "600",
    ]
    words[words.index("0.02")] = "1e30"
    code, out, err = run([*words, "--target", "=outcome", "--out", tmp_path / "run"], capsys)
    assert code == 3
    assert "every chain became non-finite. chain 0 became non-finite at step" in err
    assert "Try a step size of" in err
    assert "wrote findings.json, report.html" in out
    assert run(["resume", tmp_path / "run"], capsys)[0] == 3


def when_committed(path, number):
    """Send this process a signal as soon as a run has a commit."""

    def wait():
        while not (path / "chains" / "commit.json").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), number)

    threading.Thread(target=wait, daemon=True).start()


def test_a_signal_leaves_a_run_that_goes_on(shared, tmp_path, capsys):
    out = tmp_path / "long run"
    words = [
        "sample",
        shared / "table.csv",
        *COMMAND,
        "--model",
        "logistic",
        "--num-steps",
        "100000000",
    ]
    words[words.index("--thin") + 1] = "1000000"
    when_committed(out, signal.SIGTERM)
    code, _, err = run([*words, "--out", out], capsys)
    assert code == 143
    assert "everything is committed. Go on with: vrsgmcmc resume '" in err
    for command in ("report", "audit"):
        code, _, err = run([command, out], capsys)
        assert code == 2
        assert "is interrupted at step" in err
    code, text, _ = run(["summary", out], capsys)
    assert code == 0
    first = int(re.search(r"interrupted at step (\d+)", text)[1])
    when_committed(out, signal.SIGINT)
    code, _, err = run(["resume", out], capsys)
    assert code == 130
    assert int(re.search(r"interrupted at step ([\d,]+)", err)[1].replace(",", "")) > first
    assert run(["verify", out], capsys)[0] == 0


def test_check_tells_shapes_memory_and_time_and_writes_nothing(
    shared, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = ["check", shared / "table.csv", *COMMAND, "--model", "logistic"]
    code, out, _ = run(words, capsys)
    assert code == 0
    for text in ("48 rows to train, 12 to test, 2 columns", "parameters: 2 (x [2])", "gradient norm",
                 "time: about", "memory: ", "disk: about"):  # fmt: skip
        assert text in out
    assert list(tmp_path.iterdir()) == []


# the page about the command line

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
    code, _, err = run(words, capsys)
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
    Path("config.toml").write_text(blocks("toml")[0])
    Path("my_model.py").write_text(OWN)
    for line in EXAMPLES:
        _, *words = shlex.split(line)
        if words[0] not in ("reproduce", "data"):
            code, out, _ = run(words, capsys)
            assert code == 0, line
        if words[0] == "plan":  # its lines are those of a configuration
            lines = 'data = "patients.csv"\ntarget = "outcome"\nmodel = "logistic"\n' + out
            Path("planned.toml").write_text(lines)
            assert run(["sample", "planned.toml", "--out", "planned-run"], capsys)[0] == 0
    assert Path("compared/report.html").is_file()
