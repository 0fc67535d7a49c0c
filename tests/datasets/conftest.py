"""Fixtures that several files of this folder use: no data and no net, and tiny data sets."""

import hashlib

import pytest
from support.dataset_files import (
    BATCHES,
    DIGITS,
    PICTURES,
    TEXTS,
    archive_bytes,
    idx_bytes,
    with_content,
)

from vrsgmcmc.datasets import CATALOGUE, cifar


@pytest.fixture(autouse=True)
def nowhere(tmp_path_factory, monkeypatch):
    """No data on this machine, and no way to the net."""
    monkeypatch.delenv("VRSGMCMC_DATA", raising=False)
    monkeypatch.setenv("VRSGMCMC_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder with tiny data sets, and a catalogue that knows them."""
    contents = {
        "mnist": [idx_bytes(array) for array in DIGITS.values()],
        "cifar10": [archive_bytes({"cifar-10-batches-bin/readme.html": b"hello"} | BATCHES)],
        "ptb": list(TEXTS.values()),
        "wikitext-2": list(TEXTS.values()),
    }
    monkeypatch.setattr(
        cifar,
        "ARRAYS",
        {name: (a.shape[1:], hashlib.sha256(a).hexdigest()) for name, a in PICTURES.items()},
    )
    for name, parts in contents.items():
        monkeypatch.setitem(CATALOGUE, name, with_content(name, parts))
        (tmp_path / name).mkdir()
        for file, content in zip(CATALOGUE[name].files, parts, strict=True):
            (tmp_path / name / file.name).write_bytes(content)
    return tmp_path
