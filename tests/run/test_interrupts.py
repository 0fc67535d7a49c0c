"""Ctrl-C, the length of chunks, and other threads."""

import os
import signal
import threading

import numpy as np
import pytest
from support.sample_methods import (
    CHAINS,
    PRACTICAL,
    D,
    assert_same_bits,
    assert_same_run,
    whole_run,
)

from vrsgmcmc.run.timeline import Pace


def press_ctrl_c(times=1):
    """As from a keyboard: the signal comes from outside the main thread."""
    for _ in range(times):
        sender = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
        sender.start()
        sender.join()


def press_during(monkeypatch, chunk, times=1):
    chunks, took = [], Pace.took

    def press(*arguments):
        chunks.append(took(*arguments))
        if len(chunks) == chunk:
            press_ctrl_c(times)

    monkeypatch.setattr(Pace, "took", press)


def test_chunks_take_as_long_as_wanted_and_are_worth_the_call():
    def settled(price, each):
        paced = Pace(64)
        paced.took(64, 5.0)  # compiles
        for _ in range(60):
            paced.took(paced.length, price + each * paced.length)
        return paced.length * each, price + paced.length * each

    for each in (1e-5, 1e-3, 0.1):
        work, whole = settled(0.0, each)
        assert 0.4 <= whole <= 0.6, each
    for price, each in ((0.3, 1e-3), (0.6, 1e-4), (1.0, 0.05)):
        work, whole = settled(price, each)
        assert work > 0.8 * price  # not one unit a call
        assert whole < 2.2


def test_ctrl_c_returns_what_is_finished(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    press_during(monkeypatch, chunk=3)
    result = PRACTICAL.run(num_steps=2**29, burn_in=10, thin=2000)
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is before
    assert result.interrupted
    assert 64 < result.num_steps < 2**20
    assert np.all(result.state.step == result.num_steps)
    assert result.draws.shape == (CHAINS, (result.num_steps - 10) // 2000, D)
    rest = PRACTICAL.run(num_steps=2017, thin=2000, init=result.state)
    whole = PRACTICAL.run(num_steps=result.num_steps + 2017, burn_in=10, thin=2000)
    assert not rest.interrupted
    assert_same_bits(rest.state, whole.state)
    assert_same_bits(result.draws, whole.draws[:, : result.draws.shape[1]])


def test_a_second_ctrl_c_acts_at_once(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    press_during(monkeypatch, chunk=1, times=2)
    with pytest.raises(KeyboardInterrupt):
        PRACTICAL.run(num_steps=100_000)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_ordinary_run_leaves_ctrl_c_as_it_was():
    before = signal.getsignal(signal.SIGINT)
    PRACTICAL.run()
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_can_sample():
    results = []
    worker = threading.Thread(target=lambda: results.append(PRACTICAL.run()))
    worker.start()
    worker.join()
    assert_same_run(results[0], whole_run(PRACTICAL))
