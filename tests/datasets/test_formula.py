"""Formulas: the same columns as formulaic gives, and nothing of a formula or a recipe is run."""

import json

import formulaic
import numpy as np
import pandas as pd
import pytest

from vrsgmcmc.datasets import tables
from vrsgmcmc.datasets.tables.formula import parse_formula

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "y": RNG.normal(size=60),
        "x": RNG.uniform(1, 9, 60),
        "w": RNG.uniform(1, 2, 60),
        "z": RNG.integers(0, 3, 60),
        "g": RNG.choice(["a", "b", "c"], 60),
        "h": RNG.choice(["low", "high"], 60),
        "a b": RNG.normal(size=60),
    }
)


def values(design):
    """The columns before they are centred and scaled."""
    return design.x * [c.scale for c in design.columns] + [c.center for c in design.columns]


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x + w",
        "y ~ x*w - w",
        "y ~ (x + w)**2",
        "y ~ x + C(z) + x:C(z)",
        "y ~ x*g*h",
        "y ~ g:h + x",
        "y ~ x:g",
        "y ~ log(x) + sqrt(w) + I(x**2 / w) + exp(-w)",
        "y ~ center(x) + scale(w)",
        "y ~ poly(x, 3) + bs(w, df=5)",
        "y ~ poly(x, 2, raw=True):g",
        "y ~ `a b`:x + 1",
        "y ~ C(g, levels=['b', 'a', 'c'])",
    ],
)
def test_the_columns_are_those_of_formulaic(formula):
    """In the same order, or at least of the same span: some codings of levels differ."""
    ours = tables.treat(FRAME, formula=formula)
    theirs = formulaic.model_matrix(formula.replace("sqrt(w)", "I(w**0.5)"), FRAME).rhs
    theirs = np.asarray(theirs.drop(columns="Intercept"), float)
    assert values(ours).shape == theirs.shape
    full = np.column_stack([np.ones(60), values(ours)])
    for column in theirs.T:
        solved = np.linalg.lstsq(full, column, rcond=None)[0]
        np.testing.assert_allclose(full @ solved, column, atol=1e-8)
    if "g" not in formula:
        np.testing.assert_allclose(values(ours), theirs, atol=1e-9)


def test_names_say_what_the_columns_are():
    design = tables.treat(
        FRAME, formula="y ~ x + C(z) + x:g + log(w) + bs(x, df=4) + `a b` + (1 | h)"
    )
    assert [c.name for c in design.columns] == [
        "x", "C(z)[1]", "C(z)[2]", "log(w)", "bs(x, df=4)[1]", "bs(x, df=4)[2]", "bs(x, df=4)[3]",
        "a b", "x:g[b]", "x:g[c]",
    ]  # fmt: skip  # bs(x, df=4)[4] is there, too, or x is a sum of it: see the notes
    assert any("bs(x, df=4)[4]" in note for note in design.notes)
    assert design.columns[1] == tables.Column(
        "C(z)[1]", ("z",), design.columns[1].center, 1.0, "level", "1", "0"
    )
    assert design.columns[-1].sources == ("x", "g")
    assert design.columns[-1].kind == "interaction"
    (group,) = design.groups
    assert (group.name, group.levels) == ("h", ("high", "low"))
    np.testing.assert_array_equal(np.array(group.levels)[group.codes], FRAME["h"])


def test_a_dot_is_every_other_column():
    design = tables.treat(FRAME, formula="log(x) ~ . + w:z + (1 | h)")
    names = [c.name for c in design.columns]
    assert names == ["y", "w", "z", "g[b]", "g[c]", "a b", "w:z"]
    assert (design.target.name, design.target.kind) == ("log(x)", "number")
    np.testing.assert_allclose(
        design.y * design.target.scale + design.target.center, np.log(FRAME["x"])
    )


def test_functions_that_learn_use_the_same_numbers_for_new_rows():
    formula = "y ~ center(x) + scale(w):g + poly(x, 3) + bs(w, df=5) + C(z)"
    design = tables.treat(FRAME, formula=formula, collinear="keep")
    recipe = tables.Recipe.from_json(design.recipe.to_json())
    again = recipe.apply(FRAME.iloc[[7, 3]])
    np.testing.assert_allclose(again.x, design.x[[7, 3]], rtol=0, atol=1e-12)
    beyond = FRAME.iloc[[0]].assign(w=2.5)  # outside of the knots
    assert np.isfinite(recipe.apply(beyond).x).all()


def test_a_test_part_is_not_learned_from():
    design = tables.treat(FRAME, formula="y ~ scale(x)", test_fraction=0.5, seed=3)
    test = FRAME.iloc[design.test.rows]
    train = FRAME.iloc[design.rows]
    assert set(test.index) | set(train.index) == set(range(60))
    x = (test["x"] - train["x"].mean()) / train["x"].std(ddof=0)
    np.testing.assert_allclose(design.test.x[:, 0], x)


HOSTILE = [
    "y ~ __import__('os').system('touch exploded')",
    "y ~ x.__class__",
    "y ~ x.sum()",
    "y ~ open('exploded', 'w')",
    "y ~ I(open('exploded', 'w'))",
    "y ~ I(x.__class__)",
    "y ~ I(x[0])",
    "y ~ x[0]",
    "y ~ I([x])",
    "y ~ I((lambda: x)())",
    "y ~ I(x if x else x)",
    "y ~ I(x := 3)",
    "y ~ {__import__('os')}",
    "y ~ log(x, out=x)",
    "y ~ log(*x)",
    "y ~ log(log)(x)",
    "y ~ I(x and x)",
    "y ~ I('a')",
    "y ~ I(f'{x}')",
    "y ~ I(v0_) + eval(x)",
    "y ~ np.log(x)",
    "y ~ exec(x)",
    "y ~ getattr(x, 'a')",
    "y ~ poly(x, degree=open('exploded'))",
    "y ~ poly(x, 10**9)",
    "y ~ poly(x, 999999999)",
    "y ~ bs(x, df=999999999)",
    "y ~ log(poly(x, 2))",
    "y ~ C(x, contr.treatment('a'))",
    "y ~ C(open('exploded'))",
    "y ~ x; import os",
    "y ~ x\x00",
    "y ~ 'x'",
    "y ~ x ~ x",
    "y ~ x %in% g",
    "y ~ \\x41",
    "__import__('os') ~ x",
]


@pytest.mark.parametrize("formula", HOSTILE)
def test_a_formula_runs_nothing(formula, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^formula: |has no column 'x\.__class__'"):
        tables.treat(FRAME, formula=formula)
    assert not list(tmp_path.iterdir())


LETTERS = [f"c{i}" for i in range(40)]
LONG = {
    "characters": "y ~ " + "x + " * 2000 + "x",
    "parentheses": "y ~ " + "(" * 500 + "x" + ")" * 500,
    "parentheses in a call": "y ~ I(" + "(" * 900 + "x" + ")" * 900 + ")",
    "minus signs": "y ~ I(" + "-" * 3000 + "x)",
    "products": "y ~ " + "*".join(LETTERS),
    "a power of sums": f"y ~ ({' + '.join(LETTERS)})**5",
    "powers of powers": f"y ~ (((({' + '.join(LETTERS)})**5)**5)**5)**5",
    "an open parenthesis": "y ~ log(x",
    "a large power": "y ~ x**99999999",
    "nothing": "y ~ ",
    "powers of numbers": "y ~ I(x * 9**9**9**9**9**9**9)",
    "digits": "y ~ I(x + " + "9" * 3000 + ")",
}


@pytest.mark.parametrize("name", LONG)
def test_a_formula_that_grows_is_refused_before_it_does(name):
    with pytest.raises(ValueError, match=r"^formula: "):
        tables.treat(FRAME, formula=LONG[name])


MISTAKES = {
    "y ~ xx": "has no column 'xx'. Did you mean 'x'?",
    "y ~ lag(x)": "'lag' is no function of formulas. Did you mean 'log'?",
    "y ~ 0 + x": "models here have an intercept",
    "y ~ x - 1": "models here have an intercept",
    "y ~ (x | g)": "group effects are intercepts",
    "y ~ (1 | g + h)": "one column follows the bar",
    "y ~ x + (1 | k)": "has no column 'k'",
    "y ~ log(g)": "log(g) needs numbers, and 'g' has levels",
    "y ~ log(`a b`)": "log(`a b`) is no finite number in",
    "log(`a b`) ~ x": "is no finite number in",
    "y ~ C(g, levels=['a', 'b'])": "does not list 'c', which 'g' has",
    "~ x": "has no target",
    "scale(y) ~ x": "Write the plain column",
}


@pytest.mark.parametrize("formula", MISTAKES)
def test_a_mistake_in_a_formula_is_explained(formula):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        tables.treat(FRAME, formula=formula)
    assert MISTAKES[formula] in str(error.value)


def test_terms_are_each_there_once():
    parsed = parse_formula("y ~ a:b + b:a + a*b + a + (a + b)**2 + (1 | g) + (1|g) - b")
    assert parsed.terms == (("a",), ("a", "b"))
    assert parsed.groups == ("g",)
    assert parsed.response == "y"


CHANGES = {
    "a call that runs": lambda r: r["calls"][0].update(text="__import__('os').getcwd()"),
    "a call without its numbers": lambda r: r["calls"][0].update(state=[]),
    "a call with few numbers": lambda r: r["calls"][0].update(state=[[1.0]]),
    "an unknown key": lambda r: r.update(code="x"),
    "a number as text": lambda r: r["steps"][0].update(center="1"),
    "a number that is not finite": lambda r: r["steps"][0].update(center=float("nan")),
    "a scale of 0": lambda r: r["steps"][0].update(scale=0.0),
    "no atoms": lambda r: r["steps"][0].update(atoms=[]),
    "an unknown source": lambda r: r["steps"][0]["atoms"][0].update(expression="q"),
    "a large part": lambda r: r["steps"][0]["atoms"][0].update(part=7),
    "an unknown level": lambda r: r["steps"][-1]["atoms"][0].update(level="q"),
    "a source without levels": lambda r: r["sources"][0].update(levels=[]),
    "another version": lambda r: r.update(version=2),
    "a name without end": lambda r: r["steps"][0].update(name="x" * 10**5),
    "a target of another kind": lambda r: r["target"].update(kind="text"),
    "a fill of another type": lambda r: r["sources"][0].update(fill="x"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_recipe_that_was_changed_is_refused(name):
    design = tables.treat(FRAME, formula="y ~ poly(x, 3) + g")
    stored = json.loads(design.recipe.to_json())
    CHANGES[name](stored)
    with pytest.raises(ValueError, match="recipe"):
        tables.Recipe.from_json(json.dumps(stored)).apply(FRAME)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", "1" * 5000, "[" * 10**5, '{"version": 1}']
)
def test_a_text_that_is_no_recipe_is_refused(text):
    with pytest.raises(ValueError, match="the recipe cannot be read"):
        tables.Recipe.from_json(text)
