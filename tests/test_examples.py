"""The examples run as a reader runs them, and their page shows what they print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_site import hooks

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGE = (ROOT / "docs" / "examples.md").read_text()
FAST = "noise"
PNG = b"\x89PNG\r\n\x1a\n"
NUMBER = re.compile(r"-?\d[\d.,]*")


def run(script: Path, folder: Path) -> str:
    """What a script prints, in a process of its own: float32, as users have it."""
    environment = os.environ | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
    done = subprocess.run(
        [sys.executable, script, folder], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def words(text: str) -> str:
    return " ".join(NUMBER.sub("#", text).split())


def printed(name: str) -> str:
    """What the page says that a script prints."""
    block = re.search(rf"{name}\.py\)\. It prints\n\n((?:(?:    .*)?\n)+)", PAGE)
    assert block is not None
    return block[1]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(each, id=each.stem, marks=[pytest.mark.slow] * (each.stem != FAST))
        for each in EXAMPLES
    ],
)
def test_an_example_draws_its_picture_and_prints_what_the_page_says(script, tmp_path):
    shown, out = printed(script.stem), run(script, tmp_path)
    assert words(out) == words(shown)
    for here, there in zip(NUMBER.findall(out), NUMBER.findall(shown), strict=True):
        here, there = (float(each.strip(".,").replace(",", "")) for each in (here, there))
        assert here == pytest.approx(there, rel=0.1, abs=0.1), (out, shown)
    (picture,) = tmp_path.iterdir()
    assert picture.name == f"examples-{script.stem}.png"
    assert picture.read_bytes().startswith(PNG)


def test_the_page_has_every_example_with_its_picture_and_its_text():
    site = hooks().with_examples(PAGE)
    assert len(EXAMPLES) == 6
    for script in EXAMPLES:
        picture = f"images/examples-{script.stem}.png"
        assert f"]({picture})" in PAGE
        assert (ROOT / "docs" / picture).stat().st_size < 120_000
        assert f"](../examples/{script.name})" in PAGE
        assert f"```python\n{script.read_text()}```" in site
    assert "<!-- example" not in site


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_is_short_and_says_how_to_run_it(script):
    text = script.read_text()
    assert len(text.splitlines()) <= 60
    assert (
        f"    python examples/{script.name} [folder]    writes examples-{script.stem}.png" in text
    )
