"""Reports: their numbers are right, and their content is text, never code."""

import json
import re
import xml.etree.ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.hostile_report import CHAINS, FORMULA, HOSTILE, IMAGE, SCRIPT, hostile

from vrsgmcmc.reports import (
    Claim,
    Predictions,
    Probabilities,
    Report,
    Section,
    Table,
    figures,
    of_result,
    tally,
    write,
)
from vrsgmcmc.reports.calibration import coverage, reliability
from vrsgmcmc.reports.page import cell
from vrsgmcmc.reports.summary import pick, summarise
from vrsgmcmc.run.result import Divergence

VOID = {"meta", "link", "img", "br", "source"}


class Walk(HTMLParser):
    """The tags and the text of a page; all tags are closed in order."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text = [], [], ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data

    def values(self, name):
        return [attributes[name] for _, attributes in self.tags if name in attributes]


def read(folder, name="report.html"):
    return (folder / name).read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_accessible(folder):
    page = Walk(read(folder))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("html") == tags.count("h1") == tags.count("main") == tags.count("title") == 1
    assert dict(page.tags)["html"] == {"lang": "en"}
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch("[a-z0-9-]+", name) for name in ids)
    links = [link for link in page.values("href") if link.startswith("#")]
    assert len(links) > 8
    assert {link[1:] for link in links} | set(page.values("aria-labelledby")) <= set(ids)
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 9
    assert all(image["alt"] and int(image["width"]) and int(image["height"]) for image in images)
    for tag, attributes in page.tags:
        if tag == "th":
            assert attributes["scope"] in ("col", "row")
    heads = [attributes for tag, attributes in page.tags if tag == "meta"]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in heads


def test_the_page_loads_nothing(folder):
    page = Walk(read(folder))
    policy = next(a["content"] for _, a in page.tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    assert all(source.startswith("data:image/") for source in page.values("src"))
    narrow = page.values("srcset")
    assert narrow
    assert all(re.fullmatch(r"data:image/\w+(\+xml)?;base64,[\w+/=]+", each) for each in narrow)
    assert all(link.startswith("#") or link == "data:," for link in page.values("href"))
    assert not {"script", "iframe", "object", "embed", "form", "base", "svg"} & {
        tag for tag, _ in page.tags
    }
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    style = read(folder).split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_hostile_names_are_shown_as_they_are(folder):
    """In titles, text, cells, claims, facts, captions and alternatives; none becomes a tag."""
    page = Walk(read(folder))
    formula = FORMULA.replace("\x00", "�").replace("\u202e", "�").replace("\ud800", "�")
    for name in (*HOSTILE[:2], formula, *HOSTILE[3:]):
        assert page.text.count(name) >= 6, name
    assert SCRIPT in page.values("alt")
    assert f"Table: {IMAGE}" in page.values("aria-label")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\ud800]", page.text)


def test_hostile_names_leave_figures_whole(folder):
    """A dollar starts no formula; no name breaks the XML or writes outside the folder."""
    files = json.loads((folder / "files.json").read_text())
    on_disk = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert on_disk == {"files.json", *files}
    assert files[0] == "report.html"
    assert all(re.fullmatch(r"figures/[a-z0-9-]+\.(png|svg)", name) for name in files[1:])
    for file in folder.glob("figures/*.svg"):
        tree = xml.etree.ElementTree.parse(file)
        assert not [node for node in tree.iter() if "script" in node.tag]
        assert not [
            value
            for node in tree.iter()
            for name, value in node.attrib.items()
            if name.endswith("href") and not value.startswith("#")
        ]


def test_equal_reports_are_equal_files(result, folder, tmp_path):
    whole = hostile(result)
    some = [
        section for section in whole.sections if section.title in ("Ranks", "Did the chains agree?")
    ]
    report = whole._replace(sections=some)
    files = write(report, tmp_path / "a")
    assert len(files) == 3
    assert write(report, tmp_path / "b" / "c") == files
    for name in files:
        first = (tmp_path / "a" / name).read_bytes()
        assert first == (tmp_path / "b" / "c" / name).read_bytes(), name
        if name != "report.html":
            assert first == (folder / name).read_bytes(), name


def test_a_small_report_has_no_contents_and_a_large_figure_is_a_png(tmp_path):
    rng = np.random.default_rng(0)
    many = {str(k): (np.arange(1, 9000.0), rng.normal(size=8999)) for k in range(6)}
    figure = figures.curves([figures.Panel("noise", many)], x_label="x")
    report = Report("T", "One.\n\nTwo.", [Section("A", "a", figure), Section("A", "b")])
    files = write(report, tmp_path, "other.html")
    assert files == ["other.html", "figures/a.png", "figures/a.svg"]
    page = Walk(read(tmp_path, "other.html"))
    assert [source[:14] for source in page.values("src")] == ["data:image/png"]
    assert "nav" not in [tag for tag, _ in page.tags]
    assert page.values("id").count("a-2") == 1
    assert "facts" not in page.values("id")


def test_the_contents_of_a_page_about_several_things_name_each_once(tmp_path):
    sections = [Section(title, topic=topic) for topic in ("One", "Two") for title in "ABC"]
    write(Report("T", "Lead.", sections), tmp_path)
    page = read(tmp_path)
    contents = Walk(page[page.index("<nav") : page.index("</nav>") + len("</nav>")])
    assert contents.text.split() == ["Contents", "One", "A", "B", "C", "Two", "A", "B", "C"]
    assert contents.values("href") == [f"#{topic}-{s}" for topic in ("one", "two") for s in "abc"]
    assert '<h2 id="two-c-title">Two: C</h2>' in page


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ("", ""),
        ("y", "Of 1 claim on this page, 1 holds."),
        ("yyni-", "Of 5 claims on this page, 2 hold, 1 holds in part, 1 does not hold and 1 could not "
         "be tested."),
    ],
)  # fmt: skip
def test_the_answers_to_claims_come_first(tmp_path, answers, words):
    names = {"y": "yes", "n": "no", "i": "in part", "-": "not tested"}
    claims = [Claim(f"c{k}", names[each]) for k, each in enumerate(answers)]
    assert tally(claims) == words
    write(Report("T", "How it was run.", [], claims), tmp_path)
    page = read(tmp_path)
    assert f"<p>{words}</p>" in page or not words
    assert page.index(words) < page.index("How it was run.")


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (None, "", "—"),
        (np.nan, ".2f", "NaN"),
        (np.float32(np.inf), "", "∞"),
        (-np.inf, "", "\N{MINUS SIGN}∞"),
        (-0.25, ".1f", "\N{MINUS SIGN}0.2"),
        (123456, "", "123,456"),
        (np.int64(7), "", "7"),
        (2605.93, "", "2,606"),
        (0.000123456, "", "0.0001235"),
        (True, "", "yes"),
        (jnp.asarray(1.5), "", "1.5"),
        ({"jax": "0.10", "n": 3}, "", "jax 0.10, n 3"),
        ([1, 2.5], "", "1, 2.5"),
        (SCRIPT, ".3f", None),
    ],
)
def test_cells(value, form, text):
    assert cell(value, form) == (SCRIPT if text is None else text)


def test_tables_align_numbers_and_take_many_rows(tmp_path):
    rows = [(f"row {k}", k, "1.2e-03 ± 5e-05", np.nan if k % 2 else 1.0, None) for k in range(3000)]
    table = Table(("name", "count", "error", "maybe", "none"), rows, ("", "", "", ".2f"))
    assert table.numeric() == [False, True, True, True, True]
    assert Table(("mixed",), [("1",), ("many",)]).numeric() == [False]
    assert Table(("empty",), []).numeric() == [False]
    write(Report("T", "", [Section("S", table=table)]), tmp_path)
    page = Walk(read(tmp_path))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("tr") == 3001
    assert page.values("class").count("number") == 4 * 3001
    assert "NaN" in page.text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda p: write(Report("T", "", []), p, "../r.html"),
            r"write\(name='../r.html'\): name is",
        ),
        (lambda p: write(Report("T", "", []), p, "r.txt"), "ends in .html"),
        (
            lambda p: write(Report("T", "", [], [Claim("c", "maybe")]), p),
            "must be one of 'yes', 'no', 'in part', 'not tested', got 'maybe'",
        ),
        (lambda p: Table(("a", "b"), [(1,)]).cells(), "2 columns in the header, 1 cells in row 0"),
        (lambda p: reliability(Probabilities([0.5, 1.5], [0, 1])), "between 0 and 1"),
        (lambda p: reliability(Probabilities([0.5, np.nan], [0, 1])), "between 0 and 1"),
        (lambda p: reliability(Probabilities([0.5], [0, 1])), r"shapes \(1,\) and \(2,\)"),
        (lambda p: reliability(Probabilities([0.5, 0.5], [0, 2])), r"labels must be in 0..1"),
        (lambda p: coverage(Predictions(np.ones(3), np.ones(3))), r"shapes \(3,\) and \(3,\)"),
        (lambda p: coverage(Predictions([[np.nan]], [1.0])), "must be finite"),
    ],
)
def test_mistakes_are_told(tmp_path, call, message):
    with pytest.raises(ValueError, match=message):
        call(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def report(result):
    return of_result(result, command="vrsgmcmc sample my.toml", facts={"seed": 0})


def test_a_run_is_summarised(result, report):
    titles = [section.title for section in report.sections]
    assert titles == [
        "What was estimated",
        "Did the chains agree?",
        "Traces",
        "Ranks",
        "Averages over every step",
        "Cost",
        "What was run",
    ]
    assert report.facts["command"] == "vrsgmcmc sample my.toml"
    assert list(report.facts) == ["command", "seed", "versions", "Python", "machine"]
    sections = dict(zip(titles, report.sections, strict=True))
    assert report.lead.startswith(
        "604 parameters from 20 data: 4 chains of 120 steps with practical gradients and sgld"
    )
    assert "run longer before relying on it" in report.lead
    # The posterior: 50 of 604, and the numbers are those of the draws.
    assert "50 of 604 parameters" in sections["Did the chains agree?"].text
    rows = {row[0]: row[1:] for row in sections["Did the chains agree?"].table.rows}
    assert len(rows) == 50
    draws = np.asarray(result.draws[SCRIPT])[..., 1]
    own = rows[f"{SCRIPT}[1]"]
    assert own[:2] == pytest.approx((draws.mean(), draws.std(ddof=1)))
    expected = result.with_draws(result.draws[SCRIPT]).summary().iloc[1]
    assert own[3:] == pytest.approx(expected[["ess_bulk", "ess_tail", "r_hat"]])
    # The averages and their errors over chains.
    values = result.averages[IMAGE][:, 0]
    row = sections["Averages over every step"].table.rows[0]
    assert row == (f"{IMAGE}[0]", values.mean(), values.std(ddof=1) / 2)


def test_cost_on_both_axes(result, report):
    """n1/m + 2 n2 = 10/5 + 6 = 8 of 20 data per step; as the paper counts, 5."""
    section = next(section for section in report.sections if section.title == "Cost")
    rows = {row[0]: row[1:] for row in section.table.rows}
    assert rows["steps"] == (120, 480)
    assert rows["per-datum gradients"] == (960, 3840)
    assert rows["data passes, every gradient counted"] == (48.0, 192.0)
    assert rows["data passes, a pair counted once"] == (30.0, 120.0)
    assert rows["seconds"] == (None, result.seconds)
    assert "A step costs 8 per-datum" in section.text
    assert "a step costs 5." in section.text


def test_runs_with_little_to_show(result):
    def text(**changes):
        if "draws" in changes:
            draws = changes.pop("draws")
            changes["load_draws"] = lambda: draws
        report = of_result(replace(result, **changes))
        tables = [s.table.cells() for s in report.sections if s.table is not None]
        return "\n".join([report.lead, *(s.text for s in report.sections), str(tables)])

    assert "Every chain became non-finite." in text(
        diverged=np.ones(CHAINS, bool), divergences=(Divergence(0, 1, 1.0, 0.1, 0.05),)
    )
    short = jax.tree.map(lambda leaf: leaf[:, :3], result.draws)
    few = text(draws=short, draw_steps=result.draw_steps[:3], interrupted=True, num_steps=30)
    assert "3 draws of each chain are too few" in few
    assert "The run was interrupted: 120 steps were asked for." in few
    assert "There is no summary" in text(draws=None, averages={})
    first = jax.tree.map(lambda leaf: leaf[:1], result.draws)
    alone = text(draws=first, diverged=np.zeros(1, bool), averages={})
    assert "1 chain of 120" in alone
    assert "NaN" in alone  # R-hat of one chain
    odd = {**result.settings, "step_size": lambda step: 0.1, "clip": np.arange(20)}
    still = text(settings=odd, draws=jax.tree.map(np.zeros_like, result.draws))
    assert "a schedule" in still
    assert "20 values from 0 to 19" in still


def test_few_scalars_stand_for_many(result):
    tree = {f"leaf {k}": np.zeros((2, k % 7, k)) for k in range(3, 90)}
    names, values, total = pick(tree, leading=1)
    assert len(names) == len(set(names)) == values.shape[1] == 50
    assert values.shape[0] == 2
    assert total == sum(k % 7 * k for k in range(3, 90))
    summary = summarise(result, {SCRIPT: ("a", "b", "c")})
    assert {"a", "b", "c", FORMULA} <= set(summary.names)
    for names, message in (
        (("a",), "604|3 leaves"),
        ({SCRIPT: "ab"}, "2 names"),
        ({"z": "a"}, "'z'"),
    ):
        with pytest.raises(ValueError, match=message):
            summarise(result, names)


def test_reliability_by_hand():
    """0.25 twice with one event, 0.7 four times with three events."""
    bins = reliability(Probabilities([0.25, 0.25, 0.7, 0.7, 0.7, 0.7], [0, 1, 1, 1, 0, 1]))
    np.testing.assert_allclose(bins.probability, [0.25, 0.7])
    np.testing.assert_allclose(bins.frequency, [0.5, 0.75])
    np.testing.assert_allclose(bins.count, [2, 4])
    assert bins.ece == pytest.approx((2 * 0.25 + 4 * 0.05) / 6)
    spread = 2 * np.sqrt(2 * 0.1875 / (2 * np.pi)) + 4 * np.sqrt(2 * 0.21 / (4 * np.pi))
    assert bins.calibrated_ece == pytest.approx(spread / 6)
    assert bins.accuracy == pytest.approx(4 / 6)
    assert bins.nll == pytest.approx(-np.log([0.75, 0.25, 0.7, 0.7, 0.3, 0.7]).mean())
    assert np.all(bins.low <= bins.probability)
    assert np.all(bins.probability <= bins.high)
    several = reliability(Probabilities([[0.8, 0.2, 0], [0.1, 0.1, 0.8], [0, 1, 0]], [0, 0, 2]))
    np.testing.assert_allclose(several.probability, [0.8, 1.0])
    np.testing.assert_allclose(several.frequency, [0.5, 0.0])
    assert np.isinf(several.nll)
    assert several.accuracy == pytest.approx(1 / 3)


def test_a_calibrated_model_has_the_expected_error():
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(200):
        p = rng.uniform(size=300)
        one = reliability(Probabilities(p, (rng.uniform(size=300) < p).astype(int)))
        errors.append((one.ece, one.calibrated_ece))
    (ece, expected), error = np.mean(errors, axis=0), np.std(errors, axis=0)[0] / np.sqrt(200)
    assert abs(ece - expected) < 4 * error + 0.02 * expected


def test_coverage_by_hand():
    """Draws 1..99 for each target: the central half is 25.5 to 74.5."""
    draws = np.repeat(np.arange(1.0, 100)[:, None], 4, axis=1)
    intervals = coverage(Predictions(draws, [50.0, 75.5, 30.0, 99.5]))
    np.testing.assert_allclose(intervals.ranks, [0.5, 75 / 99, 29.5 / 99, 1.0])
    assert intervals.at(0.5) == 0.5
    np.testing.assert_allclose(intervals.at(np.array([0.0, 0.9, 1.0])), [0.25, 0.75, 1.0])
    assert intervals.chance(0.5) == 0.25
    assert intervals.rmse == pytest.approx(np.sqrt((0 + 25.5**2 + 20**2 + 49.5**2) / 4))
