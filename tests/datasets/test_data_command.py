"""`vrsgmcmc data`, and the page about data."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.dataset_files import DIGITS, FILES, PICTURES, npz_bytes
from support.documents import cells, execute

from vrsgmcmc import cli
from vrsgmcmc.datasets import CATALOGUE

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


def run(line, capsys):
    capsys.readouterr()
    code = cli.main(shlex.split(line))
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def test_list_shows_size_licence_and_place(tiny, capsys, monkeypatch):
    shutil.rmtree(tiny / "cifar10")
    (tiny / "ptb" / "ptb.test.txt").unlink()
    code, out, err = run(f"data list --data-dir {tiny}", capsys)
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert list(rows) == ["data", *CATALOGUE, "pima"]
    assert rows["mnist"].endswith(f"CC BY-SA 3.0                         {tiny / 'mnist'}")
    assert rows["cifar10"].endswith("cite Krizhevsky (2009)  -")
    assert rows["ptb"].endswith(f"do not pass it on     2 of 3 files in {tiny / 'ptb'}")
    assert rows["pima"].endswith("in the package")
    monkeypatch.setenv("VRSGMCMC_DATA", str(tiny))
    assert run("data list mnist", capsys)[1].splitlines()[1].endswith(str(tiny / "mnist"))


def test_sizes_are_those_of_the_real_files(capsys):
    _, out, _ = run("data list", capsys)
    sizes = re.findall(r"([\d.]+ [kM]B)", out)
    assert sizes == ["11.6 MB", "170.1 MB", "6.0 MB", "13.2 MB", "23 kB"]


def test_verify_names_every_file(tiny, capsys):
    code, out, err = run(f"data verify --data-dir {tiny}", capsys)
    assert (code, err) == (0, "")
    assert sorted(line.removesuffix(": as published") for line in out.splitlines()) == sorted(
        str(path) for path in tiny.glob("*/*")
    )
    path = tiny / "mnist" / "train-labels-idx1-ubyte.gz"
    path.write_bytes(b"damaged")
    (tiny / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    code, out, err = run(f"data verify mnist --data-dir {tiny}", capsys)
    assert code == 2
    assert len(out.splitlines()) == 2
    assert f"vrsgmcmc: {path} is not train-labels-idx1-ubyte.gz as it was published" in err
    assert "vrsgmcmc: t10k-labels-idx1-ubyte.gz is missing." in err


def test_verify_looks_into_an_npz_file(tiny, capsys):
    path = tiny / "cifar10" / "cifar10.npz"
    path.with_name("cifar-10-binary.tar.gz").unlink()
    path.write_bytes(npz_bytes(**PICTURES))
    assert run(f"data verify cifar10 --data-dir {tiny}", capsys)[:2] == (
        0,
        f"{path}: as published\n",
    )
    path.write_bytes(npz_bytes(**PICTURES | {"y_test": 9 - PICTURES["y_test"]}))
    code, _, err = run(f"data verify cifar10 --data-dir {tiny}", capsys)
    assert code == 2
    assert f"y_test in {path} is not that of CIFAR-10" in err


def test_verify_without_data(capsys):
    assert run("data verify", capsys)[:2] == (
        0,
        "There is no data set on this machine. See vrsgmcmc data get --help.\n",
    )
    code, _, err = run("data verify ptb", capsys)
    assert code == 2
    assert err.count("is missing.") == 3


def test_get_shows_what_is_there_and_offline_what_is_missing(tiny, capsys):
    code, out, err = run(f"data get all --data-dir {tiny}", capsys)
    assert code == 0
    assert sorted(out.split()) == sorted(str(path) for path in tiny.glob("*/*"))
    assert "licence: CC BY-SA 3.0" in err
    code, out, err = run("data get mnist", capsys)
    assert (code, out) == (2, "")
    assert "VRSGMCMC_OFFLINE forbids" in err


@pytest.mark.parametrize(
    ("name", "file", "others"),
    [("mnist", "train-images-idx3-ubyte.gz", 3), ("cifar10", "cifar10.npz", 0)],
)
def test_get_does_not_take_a_damaged_file_for_one_that_is_there(name, file, others, tiny, capsys):
    (tiny / "cifar10" / "cifar-10-binary.tar.gz").unlink()
    path = tiny / name / file
    path.write_bytes(b"damaged")
    code, out, err = run(f"data get {name} --data-dir {tiny}", capsys)
    assert (code, len(out.splitlines())) == (2, others)
    assert f"vrsgmcmc: {path} " in err
    assert f"Delete it and get it again: vrsgmcmc data get {name} --data-dir {tiny}" in err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("data", "the following arguments are required: list|get|verify"),
        ("data lst", "invalid choice: 'lst'"),
        ("data get", "get what? Name data sets: mnist, cifar10, ptb, wikitext-2, or all."),
        ("data get mnis", "unknown data set 'mnis'. Did you mean mnist?"),
        ("data verify pima", "pima comes with the package"),
        ("data list --data-dir /no/where", "data_dir='/no/where' is not a folder."),
        ("data list --datadir x", "unknown option '--datadir'. Did you mean --data-dir?"),
    ],
)
def test_mistakes_get_a_sentence(line, message, capsys):
    code, out, err = run(line, capsys)
    assert (code, out) == (2, "")
    assert message in err


def test_the_code_of_the_page_runs(tiny, monkeypatch):
    monkeypatch.setenv("VRSGMCMC_DATA", str(tiny))
    *_, names = execute(PAGE)
    assert names["x"].shape == (7, 784)
    assert names["x"].dtype == np.float32
    assert 0 <= names["x"].min() < names["x"].max() <= 1
    np.testing.assert_array_equal(names["y"], DIGITS["train-labels-idx1-ubyte.gz"])
    assert names["sentence"] == ["the", "cat", "\u2013", "sat", "<eos>"]


def test_the_page_lists_every_file_of_the_catalogue():
    text = PAGE.read_text()
    table = cells(text, "file")
    assert {row for row, _ in table} == {f"`{folder}/{file.name}`" for folder, file in FILES}
    for folder, file in FILES:
        assert table[f"`{folder}/{file.name}`", "bytes"] == f"{file.length:,}"
        assert table[f"`{folder}/{file.name}`", "sha256"] == f"`{file.sha256}`"
        for mirror in file.mirrors:
            assert f"<{mirror.rsplit('/', 1)[0]}/>" in text, mirror
    licences = cells(text, "data set")
    for dataset in CATALOGUE.values():
        assert licences[f"`{dataset.name}`", "licence"].startswith(dataset.licence)


def test_the_recipe_of_the_page_brings_files_by_hand(tiny, capsys, monkeypatch, tmp_path):
    """`get` where there is a net, the folder carried over, `verify` where there is none."""
    block = re.search(r"^```sh\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert block is not None
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny, "folder", ignore=shutil.ignore_patterns("folder"))
    for line in block[1].splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        if line.startswith("export "):
            monkeypatch.setenv(name, value)
        else:
            assert run(line.removeprefix("vrsgmcmc "), capsys)[0] == 0, line
