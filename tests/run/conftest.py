"""Fixtures that several files of this folder use."""

import pytest
from support.crashes import commit_chunks
from support.small_runs import CHAINS, D

from vrsgmcmc.run.store import draws


@pytest.fixture
def small(monkeypatch):
    """Chunks of 16 units; 20 draws in a chunk of zarr."""
    commit_chunks(monkeypatch, 16)
    monkeypatch.setattr(draws, "CHUNK_BYTES", 20 * CHAINS * D * 8)
