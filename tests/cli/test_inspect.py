"""`verify`, `summary`, `report` and `audit`."""

import re

import pytest
from support.command_line import HOSTILE, run_command


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
        assert "practical + sgld: finished; 600 steps" in out
        assert len(re.findall(r"^\S+ +-?\d\.\d+ +\d", out, flags=re.MULTILINE)) == 2


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
