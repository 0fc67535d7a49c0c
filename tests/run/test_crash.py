"""Runs that are killed, stopped by a signal, or larger than memory, each in a process of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vrsgmcmc.run import interrupts, store

SUPPORT = Path(__file__).parents[1] / "support"
PROGRAM, LONG_CHUNK = SUPPORT / "stored_runs.py", SUPPORT / "long_chunk.py"


def started(*arguments, **options):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


def answer(process):
    out, _ = process.communicate(timeout=1800)
    return json.loads(out.splitlines()[-1])


def check_killed(path, model, count, seed):
    told = answer(started("kill", model, path, count, seed))
    at = [number for number in told["at"] if number is not None]
    assert at == sorted(at)  # no committed draw is ever lost
    assert len(set(at)) > count // 3
    assert told["ends"] == [0, 0]
    assert told["digests"][0] == told["digests"][1]
    assert store.verify(path) == []
    assert store.open(path).status == "finished"


def test_a_killed_run_resumes_bit_for_bit(tmp_path):
    check_killed(tmp_path / "killed", "gaussian", 4, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "seed"), [("gaussian", 3), ("mlp", 4)])
def test_a_run_killed_a_hundred_times(tmp_path, model, seed):
    for batch in range(10):
        check_killed(tmp_path / str(batch) / "killed", model, 10, 10 * seed + batch)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_ends_a_run_with_everything_committed(tmp_path, number):
    path = tmp_path / "run"
    process = started("run", "gaussian", path)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (path / "commit.previous.json").exists():
        time.sleep(0.005)
    process.send_signal(number)
    told = answer(process)
    assert process.returncode == 0
    assert told["interrupted"]
    assert told["signal"] == number
    assert 0 < told["steps"] < 20_000
    opened = store.open(path)
    assert opened.status == told["status"] == f"interrupted at step {told['steps']} of 20000"
    assert opened.commit["draws"] == told["steps"] // 10
    assert store.verify(path) == []


class Unfinished:
    """The values of a computation that goes on until it is told to end."""

    ready = False

    def is_ready(self):
        return self.ready

    def devices(self):
        return ()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_chunk_that_takes_too_long_is_given_up(monkeypatch, number):
    monkeypatch.setattr(interrupts, "SECONDS_TO_FINISH", 0.2)
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    values, error = Unfinished(), KeyboardInterrupt if number == signal.SIGINT else SystemExit
    with interrupts.interruptible(signal.SIGTERM) as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), number)
        clock = time.monotonic()
        with pytest.raises(error) as caught:
            interrupted.wait(values)
        assert interrupted()
        assert time.monotonic() - clock > 0.15
        assert "the last commit stands" in str(caught.value) or caught.value.code == 143
        values.ready = True
        interrupted.wait(values)  # what is ready in time is taken
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.parametrize(
    ("stored", "signals"),
    [  # a run in memory waits for its chunk, and gives it up at a second signal
        (True, [signal.SIGTERM]),
        (True, [signal.SIGINT]),
        (True, [signal.SIGINT, signal.SIGINT]),
        (False, [signal.SIGINT, signal.SIGINT]),
    ],
)
def test_a_signal_in_a_long_chunk_ends_the_process_with_its_code(tmp_path, stored, signals):
    path = tmp_path / "run"
    command = [sys.executable, str(LONG_CHUNK), *([str(path)] if stored else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n", process.communicate()
        for number in signals:
            process.send_signal(number)
            time.sleep(0.1)
        _, messages = process.communicate(timeout=120)
    code = signals[0]  # Python ends itself by SIGINT after a KeyboardInterrupt
    assert process.returncode == (-code if code == signal.SIGINT else 128 + code), messages
    if stored:
        assert store.verify(path) == []
        assert store.open(path).progress["steps"] == 0


@pytest.mark.slow
def test_draws_larger_than_memory_leave_it_flat(tmp_path):
    """10,000 draws of 270,000 numbers: 10.8 GB."""
    count = 10_000
    if shutil.disk_usage(tmp_path).free < 13e9:
        pytest.skip("needs 13 GB of disk")
    told = answer(started("memory", tmp_path / "run", count))
    assert told["drawn"] == count
    assert told["late"] - told["early"] < 100e6
    opened = store.open(tmp_path / "run")
    last = opened.draws["posterior"]["a"][0, -1]
    assert last.shape == (269_990,)
    assert 0.9 < float(last.std()) < 1.1
    shutil.rmtree(tmp_path / "run")
