"""The documents are true: code runs, commands and links exist, tables are complete."""

import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.experiments import EXPERIMENTS, Settings
from vrsgmcmc.order import ORDERS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
CODE = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^    ((?:pip|vrsgmcmc|pytest|python) .*)$", flags=re.MULTILINE)


def name_of(page: Path) -> str:
    return page.name


def execute(page: Path) -> Iterator[dict]:
    """Run the blocks of a page in one namespace, and show it after each."""
    text = page.read_text()
    names: dict = {"__name__": "page"}
    for block in CODE.finditer(text):
        line = text.count("\n", 0, block.start(1))
        source = "\n" * line + block[1]  # so that errors show the page's line
        exec(compile(source, page, "exec"), names)
        yield names


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
    assert "r_hat" in capsys.readouterr().out
    mean, covariance = vr.theory.linear_regression(*names["data"].values()).posterior()
    draws = names["result"].draws.reshape(-1, 3)
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


def test_the_integrator_of_extending_is_exact_where_sgld_is_not(elsewhere, capsys):
    *_, names = execute(ROOT / "docs" / "extending.md")
    sgld, averaged = map(float, capsys.readouterr().out.split())
    assert abs(sgld - 2) < 0.05
    assert abs(averaged - 1) < 0.03
    kernel = (vr.models.gaussian.posterior(), vr.svrg(), names["LeimkuhlerMatthews"]())
    assert vr.kernel(*kernel, size=100, batch_size=10).period == 10


def test_the_counts_of_conventions_hold(elsewhere):
    assert len(list(execute(ROOT / "docs" / "conventions.md"))) == 1


def test_every_page_with_code_is_run_above():
    pages = [page.name for page in PAGES if CODE.search(page.read_text())]
    assert pages == ["README.md", "choosing.md", "conventions.md", "extending.md"]


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
        case ["python", script, *_] if not script.startswith("-"):
            compile((ROOT / script).read_text(), script, "exec")
        case ["pytest"] | ["python", "-m", "vrsgmcmc", *_]:
            pass
        case _:
            pytest.fail(f"a command that nobody checks: {command}")
