"""Signals at random moments: the exit code of the signal, a clean run, and the bits of an unbroken one.

    pytest -m slow tests/run/test_signals.py -n 0 -s      prints the counts

A process that was stopped is started again until it ends by itself, unless its chunk takes hours.
"""

import hashlib
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from signal import SIGINT, SIGTERM

import numpy as np
import pytest

from vrsgmcmc import cli
from vrsgmcmc.run import store

SUPPORT = Path(__file__).parents[1] / "support"
PROGRAM, MODEL = SUPPORT / "signal_runs.py", SUPPORT / "slow_model.py"
TIMEOUT = 300  # seconds: a process that needs more hangs
SEQUENCES = [[SIGINT], [SIGTERM], [SIGINT, SIGINT], [SIGINT, SIGTERM]]

# kind -> signals in the slow test
LIBRARY = {"endless": 12, "chunks": 8, "commits": 6, "compile": 4, "mode": 4, "saga": 4}
SECONDS = 8  # in which a chunk without end gets its signal
# kind -> steps, repeats of a loop for every datum, signals
COMMANDS = {"endless": (1000, 2**31 - 1, 8), "ordinary": (400, 5000, 8)}
SHORT_RUN = 4  # the exit code of a run whose draws are too few to be good
COMMAND_SECONDS = 15  # in which a command without end gets its signal


def start(words, **environment):
    """A process in a session of its own, with the handlers of a fresh Python."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, words)]
    return subprocess.Popen(command, env=os.environ | threads | environment, **pipes)


def send(process, signals, generator, seconds):
    """Send signals: the first within so many seconds, the second shortly behind it."""
    time.sleep(generator.uniform(0, seconds))
    for number in signals:
        process.send_signal(number)
        time.sleep(generator.choice([0.0, 0.02, 0.3]))
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    return process.returncode, out, err


def codes(signals):
    """The exit codes after signals; negative where Python ends itself by one, or it came too early."""
    return {code for number in signals for code in (-number, 128 + number)}


def run_to_end(kind, path):
    """The sha256 of the results of a run of the library, and the seconds that it took."""
    process = start([PROGRAM, kind, path])
    assert process.stdout.readline() == "begun\n"
    began = time.monotonic()
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    return out.split()[-1], time.monotonic() - began


def stop_library(kind, path, signals, generator, unbroken, seconds):
    """Stop one run of the library; returns how it ended."""
    process = start([PROGRAM, kind, path])
    assert process.stdout.readline() == "begun\n"
    code, out, err = send(process, signals, generator, seconds)
    if code == 0:
        number, digest = out.split()
        assert number in ("None", *(str(int(each)) for each in signals)), (out, err)
        ending = "finished before" if number == "None" else "returned"
        assert number != "None" or digest == unbroken
    else:
        assert code in codes(signals), (code, err)
        assert "Fatal Python error" not in err
        ending = f"code {code}"
    check_directory(path)
    if unbroken is not None:
        assert run_to_end(kind, path)[0] == unbroken
    return ending


def check_directory(path):
    if (path / "commit.json").exists():
        assert store.verify(path) == []
        store.open(path)


def print_counts(kind, endings):
    rows = ", ".join(f"{ending}: {count}" for ending, count in sorted(endings.items()))
    print(f"\n{kind}: {endings.total()} tried, {endings.total()} as promised ({rows})")


def attack_library(tmp_path, kind, count, seed=0):
    generator, endings = random.Random(f"{kind} {seed}"), Counter()
    unbroken, seconds = None, SECONDS
    if kind != "endless":  # a moment of a run, however fast this machine is
        unbroken, seconds = run_to_end(kind, tmp_path / "unbroken")
    for number in range(count):
        signals, path = SEQUENCES[number % len(SEQUENCES)], tmp_path / str(number)
        endings[stop_library(kind, path, signals, generator, unbroken, seconds)] += 1
    print_counts(f"library, {kind}", endings)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LIBRARY)
def test_signals_to_the_library(tmp_path, kind):
    attack_library(tmp_path, kind, LIBRARY[kind])


def command(folder, out, kind):
    steps, _, _ = COMMANDS[kind]
    return [
        *("-m", "vrsgmcmc", "sample", folder / "table.csv", "--target", "y", "--step-size", "1e-3"),
        *("--estimator", "minibatch", "--batch-size", "4", "--num-steps", steps, "--num-chains", "1"),
        *("--model", f"{MODEL}:build", "--out", out),
    ]  # fmt: skip


def draws_digest(path):
    """The sha256 of the draws of a finished command."""
    opened = store.open(path / "chains")
    assert opened.status == "finished"
    return hashlib.sha256(opened.draws["posterior"]["x"].to_numpy().tobytes()).hexdigest()


def stop_command(words, path, signals, generator, seconds, repeats):
    """Stop one command; returns how it ended."""
    process = start(words, VRSGMCMC_TEST_REPEATS=str(repeats))
    code, _, err = send(process, signals, generator, seconds)
    check_directory(path / "chains")
    if code == 0:
        return "finished before"
    assert code in codes(signals), (code, err)
    assert "Fatal Python error" not in err
    if code > 0:
        assert "Traceback" not in err, err
        again = rf"Go on with: vrsgmcmc resume {re.escape(str(path))} --model FILE\.py:FUNCTION"
        assert re.search(again, err) or cli.SAME_COMMAND in err, err  # before the run is open
    return f"code {code}"


def attack_command(tmp_path, kind, count, seed=0):
    _, repeats, _ = COMMANDS[kind]
    generator, endings = random.Random(f"{kind} {seed}"), Counter()
    rows = np.random.default_rng(0).normal(size=(40, 2))
    text = "\n".join(f"{a:.4f},{b:.4f}" for a, b in rows)
    (tmp_path / "table.csv").write_text(f"a,y\n{text}\n")
    whole, seconds = None, COMMAND_SECONDS
    if kind == "ordinary":  # a moment of the command, however fast this machine is
        path, began = tmp_path / "unbroken", time.monotonic()
        process = start(command(tmp_path, path, kind), VRSGMCMC_TEST_REPEATS=str(repeats))
        _, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == SHORT_RUN, err
        whole, seconds = draws_digest(path), time.monotonic() - began
    for number in range(count):
        signals, path = SEQUENCES[number % len(SEQUENCES)], tmp_path / str(number)
        words = command(tmp_path, path, kind)
        endings[stop_command(words, path, signals, generator, seconds, repeats)] += 1
        resume = ["-m", "vrsgmcmc", "resume", path, "--model", f"{MODEL}:build"]
        words = resume if (path / "job.json").exists() else words
        if number % 3 == 0:  # and once more, while it is resumed
            ending = stop_command(words, path, signals[::-1], generator, seconds, repeats)
            endings[f"{ending} (again)"] += 1
            words = resume if (path / "job.json").exists() else words
        if whole is not None:
            process = start(words, VRSGMCMC_TEST_REPEATS=str(repeats))
            _, err = process.communicate(timeout=TIMEOUT)
            assert process.returncode == SHORT_RUN, err
            assert draws_digest(path) == whole
            assert (path / "report.html").exists()
    print_counts(f"command line, {kind}", endings)


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMMANDS)
def test_signals_to_the_command_line(tmp_path, kind):
    attack_command(tmp_path, kind, COMMANDS[kind][2])
