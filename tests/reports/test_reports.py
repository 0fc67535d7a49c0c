"""Reports: what they say is true, whatever they are told is only shown, and a browser agrees."""

import base64
import json
import os
import re
import select
import shutil
import subprocess
import time
import xml.etree.ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.advice.audit import Audit, Block
from vrsgmcmc.advice.audit.verdict import Option
from vrsgmcmc.reports import (
    Claim,
    Predictions,
    Probabilities,
    Report,
    Section,
    Table,
    figures,
    of_result,
    write,
)
from vrsgmcmc.reports.calibration import coverage, reliability
from vrsgmcmc.reports.page import cell
from vrsgmcmc.reports.summary import pick, summarise
from vrsgmcmc.run.result import Divergence

SCRIPT, IMAGE = "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'
FORMULA = "$\\frac{1$ -->\x00\u202eevil\ud800 日本"
HOSTILE = (SCRIPT, IMAGE, FORMULA, "'; </style></title><b>", "javascript:alert(1)", "{{ 7 * 7 }}")
CHAINS, STEPS = 4, 120
X = np.random.default_rng(0).normal(size=(20, 3))
VOID = {"meta", "link", "img", "br"}


def logprior(params):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def loglik(params, x):
    return -0.5 * jnp.sum((x - params[SCRIPT] - params[FORMULA]) ** 2)


def average(params):
    return params[SCRIPT]


@pytest.fixture(scope="module")
def result():
    return vr.sample(
        0,
        vr.Posterior(logprior, loglik),
        X,
        {SCRIPT: jnp.zeros(3), IMAGE: jnp.zeros((20, 30)), FORMULA: jnp.zeros(())},
        estimator=vr.practical(10, 5),
        step_size=0.01,
        batch_size=3,
        num_steps=STEPS,
        burn_in=20,
        num_chains=CHAINS,
        observables={IMAGE: average},
        progress=False,
    )


AUDIT = Audit(
    estimator="practical",
    helps=False,
    verdict=f"no gain: {SCRIPT} {FORMULA}",
    inflation=0.3,
    plain_inflation=0.2,
    full_inflation=0.1,
    drift=0.5,
    cost=8.0,
    plain_batch_size=8,
    blocks=(Block(SCRIPT, 3, 0.1, 0.2, 0.3, 0.4), Block(FORMULA, 1, 0.1, 0.2, 0.3, np.nan)),
    options=(Option(IMAGE, 0.1, 0.2, 3.0),),
    variances=None,
    evaluations=0,
)


def hostile(result):
    """Every part of a report, with names that mean harm."""
    rng = np.random.default_rng(1)
    whole = of_result(
        replace(
            result,
            diverged=np.arange(CHAINS) == 1,
            divergences=(Divergence(1, 17, np.inf, 0.01, 0.005),),
        ),
        title=SCRIPT,
        audit=AUDIT,
        predictive=Predictions(rng.normal(size=(50, 40)), rng.normal(size=40)),
        command=f"vrsgmcmc sample {IMAGE}",
        facts={name: name for name in HOSTILE},
    )
    table = Table(HOSTILE, [HOSTILE, ["x" * 500, None, np.nan, -np.inf, 1234, -0.5]])
    lines = {name: (np.arange(1, 9.0), np.arange(1, 9.0) + k) for k, name in enumerate(HOSTILE)}
    panel = figures.Panel(IMAGE, lines, level=(SCRIPT, 3.0))
    extra = [
        Section(name, name, figures.curves([panel], x_label="steps"), name, table, alt=name)
        for name in HOSTILE[:2]
    ]
    claims = [Claim(name, "in part", name) for name in (*HOSTILE, "y" * 400)]
    return whole._replace(
        lead="\n\n".join(HOSTILE), sections=[*whole.sections, *extra], claims=claims
    )


@pytest.fixture(scope="module")
def folder(result, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    (folder / "files.json").write_text(json.dumps(write(hostile(result), folder)))
    return folder


class Walk(HTMLParser):
    """A page's tags, checked to be closed in order, and its text."""

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
    assert len(images) == 6
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
    assert all(link.startswith("#") or link == "data:," for link in page.values("href"))
    assert not {"script", "iframe", "object", "embed", "form", "base", "svg"} & {
        tag for tag, _ in page.tags
    }
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    style = read(folder).split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_hostile_names_are_shown_as_they_are(folder):
    """In titles, text, cells, claims, facts, captions and alternatives; and they make no tags."""
    page = Walk(read(folder))
    seen = FORMULA.replace("\x00", "�").replace("\u202e", "�").replace("\ud800", "�")
    for name in (*HOSTILE[:2], seen, *HOSTILE[3:]):
        assert page.text.count(name) >= 6, name
    assert SCRIPT in page.values("alt")
    assert f"Table: {IMAGE}" in page.values("aria-label")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\ud800]", page.text)


def test_hostile_names_leave_figures_whole(folder):
    """A dollar is no formula, and no name breaks the XML or leaves a file outside the folder."""
    files = json.loads((folder / "files.json").read_text())
    made = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert made == {"files.json", *files}
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
    shown = [section for section in whole.sections if section.title in ("Ranks", "Posterior")]
    report = whole._replace(sections=shown)
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
    assert contents.text.split() == ["One", "A", "B", "C", "Two", "A", "B", "C"]
    assert contents.values("href") == [f"#{topic}-{s}" for topic in ("one", "two") for s in "abc"]
    assert '<h2 id="two-c-title">Two: C</h2>' in page


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
        "Posterior",
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
        "4 chains of 120 steps with practical gradients and sgld dynamics on 20"
    )
    assert "run longer before relying on it" in report.lead
    # The posterior: 50 of 604, and the numbers are those of the draws.
    assert "50 of 604 parameters" in sections["Posterior"].text
    rows = {row[0]: row[1:] for row in sections["Posterior"].table.rows}
    assert len(rows) == 50
    draws = np.asarray(result.draws[SCRIPT])[..., 1]
    own = rows[f"{SCRIPT}[1]"]
    assert own[:2] == pytest.approx((draws.mean(), draws.std()))
    known = replace(result, draws=result.draws[SCRIPT]).summary().iloc[1]
    assert own[3:] == pytest.approx(known[["ess_bulk", "ess_tail", "r_hat"]])
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
        report = of_result(replace(result, **changes))
        tables = [s.table.cells() for s in report.sections if s.table is not None]
        return "\n".join([report.lead, *(s.text for s in report.sections), str(tables)])

    assert "Every chain became non-finite." in text(
        diverged=np.ones(CHAINS, bool), divergences=(Divergence(0, 1, 1.0, 0.1, 0.05),)
    )
    short = jax.tree.map(lambda leaf: leaf[:, :3], result.draws)
    told = text(draws=short, draw_steps=result.draw_steps[:3], interrupted=True, num_steps=30)
    assert "3 draws of each chain are too few" in told
    assert "The run was interrupted: 120 steps were asked for." in told
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
    for names, told in ((("a",), "604|3 leaves"), ({SCRIPT: "ab"}, "2 names"), ({"z": "a"}, "'z'")):
        with pytest.raises(ValueError, match=told):
            summarise(result, names)


def test_reliability_by_hand():
    """0.2 twice, one of them happens; 0.7 four times, three happen."""
    found = reliability(Probabilities([0.25, 0.25, 0.7, 0.7, 0.7, 0.7], [0, 1, 1, 1, 0, 1]))
    np.testing.assert_allclose(found.probability, [0.25, 0.7])
    np.testing.assert_allclose(found.frequency, [0.5, 0.75])
    np.testing.assert_allclose(found.count, [2, 4])
    assert found.ece == pytest.approx((2 * 0.25 + 4 * 0.05) / 6)
    spread = 2 * np.sqrt(2 * 0.1875 / (2 * np.pi)) + 4 * np.sqrt(2 * 0.21 / (4 * np.pi))
    assert found.calibrated_ece == pytest.approx(spread / 6)
    assert found.accuracy == pytest.approx(4 / 6)
    assert found.nll == pytest.approx(-np.log([0.75, 0.25, 0.7, 0.7, 0.3, 0.7]).mean())
    assert np.all(found.low <= found.probability)
    assert np.all(found.probability <= found.high)
    several = reliability(Probabilities([[0.8, 0.2, 0], [0.1, 0.1, 0.8], [0, 1, 0]], [0, 0, 2]))
    np.testing.assert_allclose(several.probability, [0.8, 1.0])
    np.testing.assert_allclose(several.frequency, [0.5, 0.0])
    assert np.isinf(several.nll)
    assert several.accuracy == pytest.approx(1 / 3)


def test_a_calibrated_model_has_the_expected_error():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        p = rng.uniform(size=300)
        one = reliability(Probabilities(p, (rng.uniform(size=300) < p).astype(int)))
        found.append((one.ece, one.calibrated_ece))
    (ece, expected), error = np.mean(found, axis=0), np.std(found, axis=0)[0] / np.sqrt(200)
    assert abs(ece - expected) < 4 * error + 0.02 * expected


def test_coverage_by_hand():
    """Draws 1..99 for each target: the central half is 25.5 to 74.5."""
    draws = np.repeat(np.arange(1.0, 100)[:, None], 4, axis=1)
    found = coverage(Predictions(draws, [50.0, 75.5, 30.0, 99.5]))
    np.testing.assert_allclose(found.ranks, [0.5, 75 / 99, 29.5 / 99, 1.0])
    assert found.at(0.5) == 0.5
    np.testing.assert_allclose(found.at(np.array([0.0, 0.9, 1.0])), [0.25, 0.75, 1.0])
    assert found.chance(0.5) == 0.25
    assert found.rmse == pytest.approx(np.sqrt((0 + 25.5**2 + 20**2 + 49.5**2) / 4))


# ------------------------------------------------------------------------------ a real browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)
COMPLAINTS = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")


class Browser:
    """Headless Chromium, told what to do through its DevTools pipe."""

    def __init__(self, profile: Path):
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        self.buffer, self.number, self.session, self.events = b"", 0, {}, []
        self.process = subprocess.Popen(
            [
                *("bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", PROGRAM),
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                *("--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"),
                *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}"),
            ],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)

    def start(self):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def receive(self):
        end = time.monotonic() + 120
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0, end - time.monotonic()))
            more = os.read(self.into, 1 << 20) if ready else b""
            assert more, "the browser does not answer"
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def ask(self, method, **parameters):
        self.number += 1
        question = {"id": self.number, "method": method, "params": parameters, **self.session}
        os.write(self.out, json.dumps(question).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, file: Path, width: int):
        """Show a file; returns what the browser complained about, and the addresses it asked for."""
        self.events = []
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.ask("Page.navigate", url=file.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())
        complaints = [event for event in self.events if event["method"] in COMPLAINTS]
        asked = [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return complaints, [url for url in asked if not url.startswith("data:")]

    def value(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"]
        return result["value"]

    def screenshot(self):
        width, height = self.value("[innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])

    def close(self):
        self.session = {}
        self.ask("Browser.close")
        self.process.wait(60)

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if PROGRAM is None:
        pytest.skip(f"needs a browser: {', '.join(NAMES)}")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    try:
        browser.start()
        yield browser
        browser.close()
    finally:
        browser.end()


@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_shows_the_page(browser, folder, width):
    file = folder / "report.html"
    complaints, asked = browser.open(file, width)
    assert complaints == []
    assert asked == [file.as_uri()]
    assert browser.value("document.title") == SCRIPT
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("document.scripts.length") == 0
    pictures = browser.value("[...document.images].map(i => [i.naturalWidth, i.clientWidth])")
    assert len(pictures) == 6
    assert all(natural > 0 and 300 < shown <= width for natural, shown in pictures)
    image = browser.screenshot()
    assert image.startswith(b"\x89PNG")
    assert len(image) > 50_000


def test_the_browser_prints_the_page(browser, folder):
    browser.open(folder / "report.html", 1200)
    pdf = base64.b64decode(browser.ask("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert pdf.startswith(b"%PDF")


def test_the_browser_would_have_complained(browser, tmp_path):
    """The same checks on a page that breaks each rule."""
    file = tmp_path / "bad.html"
    file.write_text(
        '<html><title>bad</title><img src="https://example.invalid/x.png"><div style="width:900px">'
        "wide</div><script>document.title = 'ran'; console.error('e')</script></html>"
    )
    complaints, asked = browser.open(file, 390)
    assert {event["method"] for event in complaints} >= {"Runtime.consoleAPICalled"}
    assert "https://example.invalid/x.png" in asked
    assert browser.value("document.documentElement.scrollWidth") > 390
    assert browser.value("document.title") == "ran"
