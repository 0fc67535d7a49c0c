"""The documents are true: code runs, commands and links exist, tables are complete."""

import csv
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import jax
import matplotlib.pyplot
import numpy as np
import pytest
from support.documents import CODE, cells, execute

import vrsgmcmc as vr
from vrsgmcmc import cli
from vrsgmcmc.cli.keys import KEYS
from vrsgmcmc.core.order import ORDERS
from vrsgmcmc.experiments import EXPERIMENTS, Settings

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = re.compile(r"^```\n\n((?:(?:    .*)?\n)+)", flags=re.MULTILINE)  # what a block prints
COMMANDS = re.compile(r"^    ((?:pip|vrsgmcmc|pytest|python) .*)$", flags=re.MULTILINE)


def name_of(page: Path) -> str:
    return page.name


def assert_alike(printed: str, shown: str) -> None:
    """The same words, however lines are broken, and numbers within 5 % and a unit of the last digit."""
    number = re.compile(r"\d+(?:\.\d+)?")
    words = [" ".join(number.sub("#", text).split()) for text in (printed, shown)]
    assert words[0] == words[1]
    for there, here in zip(number.findall(printed), number.findall(shown), strict=True):
        unit = 10.0 ** -len(here.partition(".")[2])
        assert float(there) == pytest.approx(float(here), rel=0.05, abs=unit), shown


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty folder, which stays empty, and a module for classes that a page defines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "page", ModuleType("page"))
    yield
    assert list(tmp_path.iterdir()) == []


def test_the_code_of_the_readme_finds_the_posteriors_it_shows(elsewhere, capsys):
    blocks = execute(README)

    names = next(blocks)
    out = capsys.readouterr().out
    assert "r_hat" in out
    assert "Good: every parameter's mean is within" in out
    mean, covariance = vr.theory.linear_regression(*names["data"].values()).posterior()
    draws = names["result"].draws.reshape(-1, 3)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.01)
    np.testing.assert_allclose(draws.std(axis=0), np.sqrt(np.diag(covariance)), rtol=0.2)

    names = next(blocks)
    shown = re.search(r'"(gain: svrg .*?)"', README.read_text(), flags=re.DOTALL)
    assert shown is not None
    assert_alike(capsys.readouterr().out.split(";")[0], shown[1])
    plan, result = names["plan"], names["result"]
    assert plan.pilot + result.evaluations <= 200 * 1000
    draws = result.draws.reshape(-1, 3)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.01)
    np.testing.assert_allclose(draws.std(axis=0), np.sqrt(np.diag(covariance)), rtol=0.2)

    names = next(blocks)
    values, sd = names["values"], names["sd"]
    assert abs(sd.mean() - values.std()) < 0.02
    assert abs(sd.std() / (values.std() / np.sqrt(2 * len(values))) - 1) < 0.2
    assert next(blocks, None) is None


def test_the_step_sizes_of_choosing_behave_as_it_says(elsewhere):
    (names,) = execute(ROOT / "docs" / "choosing.md")
    spread = dict(zip(names["grid"], names["spread"], strict=True))
    assert abs(spread[0.5] / spread[0.2] - 1) < 0.1
    assert spread[5.0] > 1.5 * spread[0.5]


@pytest.mark.slow
def test_the_integrator_of_extending_is_exact_where_sgld_is_not(elsewhere, capsys):
    *_, names = execute(ROOT / "docs" / "extending.md")
    sgld, averaged, anchor, error = map(float, capsys.readouterr().out.split())
    assert abs(sgld - 2) < 0.05
    assert abs(averaged - 1) < 0.03
    assert anchor == pytest.approx(0.1)  # the estimator: half of the way, and unbiased
    assert abs(error) < 1e-3
    assert np.all(np.isfinite(names["result"].draws))
    kernel = (vr.models.gaussian.posterior(), vr.svrg(), names["LeimkuhlerMatthews"]())
    assert vr.kernel(*kernel, size=100, batch_size=10).period == 10


def test_the_run_directory_of_runs_is_read_back(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    *_, names = execute(ROOT / "docs" / "runs.md")
    status, *_, problems = capsys.readouterr().out.splitlines()
    assert (status, problems) == ("finished", "[]")
    stored = names["run"].draws["posterior"]["x"].to_numpy()
    np.testing.assert_array_equal(stored, names["result"].draws)


def test_the_posterior_of_results_is_used_as_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    *_, names = execute(ROOT / "docs" / "results.md")
    out = capsys.readouterr().out
    assert "elpd_loo" in out
    middle, mean = names["middle"], names["mean"]
    np.testing.assert_allclose(mean, middle, atol=0.1)
    assert np.all(names["low"] < middle)
    assert np.all(middle < names["high"])
    assert abs(names["some"].elpd - names["whole"].elpd) < 4 * names["some"].subsampling_se
    np.testing.assert_array_equal(names["loaded"].draws, names["result"].draws)
    assert len(names["table"]) == 4 * 1000
    matplotlib.pyplot.close("all")


def test_the_counts_of_conventions_hold(elsewhere):
    assert len(list(execute(ROOT / "docs" / "conventions.md"))) == 1


def test_the_noise_of_variance_reduction_is_as_derived(elsewhere, capsys):
    *_, names = execute(ROOT / "docs" / "variance-reduction.md")
    one_step, quiet, *shares = capsys.readouterr().out.splitlines()
    np.testing.assert_allclose([*map(float, one_step.split())], [99, 9], rtol=1e-4)
    np.testing.assert_allclose([*map(float, quiet.split())], [99, 90], rtol=1e-4)
    np.testing.assert_allclose([*map(float, shares)], [99, 97 / 3, 90], rtol=1e-3)
    assert names["unit"] == pytest.approx(1000 * names["x"].var(ddof=1))


def test_the_bridges_of_blackjax_and_optax_find_the_posterior(elsewhere):
    *_, names = execute(ROOT / "docs" / "doors-blackjax-optax.md")
    mean, sd = names["data"].sum() / 201, 1 / np.sqrt(201)
    assert abs(names["draws"].std() / sd - 1) < 0.1
    for draws in (names["draws"], names["positions"][100:], names["trace"][100:]):
        assert abs(np.mean(draws) - mean) < 0.5 * sd


def test_anchors_pay_from_the_size_that_variance_reduction_says():
    """Noise at zero frequency x cost, in units of N S2, as the page has it."""
    N, n2, m = 1000, 10, 10
    pays = [(N - n1) * (1 + 2 * m * n2 / n1) < N - (n1 / m + 2 * n2) for n1 in range(1, N)]
    limit = [n1 * (n1 + 2 * m * n2) > 2 * n2 * N * m**2 / (m - 1) for n1 in range(1, N)]
    assert pays == limit
    assert 1 + pays.index(True) == 382


def script(name):
    """A program of the documents, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_exact_numbers_of_the_pages_are_those_of_the_script(capsys):
    measure = script("measure")
    measure.gaussian()
    printed = capsys.readouterr().out
    page = (ROOT / "docs" / "variance-reduction.md").read_text()
    table = cells(printed, "h (N + 1)")
    assert cells(page, "h (N + 1)") == table
    assert cells(README.read_text(), "h (N + 1)").items() <= table.items()
    for step in re.findall(r"equal at (h \(N \+ 1\) = [\d.]+)", printed):
        assert step in page


@pytest.mark.parametrize("table", ["claims", "ends", "anchors"])
def test_the_tables_of_experiments_are_those_of_the_results(table, capsys):
    measure = script("measure")
    measure.PARTS[table]()
    printed = capsys.readouterr().out.strip()
    assert printed.count("\n") > 3
    assert printed in (ROOT / "docs" / "experiments.md").read_text()


def test_the_tour_of_the_theory_shows_what_it_says(elsewhere):
    *_, names = execute(ROOT / "docs" / "theory.md")
    assert names["reduced"] < names["plain"]
    assert names["regime"].regime == "limited budget"
    assert names["regime"].batch_size == 500
    np.testing.assert_allclose(names["exact"], [0.86, 0.26, 0.04], atol=0.005)
    np.testing.assert_allclose(names["forecast"].inflation[0], names["exact"], rtol=0.01)
    assert np.all(names["error"].mse[1] < names["error"].mse[0])
    assert abs(names["found"].squared) < 0.05 < 0.3 < names["moved"].squared


def test_the_numpyro_model_of_its_door_is_a_problem(elsewhere):
    *_, names = execute(ROOT / "docs" / "doors-numpyro.md")
    assert names["sites"]["level"].shape == (5, 4)


@pytest.mark.slow
def test_the_audit_and_the_plan_of_planning_are_as_shown(elsewhere, capsys):
    page = ROOT / "docs" / "planning.md"
    shown = iter(SHOWN.findall(page.read_text()))
    blocks = execute(page)
    plan = next(blocks)["plan"]
    capsys.readouterr()
    assert plan.pilot <= 0.15 * 200 * 768
    for _ in ("audit", "options"):
        names = next(blocks)
        assert_alike(capsys.readouterr().out, next(shown))
    assert not names["audit"].helps
    assert next(blocks)["shuffled"].helps
    assert next(blocks, None) is None


@pytest.mark.slow
def test_the_networks_of_networks_learn_what_they_are_shown(elsewhere, capsys):
    *_, names = execute(ROOT / "docs" / "networks.md")
    error, perplexity = capsys.readouterr().out.splitlines()
    assert names["error"] < 0.1
    assert error == f"{names['error']:.0%} of the test images are in the wrong class"
    assert 1 < float(perplexity.split()[1]) < 1.5
    net = names["resnet"].initial(2, norm="batch_norm", channels=1, width=2, blocks=1)(
        jax.random.key(0)
    )
    found = names["predictions"](net, (names["x"][200:], names["groups"][0]))
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)


@pytest.mark.slow
def test_the_network_of_its_door_learns(elsewhere, capsys):
    *_, names = execute(ROOT / "docs" / "doors-networks.md")
    assert names["error"] < 0.12
    assert capsys.readouterr().out.splitlines()[1] == "GLM (500, 9)"
    probability = jax.nn.softmax(names["logits"])
    assert probability.shape == (100, 2)


@pytest.mark.slow
def test_the_effects_of_the_page_about_tables_are_as_shown(elsewhere, capsys):
    page = ROOT / "docs" / "doors-tables.md"
    first, last = execute(page)
    effects = str(first["problem"].effects(first["result"]))
    shown = re.search(r"^    (Change of body_mass_g.*?)\n\n", page.read_text(), re.M | re.S)
    assert shown is not None
    number = re.compile(r"-?[\d.]+(?:e\+\d+)?")
    words = [" ".join(number.sub("#", text).split()) for text in (effects, shown[1])]
    assert words[0] == words[1]
    assert last["predictions"].low[0] < last["predictions"].mean[0] < last["predictions"].high[0]
    assert last["scores"].model["rmse"] < 0.5 * last["scores"].baseline["rmse"]


@pytest.mark.slow
def test_the_door_of_scikit_learn_prints_names_and_a_verdict(elsewhere, capsys):
    (names,) = execute(ROOT / "docs" / "doors-sklearn.md")
    *coefficients, verdict, _ = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in coefficients] == ["alcohol", "hue", "proline"]
    assert verdict.startswith("Good: ")
    assert names["model"].score(names["test"], names["y_test"]) > 0.8


def test_every_page_with_code_is_run_above():
    pages = [page.name for page in PAGES if CODE.search(page.read_text())]
    assert pages == [
        *("README.md", "choosing.md", "conventions.md", "data.md"),
        *("doors-blackjax-optax.md", "doors-networks.md", "doors-numpyro.md", "doors-sklearn.md"),
        *("doors-tables.md", "extending.md"),
        "index.md",  # whose code is that of the README
        *("networks.md", "planning.md", "results.md", "runs.md", "theory.md"),
        "variance-reduction.md",
    ]


def test_the_first_example_is_short():
    block = CODE.search(README.read_text())
    assert block is not None
    assert len([line for line in block[1].splitlines() if line.strip()]) <= 15


def test_the_tables_of_the_readme_name_every_method_and_order():
    text = README.read_text()
    for name in (*vr.ESTIMATORS, *vr.INTEGRATORS):
        assert f"| `vr.{name}(" in text, name
    for name in ORDERS:
        assert f'`"{name}"`' in text, name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_public_names_that_a_page_mentions_exist(page):
    for path in re.findall(r"\bvr\.([A-Za-z_][\w.]*\w)", page.read_text()):
        thing = vr
        for name in path.split("."):
            assert hasattr(thing, name), f"vr.{path}"
            thing = getattr(thing, name)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target
    for target in re.findall(
        r"`((?:docs|vrsgmcmc|estimators|integrators)/[\w/]+\.\w+)`", page.read_text()
    ):
        places = ROOT, ROOT / "src", ROOT / "src" / "vrsgmcmc"
        assert any((place / target).exists() for place in places), target


def test_the_picture_is_small_enough_to_travel():
    pictures = sorted((ROOT / "docs" / "images").iterdir())
    assert pictures
    for picture in pictures:
        assert picture.stat().st_size < 200_000, picture.name


def commands() -> list[list[str]]:
    """Every command in the pages, in code blocks and in running text."""
    found = []
    for page in PAGES:
        text = page.read_text()
        lines = COMMANDS.findall(text) + re.findall(r"`((?:vrsgmcmc|python) [^`]+)`", text)
        found += [shlex.split(part) for line in lines for part in line.split("&&")]
    return found


def test_there_are_the_two_commands():
    words = [" ".join(command) for command in commands()]
    for command in ("pip install .", "vrsgmcmc reproduce pima", "pip install .[test]", "pytest"):
        assert command in words


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_commands_exist(command):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    match command:
        case ["pip", "install", *targets]:
            extras = [name for target in targets for name in re.findall(r"\[(.*?)\]", target)]
            assert set(extras) <= set(project["optional-dependencies"])
        case ["vrsgmcmc", "reproduce", name, *options]:
            assert "vrsgmcmc" in project["scripts"]
            assert name in EXPERIMENTS
            known = {f"--{field}" for field in Settings.__dataclass_fields__}
            assert {word for word in options if word.startswith("--")} <= known
        case ["vrsgmcmc", name, *words] if name in cli.COMMANDS:
            flags = {word[2:].replace("-", "_") for word in words if word.startswith("--")}
            assert flags <= set(KEYS)
        case ["python", script, *_] if not script.startswith("-"):
            compile((ROOT / script).read_text(), script, "exec")
        case ["pytest", "-m", "slow", file, *_]:
            assert (ROOT / file).exists()
        case ["pytest"] | ["python", "-m", "vrsgmcmc", *_]:
            pass
        case _:
            pytest.fail(f"a command that nobody checks: {command}")


IMPORT_SCRIPTS = """
import runpy, sys, traceback
for script in sys.argv[1:]:
    try:
        runpy.run_path(script, run_name="imported")
    except ModuleNotFoundError as error:
        if error.name not in ("blackjax", "numpyro", "torch"):
            print(script, traceback.format_exc())
    except Exception:
        print(script, traceback.format_exc())
"""


def test_scripts_import_what_exists():
    """In a process of their own, with this library: a benchmark may put clocks into it."""
    places = ROOT / "benchmarks", ROOT / "docs"
    scripts = [str(script) for place in places for script in sorted(place.glob("*.py"))]
    paths = *places, Path(vr.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, "-c", IMPORT_SCRIPTS, *scripts]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_race_of_the_readme_is_that_of_the_results():
    """Seconds to C = 0.001; a run of NUTS that did not get there took longer (>) than it lasted."""
    with (ROOT / "results" / "efficiency" / "efficiency.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    record = json.loads((ROOT / "results" / "efficiency" / "efficiency.json").read_text())
    ours, nuts = [], []
    for problem in ("speed-1e4", "speed-1e5", "speed-1e6"):
        seconds = {
            method: values["seconds to C = 0.001"]
            for method, values in record["summary"][problem].items()
            if method == "auto" or "NUTS" in method
        }
        ours.append(seconds.pop("auto"))
        lasted = {row["method"]: float(row["seconds"]) for row in rows if row["problem"] == problem}
        nuts.append(min(value or lasted[method] for method, value in seconds.items()))
    for label, values in (
        ("`vr.sample`", ours),
        ("NumPyro's NUTS", nuts),
        ("ratio", np.divide(nuts, ours)),
    ):
        row = re.search(rf"(?m)^\| {label} \| (.*) \|$", README.read_text())
        assert row, label
        numbers = [float(number.removeprefix("> ")) for number in row[1].split(" | ")]
        np.testing.assert_allclose(numbers, values, rtol=0.06)


def test_the_table_of_accuracy_is_that_of_the_results():
    """Runs, errors and C of docs/planning.md, row by row."""
    with (ROOT / "results" / "accuracy" / "accuracy.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    page = (ROOT / "docs" / "planning.md").read_text()
    tables = page.split("## What was measured")[1].split("## A plan")[0].split("passes in all:")
    for table, budget in zip(tables, ("", "200", "20"), strict=True):
        for row in re.findall(
            r"^\| ([a-z0-9-]+ \| (?:glm|plain) \| .*) \|$", table, flags=re.MULTILINE
        ):
            problem, form, right, _, worst, error, *_ = row.split(" | ")
            runs = [
                each
                for each in records
                if (each["problem"], each["form"], each["budget"]) == (problem, form, budget)
            ]
            assert right == f"{sum(each['right'] == 'True' for each in runs)} of {len(runs)}"
            largest = [
                max(float(each[name]) for each in runs) for name in ("mean error", "sd error")
            ]
            assert worst == f"{largest[0]:.3f}, {largest[1]:.3f}"
            mean = np.mean([float(each["C"]) for each in runs])
            np.testing.assert_allclose(float(error), mean, rtol=0.06)
