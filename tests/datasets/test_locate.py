"""The catalogue, and where the files of a data set are looked for."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.dataset_files import FILES

from vrsgmcmc import datasets
from vrsgmcmc.datasets import CATALOGUE, locate


@pytest.mark.parametrize(("folder", "file"), FILES, ids=lambda value: getattr(value, "name", value))
def test_a_file_of_the_catalogue_has_a_sum_and_several_mirrors(folder, file):
    assert re.fullmatch("[0-9a-f]{64}", file.sha256)
    assert file.length > 0
    assert len(set(file.mirrors)) >= 2
    assert len({mirror.split("/")[2] for mirror in file.mirrors}) >= 2  # hosts
    for mirror in file.mirrors:
        assert re.fullmatch(r"https://[\w.-]+(/[\w.@~-]+)+", mirror)


def test_the_catalogue_is_there_without_numpy():
    program = """
import sys
from vrsgmcmc.cli import main
assert main(["data", "list"]) == 0
assert "numpy" not in sys.modules
import vrsgmcmc.datasets
assert set(vrsgmcmc.datasets.__all__) == set(dir(vrsgmcmc.datasets))
assert all(hasattr(vrsgmcmc.datasets, name) for name in dir(vrsgmcmc.datasets))
assert not hasattr(vrsgmcmc.datasets, "mnst")
assert callable(vrsgmcmc.datasets.pima)
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)


def test_the_folder_of_the_call_comes_before_the_environment_and_the_cache(tiny, monkeypatch):
    first, second, third = (tiny / name for name in ("first", "second", "cache"))
    monkeypatch.setenv("VRSGMCMC_DATA", str(second))
    monkeypatch.setenv("XDG_CACHE_HOME", str(third))
    for place in (third / "vrsgmcmc", second, first):  # the last comes first
        shutil.copytree(tiny / "mnist", place / "mnist")
        second.mkdir(exist_ok=True)
        paths = locate.obtain(CATALOGUE["mnist"], first if place == first else None)
        assert {path.parent for path in paths.values()} == {place / "mnist"}
    (first / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()  # a part of it is elsewhere
    paths = locate.obtain(CATALOGUE["mnist"], first)
    assert paths["t10k-labels-idx1-ubyte.gz"].parent == second / "mnist"
    assert paths["t10k-images-idx3-ubyte.gz"].parent == first / "mnist"


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x/cache"}, "/x/cache/vrsgmcmc"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/vrsgmcmc"),
        ("linux", {}, "/home/me/.cache/vrsgmcmc"),
        ("darwin", {}, "/home/me/Library/Caches/vrsgmcmc"),
        ("win32", {"LOCALAPPDATA": "/x/local"}, "/x/local/vrsgmcmc"),
        ("win32", {"XDG_CACHE_HOME": "/x/cache"}, "/home/me/AppData/Local/vrsgmcmc"),
    ],
)
def test_the_cache_is_where_the_system_wants_it(platform, environment, expected, monkeypatch):
    monkeypatch.setattr(locate.sys, "platform", platform)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"HOME": "/home/me"} | environment).items():
        monkeypatch.setenv(name, value)
    assert locate.cache_dir() == Path(expected)


def test_without_a_home_the_message_says_what_to_set(monkeypatch, tiny):
    def none():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", none)
    with pytest.raises(ValueError, match=r"no home for a cache. Name a folder with VRSGMCMC_DATA"):
        datasets.mnist()
    assert len(datasets.mnist(tiny).y_train) == 7  # nobody asks for it


@pytest.mark.parametrize("name", ["data_dir", "VRSGMCMC_DATA"])
def test_a_folder_that_is_none_is_refused(name, tmp_path, monkeypatch):
    wrong = str(tmp_path / "typo")
    monkeypatch.setenv("VRSGMCMC_DATA", wrong if name == "VRSGMCMC_DATA" else "")
    with pytest.raises(ValueError, match=re.escape(f"{name}={wrong!r} is not a folder.")):
        datasets.mnist(wrong if name == "data_dir" else None)


def test_offline_the_message_has_files_sums_and_the_place_to_put_them(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError) as error:
        datasets.penn_treebank()
    text = str(error.value)
    assert "3 of 3 files are not here, and VRSGMCMC_OFFLINE forbids to download them" in text
    for file in CATALOGUE["ptb"].files:
        assert (
            f"{file.name} (or {file.name}.gz), {file.length:,} bytes, sha256 {file.sha256}" in text
        )
        assert all(mirror in text for mirror in file.mirrors)
    assert f"put them into {tmp_path / 'vrsgmcmc' / 'ptb'}\n" in text
    assert list(tmp_path.iterdir()) == []
