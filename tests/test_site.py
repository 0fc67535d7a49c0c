"""The site has every page and loads nothing from elsewhere; the release files agree with each other."""

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from support.documents import CODE
from support.site_files import elsewhere
from support.wheel_files import differences, package_files

import vrsgmcmc as vr

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
KINDS = {".py", ".pyi", ".json", ".npz", ".csv", ".gz", ".jinja", ".typed", ".txt", ".md"}


def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages(nav: list) -> list[str]:
    """Every page of a part of the navigation."""
    listed = []
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            listed += pages(value) if isinstance(value, list) else [value]
    return listed


def test_the_navigation_lists_every_page_once():
    assert sorted(pages(SITE["nav"])) == sorted(page.name for page in DOCS.glob("*.md"))


def test_the_configuration_asks_for_nothing_from_elsewhere():
    assert SITE["theme"]["font"] is False
    assert "offline" in SITE["plugins"]
    for script in SITE["extra"]["polyfills"]:
        assert (DOCS / script).is_file()
    assert not {"extra_javascript", "extra_css", "repo_url", "site_url"} & set(SITE)
    assert SITE["strict"] is True


def test_what_a_page_loads_is_noticed(tmp_path):
    page = (
        '<a href="https://a.b"></a><script async src="https://c.d/e.js"></script><img src="x.png">'
    )
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "style.css").write_text('a{src:url("//f.g/h.woff2")} b{src:url(i.svg)}')
    assert elsewhere(tmp_path) == ["index.html: https://c.d/e.js", "style.css: //f.g/h.woff2"]


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_out_of_the_documents_are_to_files_that_the_site_copies(page):
    site_hooks, text = hooks(), page.read_text()
    assert set(site_hooks.OUTSIDE.findall(text)) == set(site_hooks.outside_files(text))
    assert not any(target.endswith(".md") for target in site_hooks.outside_files(text))


def test_every_method_has_a_section_with_its_equations():
    text = hooks().with_methods((DOCS / "methods.md").read_text())
    for table in (vr.ESTIMATORS, vr.INTEGRATORS):
        for name in table:
            assert f"### `vr.{name}` {{ #{name} }}" in text
            assert f"::: {table[name].__module__}.{name}\n" in text
    assert "x' = x + h g(x) + sqrt(2 h T) xi" in text
    assert "<!-- methods" not in text


def test_the_functions_of_the_methods_page_exist():
    for path in re.findall(r"^::: (\S+)", (DOCS / "methods.md").read_text(), flags=re.MULTILINE):
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path


def test_the_first_example_is_that_of_the_readme():
    """There it is run."""
    examples = [CODE.findall(page.read_text()) for page in (DOCS / "index.md", ROOT / "README.md")]
    assert examples[0] == examples[1][:1]


def test_the_release_files_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    (paper,) = citation["references"]
    names = [author["family-names"] for author in paper["authors"]]
    assert names == ["Chen", "Wang", "Zhang", "Su", "Carin"]
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    matrix = jobs["tests"]["strategy"]["matrix"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert matrix["python"] == supported
    (jax,) = (each for each in PROJECT["dependencies"] if re.match(r"jax\b", each))
    assert matrix["jax"][0].startswith(jax.replace(">=", "==") + ".0 ")


def test_the_package_holds_code_and_its_data_alone():
    files = package_files()
    assert "vrsgmcmc/py.typed" in files
    assert {Path(name).suffix or Path(name).name for name in files} <= KINDS
    assert differences(files) == []
    some = files - {"vrsgmcmc/py.typed"} | {"tests/conftest.py"}
    assert differences(some) == ["lacks vrsgmcmc/py.typed", "holds tests/conftest.py"]


@pytest.mark.slow
def test_the_wheel_holds_the_package(tmp_path):
    """Needs a network, or hatchling in pip's cache."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", tmp_path, ROOT]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert differences(archive.namelist()) == []


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path):
    """Needs the extra `docs`."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    subprocess.run(command, check=True, cwd=ROOT)
    assert elsewhere(tmp_path / "site") == []
    index = (tmp_path / "site" / "index.html").read_text()
    assert "assets/iframe-worker.js" in index
    experiments = (tmp_path / "site" / "experiments.html").read_text()
    figures = re.findall(r'src="(repository/[^"]+)"', experiments)
    assert figures
    assert all((tmp_path / "site" / figure).is_file() for figure in figures)
