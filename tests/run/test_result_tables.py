"""Tables, files and notebooks: pandas, netCDF, HTML."""

import html
import re
from html.parser import HTMLParser

import numpy as np
import pandas
import pytest
import xarray
from support.results import result_of

from vrsgmcmc.run import memory

RNG = np.random.default_rng(2)
DRAWS = {"bias": RNG.normal(size=(3, 20)), "layer": {"weight": RNG.normal(size=(3, 20, 2, 2))}}
RESULT = result_of(DRAWS)
HOSTILE = '<script>alert("x")</script>&amp;'


def test_columns_have_the_names_of_the_summary():
    table = RESULT.to_pandas()
    assert list(table.columns) == ["chain", "draw", *RESULT.summary().index]
    assert len(table) == 60
    row = table[(table.chain == 2) & (table.draw == 7)].iloc[0]
    assert row["bias"] == DRAWS["bias"][2, 7]
    assert row["layer.weight[1, 0]"] == DRAWS["layer"]["weight"][2, 7, 1, 0]


def test_the_long_form_has_the_same_numbers():
    wide, long = RESULT.to_pandas(), RESULT.to_pandas(form="long")
    assert list(long.columns) == ["chain", "draw", "parameter", "value"]
    back = long.pivot(index=["chain", "draw"], columns="parameter", values="value").reset_index()
    back = back[wide.columns]
    np.testing.assert_array_equal(back, wide)


def test_names_choose_leaves_or_scalars():
    table = RESULT.to_pandas(["layer.weight[0, 1]", "bias"])
    assert list(table.columns) == ["chain", "draw", "layer.weight[0, 1]", "bias"]
    assert RESULT.to_pandas("layer.weight").shape == (60, 6)


def test_chains_that_became_non_finite_are_not_in_the_table():
    table = result_of(DRAWS, diverged=np.array([True, False, False])).to_pandas()
    assert set(table.chain) == {1, 2}
    assert isinstance(table, pandas.DataFrame)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            "layer.wieght",
            r"no parameter 'layer.wieght' in bias, layer.weight\[2, 2\]. Did you mean",
        ),
        ("layer.weight[2, 0]", "no parameter 'layer.weight"),
        ("layer.weight[0]", "no parameter"),
        ("bias[0]", "no parameter"),
        (["bias", "bias"], "choose a parameter twice"),
        ([], "no parameter is chosen"),
        ([3], "no parameter 3"),
    ],
)
def test_names_that_the_model_does_not_have_are_refused(names, words):
    with pytest.raises(ValueError, match=words):
        RESULT.to_pandas(names)


def test_a_table_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 100)
    with pytest.raises(MemoryError, match=r"5 parameters needs 2,400 bytes.*names="):
        RESULT.to_pandas()


def test_netcdf_comes_back_as_the_tree(tmp_path):
    path = RESULT.to_netcdf(tmp_path / "draws.nc")
    with xarray.open_datatree(path) as tree:
        np.testing.assert_array_equal(tree["posterior"]["bias"], DRAWS["bias"])
        assert tree.attrs["note"] == "all chains"
        assert tree.attrs["diverged_chains"] == "[]"
        assert set(tree.children) == {"posterior", "sample_stats"}
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        RESULT.to_netcdf(tmp_path / "none" / "draws.nc")


class Tags(HTMLParser):
    """The tags of a document, which must be balanced, and its text."""

    def __init__(self, document):
        super().__init__()
        self.opened, self.tags, self.text = [], set(), ""
        self.feed(document)
        assert self.opened == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "br":
            self.opened.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag

    def handle_data(self, data):
        self.text += data


SAFE = {*("div", "p", "b", "br", "table", "thead", "tbody", "tr", "th", "td", "details", "summary")}


class Record:
    verdict = f"Not good: the mean of {HOSTILE} may be off."


def test_html_begins_with_the_verdict_and_has_the_summary():
    page = Tags(result_of(DRAWS, record=Record(), decision="chosen\nfor this reason")._repr_html_())
    assert page.tags <= SAFE
    assert page.text.startswith("Not good")
    assert "for this reason" in page.text
    for name, row in RESULT.summary().iterrows():
        assert f"{name}{row['mean']:.4g}{row['sd']:.3g}{row['ess_bulk']:,.0f}" in page.text


def test_hostile_names_are_escaped():
    document = result_of({HOSTILE: DRAWS["bias"]}, record=Record(), decision=HOSTILE)._repr_html_()
    assert "<script" not in document
    assert document.count(html.escape(HOSTILE)) == 2  # in the verdict and in the decision
    page = Tags(document)
    assert page.tags <= SAFE
    assert "alert" in page.text


def test_the_table_has_the_first_parameters_and_says_so():
    page = Tags(result_of(RNG.normal(size=(2, 8, 30)))._repr_html_())
    assert len(re.findall(r"x\[\d+\]", page.text)) == 20
    assert "The first 20 of 30 parameters" in page.text


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (RESULT.with_draws(None), "No draws were kept"),
        (result_of(np.zeros((2, 3))), "3 draws of a chain are too few"),
        (result_of(np.zeros((2, 9)), diverged=np.ones(2, bool)), "Every chain became non-finite"),
        (result_of(np.zeros((1, 9))), "R-hat"),  # constant, and one chain
    ],
)
def test_a_result_without_a_table_is_still_shown(result, words):
    assert words in Tags(result._repr_html_()).text
