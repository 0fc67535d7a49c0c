"""`verify`, `summary`, `report` and `audit`."""

import os
import re
import shutil

import pytest
from support.command_line import COMMAND, HOSTILE, run_command
from support.small_runs import everything_in


def test_verify_says_that_all_is_well(finished_run, capsys):
    assert run_command(["verify", finished_run], capsys)[0] == 0
    code, out, _ = run_command(["verify", finished_run / "chains"], capsys)
    assert (code, out) == (0, f"{finished_run / 'chains'}: every file is as it was committed.\n")


@pytest.mark.parametrize("name", ["job.json", "data.safetensors", "chains/state-1.safetensors"])
def test_verify_finds_a_flipped_bit_and_resume_does_not_use_it(name, finished_run, capsys):
    names = sorted((finished_run / "chains").glob("state-*"))
    file = names[-1] if name.startswith("chains") else finished_run / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    code, out, _ = run_command(["verify", finished_run], capsys)
    assert code == 1
    assert file.name in out
    if not name.startswith("chains"):
        code, _, err = run_command(["resume", finished_run], capsys)
        assert code == 2
        assert f"{file.name} is damaged" in err


def test_summary_needs_neither_data_nor_model(finished_run, capsys):
    (finished_run / "report.html").unlink()
    for path in (finished_run, finished_run / "chains"):
        code, out, err = run_command(["summary", path], capsys)
        assert (code, err) == (0, "")
        assert "practical + sgld: finished; 12,000 steps" in out
        assert len(re.findall(r"^\S+ +-?\d\.\d+ +\d", out, flags=re.MULTILINE)) == 3


def test_report_is_written_again_and_several_are_compared(finished_run, capsys):
    page = (finished_run / "report.html").read_text()
    (finished_run / "report.html").unlink()
    assert run_command(["report", finished_run], capsys)[0] == 0
    seconds = r"seconds</t[hd]>.*?</tr>"  # as far as the last commit knows them
    assert re.sub(seconds, "", page, flags=re.DOTALL) == re.sub(
        seconds, "", (finished_run / "report.html").read_text(), flags=re.DOTALL
    )
    out = finished_run.parent / "compared"
    code, _, _ = run_command(
        ["report", finished_run, finished_run / "chains", "--out", out], capsys
    )
    assert code == 0
    text = (out / "report.html").read_text()
    assert "Side by side" in text
    assert HOSTILE not in text
    assert run_command(["report", finished_run / "chains"], capsys)[0] == 0
    assert (finished_run / "chains" / "report.html").is_file()


def test_audit_gives_a_verdict(finished_run, capsys):
    code, out, _ = run_command(["audit", finished_run], capsys)
    assert code == 0
    assert re.match("(no )?gain: practical makes posterior variances", out)


OUTPUTS = ["findings.json", "predictions.csv", "report.html", "figures"]


def first_file(path):
    return sorted(path.iterdir())[0] if path.is_dir() else path


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("change", ["alter", "cut", "delete", "pipe"])
def test_verify_covers_what_is_made_of_a_result(name, change, finished_run, capsys):
    file = first_file(finished_run / name)
    content = file.read_bytes()
    file.unlink()
    if change == "pipe":
        os.mkfifo(file)
    elif change != "delete":
        file.write_bytes(content[:-9] + b"9" * 9 if change == "alter" else content[:-9])
    code, out, _ = run_command(["verify", finished_run], capsys)
    assert code == 1
    assert str(file.relative_to(finished_run)) in out
    assert "as it was committed" not in out


def test_verify_says_which_files_have_no_sum(finished_run, capsys):
    (finished_run / "findings.sha256").unlink()
    code, out, _ = run_command(["verify", finished_run], capsys)
    assert code == 0
    assert "not checked, because no sum of them was written: findings.json, pred" in out
    assert out.endswith(": every other file is as it was committed.\n")
    (finished_run / "findings.sha256").write_text("0  ../../etc/passwd\n")
    code, out, _ = run_command(["verify", finished_run], capsys)
    assert code == 1
    assert "findings.sha256 is damaged" in out


def test_summary_does_not_show_a_score_that_was_changed(finished_run, capsys):
    file = finished_run / "findings.json"
    content = file.read_text()
    _, out, err = run_command(["summary", finished_run], capsys)
    assert "accuracy: " in out
    assert err == ""
    file.write_text(re.sub(r'"accuracy": [^,]+', '"accuracy": 0.999', content))
    code, out, err = run_command(["summary", finished_run], capsys)
    assert code == 0
    assert "accuracy" not in out
    assert "findings.json was changed, so its scores are not shown" in err
    file.write_text(content)
    (finished_run / "findings.sha256").unlink()
    _, out, err = run_command(["summary", finished_run], capsys)
    assert "accuracy: " in out
    assert "findings.json has no sum, so its scores could not be checked" in err
    file.unlink()
    os.mkfifo(file)
    code, out, err = run_command(["summary", finished_run], capsys)
    assert code == 0
    assert "a named pipe" in err


@pytest.mark.parametrize(
    "name", [*OUTPUTS, "findings.sha256", "chains", "job.json", "chains/run.lock"]
)
def test_no_command_follows_a_link_out_of_a_job(name, finished_run, without_figures, capsys):
    outside, link = finished_run.parent / "outside", finished_run / name
    link.rename(outside)
    link.symlink_to(outside)
    before = everything_in(outside) if outside.is_dir() else outside.read_bytes()
    for command in ("resume", "report", "summary", "verify"):
        code, _, err = run_command([command, finished_run], capsys)
        assert code in (0, 1, 2)
        assert "should not happen" not in err
    assert (everything_in(outside) if outside.is_dir() else outside.read_bytes()) == before


def test_a_report_of_a_bare_run_is_covered_too(finished_run, without_figures, capsys):
    path = finished_run / "chains"
    assert run_command(["report", path], capsys)[0] == 0
    code, out, _ = run_command(["verify", path], capsys)
    assert (code, out) == (0, f"{path}: every file is as it was committed.\n")
    (path / "report.html").write_text("altered")
    assert run_command(["verify", path], capsys)[0] == 1


def test_the_chains_of_another_job_are_refused(finished_run, shared_folder, tmp_path, capsys):
    """Every file inside is whole; only seed, settings and data show that it belongs elsewhere."""
    words = ["sample", shared_folder / "table.csv", *COMMAND, "--model", "logistic"]
    words += ["--num-steps", "12000", "--seed", "5", "--out", tmp_path / "other"]
    assert run_command(words, capsys)[0] == 0
    shutil.rmtree(finished_run / "chains")
    (tmp_path / "other" / "chains").rename(finished_run / "chains")
    for command, code in (("summary", 2), ("verify", 1), ("report", 2), ("resume", 2)):
        answer = run_command([command, finished_run], capsys)
        assert answer[0] == code
        assert "seed" in answer[1] + answer[2]


def test_verify_misses_the_chains(finished_run, capsys):
    shutil.rmtree(finished_run / "chains")
    code, out, _ = run_command(["verify", finished_run], capsys)
    assert (code, out) == (1, "chains: missing, though its findings are there\n")
    for file in ("findings.sha256", "findings.json", "report.html", "predictions.csv"):
        (finished_run / file).unlink()
    shutil.rmtree(finished_run / "figures")
    code, out, _ = run_command(["verify", finished_run], capsys)
    assert code == 0
    assert out.startswith("nothing is sampled yet")
