"""What progress, checks and commits cost: `python benchmarks/overhead.py [--out results/X.json]`.

An MLP 784-100-10 on 60,000 synthetic rows, SGLD and vrSG-MCMC with batches of 10, one chain; every
1000th position is a draw (318 KB). Three ways of calling `vr.sample`, in rounds that alternate:

    bare       averages alone, no progress, no directory
    draws      draws in memory
    run_dir    draws in a run directory, committed every ten seconds, with progress

Shown is the least time of each over that of the first: what else the machine does only adds.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import vrsgmcmc as vr

METHODS = {"sgld": vr.minibatch(), "vrsgmcmc": vr.practical(100, 10)}


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

    def seconds(method: str, way: str, steps: int) -> float:
        with tempfile.TemporaryDirectory() as scratch:
            options = {"run_dir": Path(scratch, "run")} if way == "run_dir" else {}
            result = vr.sample(
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
        return result.seconds

    ways = ("bare", "draws", "run_dir")
    found: dict[str, dict[str, float]] = {}
    for method in arguments.methods:
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for way in ways:
            seconds(method, way, 2000)  # compiles
        for _ in range(arguments.rounds):
            for way in ways:
                taken[way].append(seconds(method, way, arguments.steps))
        least = {way: min(values) for way, values in taken.items()}
        found[method] = {way: round(least[way] / least["bare"] - 1, 4) for way in ways[1:]}
        found[method]["spread of bare"] = round(max(taken["bare"]) / min(taken["bare"]) - 1, 4)
        found[method]["microseconds per step"] = round(1e6 * least["bare"] / arguments.steps, 2)
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
