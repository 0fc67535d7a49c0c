"""How long a gradient of each network takes, beside PyTorch, and how long a pass over the data.

    python benchmarks/networks.py --torch-python python [--passes] [--out results/networks-speed.json]

A gradient of 10 images, or of 10 segments of 35 words, and a step x + h g. Ours is the library's
gradient in a compiled loop, as a chain runs it; PyTorch's is in `torch_networks.py`, run by the given
interpreter (by default this one). Both get the same cores, one and then two of those that this process
may use, and their rounds alternate; shown are medians, and that of the ratios ours / PyTorch. On one
core the clock is the processor's, which other programs do not turn, on two the wall's. Without PyTorch
ours are shown alone.

--passes: seconds for one pass over the training data through `vr.sample`, SGLD with batches of 10 and
of 100, on one core. Data are random, of the shapes of MNIST, CIFAR-10, Penn Treebank and WikiText-2.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
BATCH, LENGTH = 10, 35
STEPS = {  # in a round
    "mlp": 500,
    "cnn4": 40,
    "resnet20": 6,
    "resnet20-batch-norm": 6,
    "lstm-ptb": 4,
    "lstm-wikitext2": 2,
}


class Network(NamedTuple):
    posterior: object
    initial: Callable
    data: Callable  # of a number of images or segments
    size: int  # images or segments in the training data
    group: int = 1  # of them in a datum


def networks() -> dict[str, Network]:
    import numpy as np

    from vrsgmcmc.models import cnn, lstm, mlp, resnet

    rng = np.random.default_rng(0)

    def images(count):
        pixels = rng.integers(0, 256, (count, 32, 32, 3)).astype(np.uint8)
        return pixels, rng.integers(0, 10, count).astype(np.int32)

    def rows(count):
        return rng.uniform(size=(count, 784)).astype(np.float32), rng.integers(0, 10, count)

    def words(vocabulary):
        return lambda count: lstm.segments(
            rng.integers(0, vocabulary, LENGTH * count + 1).astype(np.int32)
        )

    return {
        "mlp": Network(
            mlp.classifier(10, activation="sigmoid"), mlp.initial(784, 10, 100), rows, 60_000
        ),
        "cnn4": Network(cnn.posterior(), cnn.initial(), images, 50_000),
        "resnet20": Network(resnet.posterior(), resnet.initial(), images, 50_000),
        "resnet20-batch-norm": Network(
            resnet.posterior(norm="batch_norm"),
            resnet.initial(norm="batch_norm"),
            lambda count: resnet.groups(*images(count)),
            50_000,
            group=10,
        ),
        "lstm-ptb": Network(lstm.posterior(10_000), lstm.initial(10_000), words(10_000), 26_559),
        "lstm-wikitext2": Network(
            lstm.posterior(33_278), lstm.initial(33_278), words(33_278), 59_675
        ),
    }


def contestant(network: Network) -> Callable[[int], float]:
    """A function that times a number of gradients and steps in a compiled loop."""
    import jax
    import jax.numpy as jnp

    from vrsgmcmc.core.gradients import likelihood_gradient
    from vrsgmcmc.core.types import Batch

    clock = time.process_time if len(os.sched_getaffinity(0)) == 1 else time.perf_counter
    items = jax.tree.map(jnp.asarray, network.data(BATCH))
    batch = Batch(jnp.arange(BATCH // network.group), items)
    params = network.initial(jax.random.key(0))

    @jax.jit
    def descend(params, batch, steps):
        def one(number, params):
            lock = jax.random.fold_in(jax.random.key(1), number)
            gradient = likelihood_gradient(network.posterior, params, batch, lock)
            return jax.tree.map(lambda x, g: x + 1e-9 * g, params, gradient)

        return jax.lax.fori_loop(0, steps, one, params)

    def run(steps: int) -> float:
        began = clock()
        jax.block_until_ready(descend(params, batch, steps))
        return clock() - began

    run(3)
    return run


def answer() -> None:
    """Read a name and a number of steps from each line, and answer with the seconds."""
    import jax

    print(jax.__version__, flush=True)
    every, compiled = networks(), {}
    for line in sys.stdin:
        name, steps = line.split()
        if name not in compiled:
            compiled[name] = contestant(every[name])
        print(compiled[name](int(steps)), flush=True)


class Worker:
    """A process on some cores that answers a line with a line."""

    def __init__(self, command: list[str], cores: list[int]):
        threads = {"OMP_NUM_THREADS": str(len(cores)), "MKL_NUM_THREADS": str(len(cores))}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=os.environ | threads,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout
        self.version = self.output.readline().strip()

    def __call__(self, name: str) -> float:
        """Microseconds of a step."""
        print(name, STEPS[name], file=self.input, flush=True)
        return 1e6 * float(self.output.readline()) / STEPS[name]

    def close(self) -> None:
        self.input.close()
        self.process.wait()


def compare(names: list[str], python: str | None, cores: list[int], rounds: int) -> list[dict]:
    """A row of medians for each network; the rounds of both libraries alternate."""
    workers = {"ours": Worker([sys.executable, __file__, "--answer"], cores)}
    if python is not None:
        workers["torch"] = Worker([python, str(HERE / "torch_networks.py")], cores)
    rows = []
    for name in names:
        times: dict[str, list[float]] = {who: [] for who in workers}
        for _ in range(rounds):
            for who, worker in workers.items():
                times[who].append(worker(name))
        row: dict = {"network": name, "threads": len(cores)}
        row |= {f"{who} us": round(statistics.median(times[who]), 1) for who in workers}
        if "torch" in times:
            ratios = [a / b for a, b in zip(times["ours"], times["torch"], strict=True)]
            row["ratio"] = round(statistics.median(ratios), 3)
        rows.append(row)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    for worker in workers.values():
        worker.close()
    return rows


def passes(names: list[str]) -> list[dict]:
    """Processor seconds of SGLD for one pass over the training data, from a part of a pass."""
    every, rows = networks(), []
    for name in names:
        network = every[name]
        data = network.data(min(network.size, 2_000))
        row: dict = {"network": name, "images or segments": network.size}
        for batch in (10, 100):
            steps = max(2, STEPS[name] * BATCH // batch)
            seconds = seconds_of_a_step(network, data, batch, steps)
            row[f"s per pass, n = {batch}"] = round(seconds * network.size / batch, 2)
        rows.append(row)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return rows


def seconds_of_a_step(network: Network, data, batch: int, steps: int, rounds: int = 3) -> float:
    """The difference in time between two numbers of steps, so that the start does not count."""
    import vrsgmcmc as vr

    def seconds(steps: int) -> float:
        began = time.process_time()
        vr.sample(
            0, network.posterior, data, network.initial, estimator=vr.minibatch(),
            batch_size=batch // network.group, step_size=1e-9, num_steps=steps, num_chains=1,
            keep="averages", progress=False,
        )  # fmt: skip
        return time.process_time() - began

    seconds(steps)
    return statistics.median(
        (seconds(4 * steps) - seconds(steps)) / (3 * steps) for _ in range(rounds)
    )


def has_torch(python: str) -> bool:
    return not subprocess.run([python, "-c", "import torch"], capture_output=True).returncode


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(": ")[2] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def write(path: Path, table: list[dict], more: list[dict], options: argparse.Namespace) -> None:
    """The record as JSON, the comparison as CSV beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "a gradient of 10": table,
        "a pass": more,
        "rounds": options.rounds,
        "versions": {name: version(name) for name in ("vrsgmcmc", "jax", "equinox")},
        "processor": processor(),
        "command": shlex.join(["python", *sys.argv]),
    }
    if options.torch_python is not None:
        command = [options.torch_python, "-c", "import torch; print(torch.__version__)"]
        record["versions"]["torch"] = subprocess.check_output(command, text=True).strip()
    path.write_text(json.dumps(record, indent=2) + "\n")
    with path.with_suffix(".csv").open("w", newline="") as file:
        out = csv.DictWriter(file, list(table[0]))
        out.writeheader()
        out.writerows(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--passes", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        return answer()
    if not has_torch(options.torch_python):
        print(f"{options.torch_python} has no torch: ours alone")
        options.torch_python = None
    cores = sorted(os.sched_getaffinity(0))
    table = []
    for count in (1, 2):
        if count <= len(cores):
            table += compare(options.networks, options.torch_python, cores[:count], options.rounds)
    os.sched_setaffinity(0, cores[:1])
    more = passes(options.networks) if options.passes else []
    if options.out:
        write(options.out, table, more, options)
    return None


if __name__ == "__main__":
    main()
