"""What progress, checks and commits cost: `python benchmarks/overhead.py [--out FILE]`.

An MLP 784-100-10 on 60,000 synthetic rows, SGLD and vrSG-MCMC with batches of 10, one chain; every
1000th position is a draw (318 KB). Three ways of calling `vr.sample`:

    bare       averages alone, no progress, no directory
    draws      draws in memory
    run_dir    draws in a run directory, committed every ten seconds, with progress

Two runs of one program differ by more than what is looked for, on a machine that does other things. So
the clock is read within a run: how long the chunks of steps and the commits take together, and how much
of that is spent in the compiled chunks. The rest is overhead, by the wall: choosing lengths, looking
for divergence, copying draws, progress, writing, waiting for the disk.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np

import vrsgmcmc as vr
from vrsgmcmc.core import compiled
from vrsgmcmc.run.loop import Loop
from vrsgmcmc.run.storage import DirectoryStorage

METHODS = {"sgld": vr.minibatch(), "vrsgmcmc": vr.practical(100, 10)}
WAYS = ("bare", "draws", "run_dir")


class Clock:
    """Wall time spent in functions, calls within calls counted once."""

    def __init__(self) -> None:
        self.seconds, self.depth = 0.0, 0

    def __call__(self, function):
        def timed(*arguments, **options):
            began, self.depth = time.perf_counter(), self.depth + 1
            try:
                return function(*arguments, **options)
            finally:
                self.depth -= 1
                self.seconds += 0 if self.depth else time.perf_counter() - began

        return timed


running, computing = Clock(), Clock()
advance = compiled.advance
compiled.advance = computing(
    lambda *arguments, **options: jax.block_until_ready(advance(*arguments, **options))
)
Loop.run_chunk = running(Loop.run_chunk)
DirectoryStorage.commit = running(DirectoryStorage.commit)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    data = rng.normal(size=(60_000, 784)).astype(np.float32), rng.integers(0, 10, 60_000)
    posterior, start = vr.models.mlp.classifier(10), vr.models.mlp.initial(784, 10, hidden=100)

    def overhead(method: str, way: str, steps: int) -> tuple[float, float]:
        """Seconds outside and inside the compiled program."""
        with tempfile.TemporaryDirectory() as scratch:
            options = {"run_dir": Path(scratch, "run")} if way == "run_dir" else {}
            computing.seconds = running.seconds = 0.0
            vr.sample(
                0,
                posterior,
                data,
                start,
                estimator=METHODS[method],
                step_size=1e-6,
                num_steps=steps,
                num_chains=1,
                thin=1000,
                keep="averages" if way == "bare" else "draws",
                progress=None if way == "run_dir" else False,
                **options,
            )
        return running.seconds - computing.seconds, computing.seconds

    found: dict[str, dict[str, float]] = {}
    for method in arguments.methods:
        found[method] = {}
        for way in WAYS:
            overhead(method, way, 2000)  # compiles
        taken = [
            [overhead(method, way, arguments.steps) for way in WAYS]
            for _ in range(arguments.rounds)
        ]
        for way, rounds in zip(WAYS, zip(*taken, strict=True), strict=True):
            shares = [outside / inside for outside, inside in rounds]
            found[method][way] = round(statistics.median(shares), 5)
            found[method][f"{way}, most"] = round(max(shares), 5)
        inside = statistics.median(seconds for _, seconds in (one[0] for one in taken))
        found[method]["microseconds per step"] = round(1e6 * inside / arguments.steps, 2)
        print(method, found[method], flush=True)
    if arguments.out is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "versions": {name: version(name) for name in ("vrsgmcmc", "jax", "numpy", "zarr")},
            "python": platform.python_version(),
            "rounds": arguments.rounds,
            "steps": arguments.steps,
            "overhead": found,
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
