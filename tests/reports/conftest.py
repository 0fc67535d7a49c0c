"""A run with hostile names, and its report on disk."""

import json

import pytest
from support.hostile_report import hostile, sample_hostile

from vrsgmcmc.reports import write


@pytest.fixture(scope="session")
def result():
    return sample_hostile()


@pytest.fixture(scope="session")
def folder(result, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    (folder / "files.json").write_text(json.dumps(write(hostile(result), folder)))
    return folder
