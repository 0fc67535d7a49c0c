"""The directory of a job: when it is written, and what its record cannot do."""

import resource
from pathlib import Path

import pytest
from support.command_line import EVIL, rewrite, run_command

from vrsgmcmc.cli import jobs


@pytest.mark.parametrize("name", ["data.safetensors", "job.json"])
def test_a_job_that_a_full_disk_left_unfinished_is_written_by_the_same_command(name, finished_run):
    """A limit on the size of files stands for the disk: the data do not fit, or only the record."""
    job, out = jobs.load(finished_run), finished_run.parent / "unfinished"
    data, record = (
        (finished_run / each).stat().st_size for each in ("data.safetensors", "job.json")
    )
    assert 100 < data < record
    whole = (job.config, job.rows, job.choice, job.command)
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
def test_a_folder_that_only_looks_like_an_unfinished_job_is_refused(names, finished_run):
    job, out = jobs.load(finished_run), finished_run.parent / "own"
    out.mkdir()
    for name in names:
        (out / name).write_text("years of work")
    with pytest.raises(ValueError, match=r"is not empty and not a run: it holds data\.safet"):
        jobs.find(out, job.config, job.rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record["config"].update(model="evil.py:build"), "must be one of linear"),
        (lambda record: record["config"].update(model="own"), "a run directory cannot name code"),
        (lambda record: record["config"].update(surprise=1), "unknown key 'surprise'"),
        (
            lambda record: record["files"].update({"../../table.csv": [1, ""]}),
            "names a file that is none",
        ),
        (
            lambda record: record["settings"]["estimator"].update(name="ito"),
            "unknown estimator 'ito'",
        ),
        (
            lambda record: record["settings"]["integrator"].update(name="os.system"),
            "unknown integrator",
        ),
        (
            lambda record: record["settings"]["estimator"].update(surprise=1),
            "not the settings of a run",
        ),
        (
            lambda record: record["settings"].update(run_dir="elsewhere"),
            "not the settings of a run",
        ),
        (lambda record: record.update(format="vrsgmcmc job 9"), "of the format 'vrsgmcmc job 9'"),
        (lambda record: record.pop("table"), "is not the record of a job"),
        (lambda record: record.update(table=[]), "is not the record of a job"),
        (lambda record: record["table"].update(place="page"), "are not as they were written"),
        (
            lambda record: record["table"].update(notes=["x" * 10_001]),
            "are not as they were written",
        ),
        (lambda record: record.pop("recipe"), "is not the record of a job"),
        (lambda record: record.update(recipe=[]), "the recipe cannot be read"),
        (lambda record: record["recipe"].update(surprise=1), "the recipe cannot be read: surprise"),
        (lambda record: record["recipe"]["steps"].pop(), "train_x is float64[48, 2]"),
        (lambda record: record["recipe"]["steps"][0].update(scale=0.0), "steps.0.scale"),
        (lambda record: record["recipe"]["steps"][0].update(scale="1"), "steps.0.scale"),
        (
            lambda record: record["recipe"]["sources"][0].update(key="exec(1)"),
            "is not among the sources",
        ),
        (
            lambda record: record["recipe"]["target"].update(labels=["no"]),
            "the train rows are none of this recipe",
        ),
        (lambda record: record["recipe"]["target"].update(kind="number"), "train_y is int32[48]"),
        (lambda record: record["recipe"]["target"].update(model="rm -rf"), "rm -rf"),
    ],
)
def test_a_record_can_name_neither_code_nor_files(
    change, message, finished_run, capsys, monkeypatch
):
    monkeypatch.chdir(finished_run.parent)
    Path("evil.py").write_text(EVIL)
    rewrite(finished_run, change)
    code, _, err = run_command(["resume", finished_run], capsys)
    assert code == 2
    assert message in err
    assert not Path("evil.txt").exists()
