"""The answer of a model: its words, its forest plot, and a table of all effects."""

import numpy as np
import pytest

from vrsgmcmc.reports import Answer, Effect, Report, answer_section, summarise_answer, write
from vrsgmcmc.reports.figures import PHONE, WIDTH


def effect(name, low, mean, high, certain=1.0, **fields):
    """An effect whose 50 % interval is half as long as that of 90 %."""
    ends = (low + mean) / 2, (high + mean) / 2
    return Effect(name, mean, (high - low) / 3.3, *ends, low, high, certain, **fields)


def odds(*effects, **fields):
    return Answer("What goes with it?", "diabetes", "odds ratio", effects, 1.0, **fields)


def price(*effects):
    return Answer("What goes with a higher price?", "price", "difference in price", effects)


UP, DOWN = effect("glucose", 2.3, 2.9, 3.5), effect("rest", 0.6, 0.8, 0.95)
FLAT = effect("skin", 0.8, 1.02, 1.3, certain=0.6)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (odds(UP), "Higher odds of diabetes go with glucose."),
        (odds(DOWN), "Lower odds of diabetes go with rest."),
        (odds(FLAT, DOWN, UP),
         "Higher odds of diabetes go with glucose; lower odds of diabetes go with rest. The "
         "direction is clear for 2 of 3 effects."),
        (odds(FLAT), "No effect on the odds of diabetes has a clear direction. The direction is clear "
         "for 0 of 1 effects."),
        (price(effect("carat", 7e3, 8e3, 9e3), effect("depth", -200, -100, -20),
               effect("width", 1, 2, 3)),
         "Higher price goes with carat and width; lower price goes with depth."),
        # A strong column counts at one sd of it, not at one unit: here 8 million against 2.
        (price(effect("small", 1, 2, 3), effect("wide", 7, 8, 9, step=1e6)),
         "Higher price goes with wide and small."),
        # The levels of a column do not take the place of the other columns.
        (price(*(effect(f"cut: {k}", k, k + 1, k + 2, column="cut") for k in range(5, 15)), FLAT,
               effect("carat", 1, 2, 3)),
         "Higher price goes with cut: 14 and carat. The direction is clear for 11 of 12 effects."),
        (odds(UP._replace(group="Adelie"), DOWN._replace(group="Gentoo")),
         "Adelie: higher odds go with glucose. Gentoo: lower odds go with rest."),
        (Answer("?", "visits", "rate ratio", (UP,), 1.0), "Higher rate of visits goes with glucose."),
    ],
)  # fmt: skip
def test_the_answer_in_words(answer, words):
    assert summarise_answer(answer) == words


@pytest.mark.parametrize(
    ("answer", "point"),
    [
        (odds(UP), "glucose: 2.9 times the odds (odds ratio 2.9, 90 % interval 2.3 to 3.5)."),
        (odds(DOWN), "rest: 20 % lower odds (odds ratio 0.8, 90 % interval 0.6 to 0.95)."),
        (odds(effect("age", 1.01, 1.03, 1.05, unit="per 1 year")),
         "age, per 1 year: 3 % higher odds (odds ratio 1.03, 90 % interval 1.01 to 1.05)."),
        (odds(effect("bill", 0.2, 0.25, 0.4)),
         "bill: the odds divided by 4 (odds ratio 0.25, 90 % interval 0.2 to 0.4)."),
        # At 2 units a ratio is squared, and a difference doubled.
        (odds(effect("age", 1.1, 1.5, 2.0, unit="per 1", step=2, step_unit="per 2")),
         "age, per 2: 2.25 times the odds (odds ratio 2.25, 90 % interval 1.21 to 4)."),
        (price(effect("carat", 7e3, 8e3, 9e3, step=0.5, step_unit="per 0.5 (1 sd)")),
         "carat, per 0.5 (1 sd): price higher by 4,000 (90 % interval 3,500 to 4,500)."),
        (price(effect("depth", -200, -100, -20)),
         "depth: price lower by 100 (90 % interval \N{MINUS SIGN}200 to \N{MINUS SIGN}20)."),
        (odds(FLAT), "No clear direction (less than 95 % certain): skin."),
    ],
)  # fmt: skip
def test_an_effect_in_words(answer, point):
    section = answer_section(answer)
    assert list(section.points) == [point]
    assert "not what causes what" in section.text


def test_an_effect_of_draws():
    draws = np.linspace(-0.1, 0.9, 1001)
    plain = Effect.of_draws("a", draws, unit="per 1")
    assert plain[1:8] == pytest.approx((0.4, draws.std(), 0.15, 0.65, -0.05, 0.85, 0.899), abs=1e-3)
    ratio = Effect.of_draws("a", draws, ratio=True)
    assert ratio.mean == pytest.approx(np.exp(0.4))
    assert ratio[3:7] == pytest.approx(np.exp(plain[3:7]))
    assert ratio.certain == plain.certain


def test_all_effects_are_in_the_table_and_the_strongest_in_the_figure(tmp_path):
    many = [effect(f"column {k}", k, k + 1, k + 2) for k in range(1, 80)]
    section = answer_section(price(*many))
    ((title, table),) = section.more
    assert title == "All 79 effects"
    assert {row[0] for row in table.rows} == {each.name for each in many}
    assert table.rows[0][0] == "column 79"
    assert "The 20 strongest of 79 effects." in section.caption
    labels = [text.get_text() for text in section.figure(width=WIDTH).axes[0].get_yticklabels()]
    assert labels == [f"column {k}" for k in range(79, 59, -1)]
    write(Report("T", "L", [section]), tmp_path)
    page = (tmp_path / "report.html").read_text()
    details = page[page.index("<details>") : page.index("</details>")]
    assert all(f">column {k}<" in details for k in range(1, 80))


def test_a_forest_has_a_panel_for_each_group_and_a_drawing_for_each_width(tmp_path):
    lines = [each._replace(group=name) for name in ("Adelie", "Gentoo") for each in (UP, FLAT)]
    lines.append(effect("lost", 0.1, np.nan, np.inf, group="Gentoo"))
    section = answer_section(odds(*lines))
    for width in (WIDTH, PHONE):
        figure = section.figure(width=width)
        assert figure.get_figwidth() == width
        assert [axes.get_title(loc="left") for axes in figure.axes] == ["Adelie", "Gentoo"]
        assert {axes.get_xscale() for axes in figure.axes} == {"log"}
        low, high = figure.axes[0].get_xlim()
        assert 0 < low < 0.8 < 3.5 < high < 10
    write(Report("T", "L", [section]), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<source ") == page.count("<img ") == 1
    assert 'media="screen and (max-width: 34rem)"' in page
    assert "NaN" in page
    assert page.index("Adelie: glucose: 2.9 times the odds") < page.index("<picture>")
