"""Tables with the flaws of tables: the design is what a person would expect, and says each step."""

import numpy as np
import pandas as pd
import pytest

from vrsgmcmc.datasets.tables import Recipe, treat

N = 40
RNG = np.random.default_rng(1)
X = RNG.normal(size=N)
Y = np.where(np.arange(N) % 3, "no", "yes")


def table(**columns):
    return {"x": X, "y": Y} | columns


def names(design):
    return [column.name for column in design.columns]


def raw(design, name):
    """A column of the design in the units of the table."""
    column = design.columns[names(design).index(name)]
    return design.x[:, names(design).index(name)] * column.scale + column.center


def said(design, *parts):
    return any(all(part in note for part in parts) for note in design.notes)


def test_text_becomes_levels_with_a_reference():
    cut = np.resize(["Ideal", "Fair", "Good", "Ideal"], N)
    design = treat(table(cut=cut), "y")
    assert names(design) == ["x", "cut[Good]", "cut[Ideal]"]
    np.testing.assert_allclose(raw(design, "cut[Good]"), cut == "Good", atol=1e-12)
    level = design.columns[2]
    assert (level.kind, level.level, level.reference) == ("level", "Ideal", "Fair")
    assert (level.center, level.scale, level.sources) == (0.5, 1.0, ("cut",))
    assert said(design, "'cut' has 3 levels; the reference is 'Fair'")
    every = treat(table(cut=cut), "y", levels="all")
    assert names(every) == ["x", "cut[Fair]", "cut[Good]", "cut[Ideal]"]
    scaled = treat(table(cut=cut), "y", scale_levels=True)
    np.testing.assert_allclose(scaled.x.std(0), 1)


def test_the_order_of_a_pandas_category_stays():
    size = pd.Categorical(np.resize(["S", "M", "L"], N), ["S", "M", "L"], ordered=True)
    frame = pd.DataFrame(table()).assign(size=size)
    assert names(treat(frame, "y")) == ["x", "size[M]", "size[L]"]


def test_many_levels_are_grouped():
    town = np.array([f"t{i % 60:02}" if i % 2 else f"big{i % 3}" for i in range(400)])
    design = treat({"x": np.arange(400.0), "town": town, "y": np.resize(["a", "b"], 400)}, "y")
    assert names(design)[-1] == "town[(other)]"
    assert len(names(design)) == 1 + 29
    assert said(design, "'town' has 33 levels; the 4 least frequent, in", "'(other)'")
    new = design.recipe.apply({"x": [1.0], "town": ["never seen"]})
    assert new.x[0, -1] == 1 - design.columns[-1].center


def test_names_and_ids_are_left_out():
    people = [f"Person {i}" for i in range(N)]
    numbers = RNG.permutation(N) + 100
    design = treat(
        table(name=people, PassengerId=numbers, ticket_id=numbers + 0.0, valid=X**2), "y"
    )
    assert names(design) == ["x", "valid"]
    assert said(design, "Left out", "name, PassengerId, ticket_id")
    with pytest.raises(ValueError, match="'name' cannot be used, since of its cells most differ"):
        treat(table(name=people), "y", features=("name", "x"))


@pytest.mark.parametrize("code", ["", "-", "NA", "?", ".", "N/A", "null", None, " na ", "NaN"])
def test_missing_cells_are_dropped_or_imputed(code):
    z = [str(value) for value in np.arange(N)]
    z[3] = code
    design = treat(table(z=z), "y")
    assert names(design) == ["x", "z"]
    assert design.rows.tolist() == [row for row in range(N) if row != 3]
    assert said(
        design,
        "1 of 40 rows have missing cells and were left out: 1 in column 'z' (first in row 3)",
    )
    imputed = treat(table(z=z), "y", missing="impute")
    assert names(imputed) == ["x", "z", "z[missing]"]
    assert raw(imputed, "z")[3] == pytest.approx(np.median([v for v in range(N) if v != 3]))
    np.testing.assert_allclose(raw(imputed, "z[missing]"), np.arange(N) == 3, atol=1e-12)
    assert imputed.columns[2].kind == "missing"
    with pytest.raises(ValueError, match=r"cells are missing: 1 in column 'z' \(first in row 3\)"):
        treat(table(z=z), "y", missing="refuse")


def test_many_missing_cells_are_imputed_and_text_gets_a_level():
    z = np.arange(float(N))
    z[:10] = np.nan
    g = np.resize(["a", "b"], N).astype(object)
    g[5:15] = None
    design = treat(table(z=z, g=g), "y")
    assert len(design.x) == N
    assert names(design) == ["x", "z", "g[b]", "g[(missing)]", "z[missing]"]
    assert said(design, "15 of 40 rows have missing cells", "10 in column 'z'", "10 in column 'g'")
    new = design.recipe.apply({"x": [0.0], "z": [None], "g": ["?"]})
    np.testing.assert_allclose(new.x[0, 1:], design.x[5, 1:])


def test_other_codes_are_missing_only_if_said():
    z = np.arange(float(N))
    z[7] = -999
    plain = treat(table(z=z), "y")
    assert raw(plain, "z")[7] == pytest.approx(-999)
    assert said(plain, "'z' is -999 in 1 rows, and was read as that number")
    assert len(treat(table(z=z), "y", na=["-999"]).x) == N - 1
    words = [*map(str, range(N - 1)), "unknown"]
    with pytest.raises(
        ValueError, match=r"row 39, column 'z': 'unknown' is not a number, and 97\.5%"
    ):
        treat(table(z=words), "y")
    assert len(treat(table(z=words), "y", na=["unknown"]).x) == N - 1


def test_rows_without_a_target_are_left_out():
    y = Y.astype(object)
    y[:30] = None
    design = treat(table(y=y), "y")
    assert len(design.x) == 10
    assert said(design, "30 rows without 'y', the target, were left out")


@pytest.mark.parametrize(
    ("form", "note"),
    [("%Y-%m-%d", "year-month-day"), ("%d.%m.%Y", "%d.%m.%Y"), ("%m/%d/%Y", "%m/%d/%Y"),
     ("%b %d, %Y", "%b %d, %Y"), ("%Y-%m-%dT%H:%M:%SZ", "year-month-day")],
)  # fmt: skip
def test_dates_become_days(form, note):
    days = pd.Timestamp("2020-02-20") + pd.to_timedelta(np.arange(N)[::-1] * 3, "D")
    design = treat(table(when=days.strftime(form)), "y")
    np.testing.assert_allclose(raw(design, "when"), 3 * np.arange(N)[::-1], atol=1e-9)
    assert design.columns[1].kind == "date"
    assert said(design, "'when' is the number of days since 2020-02-20")
    assert said(design, note)
    same = treat(pd.DataFrame(table(when=days)), "y")
    np.testing.assert_allclose(same.x, design.x, atol=1e-12)
    new = design.recipe.apply({"x": [0.0], "when": [pd.Timestamp("2021-02-19").strftime(form)]})
    assert new.x[0, 1] * design.columns[1].scale + design.columns[1].center == pytest.approx(365)


def test_dates_that_can_be_read_twice_are_said():
    when = [f"{1 + i % 12:02}/{1 + i % 11:02}/2021" for i in range(N)]
    assert said(treat(table(when=when), "y"), "day and month exchanged")


@pytest.mark.parametrize(
    ("cell", "value"),
    [("$1,151", 1151), ("$1,151.50", 1151.5), ("1 234 567", 1234567), ("12.5 %", 12.5), ("(12)", -12),
     ("-€3", -3), ("3,000,000", 3e6), ("1e3", 1000), ("+4", 4), ("5 USD", 5), ("\u22127", -7)],
)  # fmt: skip
def test_money_percent_and_thousands_are_numbers(cell, value):
    z = [str(number) for number in range(N)]
    z[3] = cell
    assert raw(treat(table(z=z), "y"), "z")[3] == pytest.approx(value)


@pytest.mark.parametrize("cell", ["1,15", "1_000", "0x10", "1.2.3", "--1", "$", "(1", "1)", "inf%"])
def test_what_only_looks_like_a_number_is_none(cell):
    with pytest.raises(ValueError, match="is not a number"):
        treat(table(z=[*map(str, range(N - 1)), cell]), "y")


def test_booleans_are_levels():
    flags = np.arange(N) % 2 == 0
    design = treat(table(flag=flags, word=np.where(flags, "TRUE", "FALSE")), "y")
    assert names(design) == ["x", "flag[True]"]
    np.testing.assert_allclose(raw(design, "flag[True]"), flags, atol=1e-12)
    assert said(design, "'word[TRUE]' repeats flag[True]")
    assert design.recipe.apply({"x": [0.0], "flag": ["true"]}).x[0, 1] == 0.5


def test_constant_and_empty_columns_are_left_out():
    design = treat(table(one=np.ones(N), none=[None] * N, word=["a"] * N), "y")
    assert names(design) == ["x"]
    assert said(design, "no cell of them has a value: none")
    assert said(design, "Columns that are constant were left out: one")


def test_columns_that_follow_from_others_are_named():
    z = RNG.normal(size=N)
    columns = table(z=z, inches=X / 2.54, both=3 * X - 2 * z, other=z**2)
    design = treat(columns, "y")
    assert names(design) == ["x", "z", "other"]
    assert said(design, "'inches' repeats x, 'both' is a sum of multiples of x, z")
    both = treat(columns, "y", collinear="keep")
    assert names(both) == ["x", "z", "inches", "both", "other"]
    assert said(both, "stay in", "'inches' repeats x")


def test_columns_that_nearly_repeat_others_stay():
    design = treat(table(z=X + 1e-4 * RNG.normal(size=N)), "y")
    assert names(design) == ["x", "z"]


def test_more_columns_than_rows():
    columns = {f"c{j}": RNG.normal(size=20) for j in range(30)}
    design = treat({"y": np.arange(20.0), **columns, "again": columns["c3"] * 2}, "y")
    assert names(design) == list(columns)
    assert said(design, "'again' repeats c3")


def test_numbers_with_few_values_stay_numbers():
    assert names(treat(table(children=np.arange(N) % 4), "y")) == ["x", "children"]


def test_the_test_rows_teach_nothing():
    z = np.arange(float(N))
    g = np.resize(["a", "b"], N).astype(object)
    design = treat(table(z=z, g=g), "y", test_fraction=0.25, seed=5)
    test = design.test
    assert (len(design.x), len(test.x)) == (30, 10)
    assert sorted([*design.rows, *test.rows]) == list(range(N))
    np.testing.assert_allclose(
        design.x[:, 1], (z[design.rows] - z[design.rows].mean()) / z[design.rows].std()
    )
    np.testing.assert_allclose(
        test.x[:, 1] * design.columns[1].scale + design.columns[1].center, z[test.rows]
    )
    assert [design.target.labels[code] for code in test.y] == Y[test.rows].tolist()
    g[test.rows[0]] = "only here"
    rare = treat(table(z=z, g=g), "y", test_fraction=0.25, seed=5)
    assert names(rare) == ["x", "z", "g[b]"]
    assert said(
        rare, "In the test rows: 'g' has 1 levels that the training rows do not have, in 1 rows"
    )


def test_new_rows():
    g = np.resize(["a", "b"], N)
    design = treat(table(g=g, extra=X**2), "y", features=("x", "g"), groups=())
    recipe = Recipe.from_json(design.recipe.to_json())
    new = recipe.apply({"g": ["b", "zebra", "a"], "x": [1.0, 2.0, np.nan], "other": [0, 0, 0]})
    assert new.rows.tolist() == [0, 1]
    assert "'zebra'" in new.notes[0]
    assert "'a'" in new.notes[0]  # the reference
    assert (
        "1 rows with missing cells were left out: 1 in column 'x' (first in row 2)" in new.notes[1]
    )
    np.testing.assert_allclose(new.x[:, 1], [0.5, -0.5])
    with pytest.raises(ValueError, match="has no column 'x'"):
        recipe.apply({"g": ["a"]})
    with pytest.raises(ValueError, match="row 0, column 'x': 'many' is no number"):
        recipe.apply({"g": ["a"], "x": ["many"]})


def test_groups():
    g = np.resize(["s1", "s2", "s3", "s4"], N)
    design = treat(table(g=g), "y", groups=("g",))
    assert names(design) == ["x"]
    (group,) = design.groups
    assert group.levels == ("s1", "s2", "s3", "s4")
    new = design.recipe.apply({"x": [0.0, 1.0], "g": ["s9", "s2"]})
    assert new.groups[0].tolist() == [-1, 1]
    assert any("'g' has a level" in note for note in new.notes)
    alone = treat({"y": X, "school": np.arange(N) % 5}, formula="y ~ (1 | school)")
    assert alone.x.shape == (N, 0)
    assert alone.groups[0].levels == ("0", "1", "2", "3", "4")


def test_a_name_that_is_no_formula():
    design = treat({"a b": X, "log(x)": X**2, "x": X**3, "y": Y, "`": X**4}, "y")
    assert names(design) == ["a b", "log(x)", "x", "`"]
    again = Recipe.from_json(design.recipe.to_json()).apply(
        {"a b": X, "log(x)": X**2, "x": X**3, "`": X**4}
    )
    np.testing.assert_allclose(again.x, design.x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "yy"}, "has no column 'yy'. Did you mean 'y'?"),
        ({"features": ("z",)}, "has no column 'z'"),
        ({"levels": "first"}, "levels is one of 'drop_first', 'all'"),
        ({"missing": "mean"}, "missing is one of"),
        ({"target": ""}, "target is missing"),
        ({"test_fraction": 1.5}, "test_fraction must lie strictly between 0 and 1"),
        ({"formula": "y ~ x", "features": ("x",)}, "not both"),
        ({"formula": "x ~ y"}, "target is 'y'"),
    ],
)
def test_mistakes_are_explained(change, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        treat(table(), **{"target": "y"} | change)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("z", "message"),
    [
        (np.where(np.arange(N) == 3, np.inf, 1.0), "1 infinite values in column 'z', .* row 3"),
        (np.where(np.arange(N) % 2, 1e308, -1e308), "too large"),
        ([[1]] * N, "needs one axis"),
        ([{}] * N, "a cell holds a dict"),
        (np.ones(N, complex), "dtype complex128"),
        (np.ones(3), "must have the same length"),
    ],
)  # fmt: skip
def test_cells_that_cannot_be_meant_are_refused(z, message):
    with pytest.raises(ValueError, match=message):
        treat(table(z=z), "y")


def test_everything_constant_is_refused():
    with pytest.raises(ValueError, match="every column is constant"):
        treat({"x": np.ones(N), "y": Y}, "y")
    with pytest.raises(ValueError, match="has no column to predict 'y' from"):
        treat({"y": Y}, "y")
