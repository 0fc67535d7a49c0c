"""Small files and short commands that would eat memory or time are refused before they do."""

import json
import subprocess
import sys

import pytest
from support import small_files
from support.small_files import GIGABYTE, REFUSED


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The answer to every command, from processes that may take one gigabyte."""
    if not sys.platform.startswith("linux"):
        pytest.skip("needs Linux: the limit on memory, and /proc")
    folder = tmp_path_factory.mktemp("small")
    words = [sys.executable, small_files.__file__, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=True)
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_within_a_gigabyte(name, answers):
    answer = answers[name]
    assert REFUSED[name][1] in answer["message"]
    assert answer["code"] == 2
    assert answer["peak"] < GIGABYTE
