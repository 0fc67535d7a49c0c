"""Microseconds per step, beside BlackJAX in the same process.

    python benchmarks/speed.py [--rounds 5] [--out results/speed/speed.json]

Three models: a Gaussian mean (N = 1,000), logistic regression (N = 100,000, d = 50) and an MLP
784-100-10 (N = 60,000, synthetic), one chain, batches of 10. Rounds of all contestants alternate;
shown are medians and the ratio BlackJAX / ours. `bare` is the gradient alone, on one fixed batch,
with no random numbers: no sampler can be faster than that.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import vrsgmcmc as vr

BATCH = 10


def gaussian():
    data = np.random.default_rng(0).normal(0.5, 1.0, 1000).astype(np.float32)
    return vr.models.gaussian.posterior(), jnp.asarray(data), jnp.zeros(()), 1e-5, 200_000


def logistic():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100_000, 50)).astype(np.float32)
    y = (rng.uniform(size=100_000) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.int32)
    data = (jnp.asarray(x), jnp.asarray(y))
    return vr.models.logistic.posterior(), data, jnp.zeros(50), 1e-6, 40_000


def mlp_logprior(params):
    return -0.5 * sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params))


def mlp_loglik(params, datum):
    x, y = datum
    hidden = jax.nn.sigmoid(x @ params["w1"] + params["b1"])
    return jax.nn.log_softmax(hidden @ params["w2"] + params["b2"])[y]


def mlp():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(60_000, 784)).astype(np.float32)
    y = rng.integers(0, 10, 60_000).astype(np.int32)
    scale = lambda *shape: jnp.asarray(rng.normal(size=shape) / 28, jnp.float32)  # noqa: E731
    params = {"w1": scale(784, 100), "b1": scale(100), "w2": scale(100, 10), "b2": scale(10)}
    data = (jnp.asarray(x), jnp.asarray(y))
    return vr.Posterior(mlp_logprior, mlp_loglik), data, params, 1e-6, 2_000


def ours(model, estimator: Callable) -> Callable[[int], float]:
    posterior, data, params, h, _ = model

    def run(steps: int) -> float:
        result = vr.sample(
            0, posterior, data, params, estimator=estimator(), step_size=h, num_steps=steps,
            num_chains=1, chain_method="sequential", keep="averages", progress=False,
        )  # fmt: skip
        jax.block_until_ready(result.state.position)
        return result.seconds

    return run


def blackjax_sgld(model) -> Callable[[int], float]:
    posterior, data, params, h, _ = model
    size = jax.tree.leaves(data)[0].shape[0]
    gradient = blackjax.sgmcmc.gradients.grad_estimator(posterior.logprior, posterior.loglik, size)
    sgld = blackjax.sgld(gradient)

    @partial(jax.jit, static_argnames="steps")
    def chain(key, params, data, steps):
        def one(position, key):
            pick, move = jax.random.split(key)
            index = jax.random.randint(pick, (BATCH,), 0, size)
            batch = jax.tree.map(lambda leaf: leaf[index], data)
            return sgld.step(move, position, batch, h), None

        return jax.lax.scan(one, sgld.init(params), jax.random.split(key, steps))[0]

    def run(steps: int) -> float:
        began = time.monotonic()
        jax.block_until_ready(chain(jax.random.key(0), params, data, steps))
        return time.monotonic() - began

    return run


def bare(model, calls: int) -> Callable[[int], float]:
    posterior, data, params, h, _ = model
    batch = jax.tree.map(lambda leaf: leaf[:BATCH], data)

    def total(params, batch):
        return jnp.sum(jax.vmap(posterior.loglik, (None, 0))(params, batch))

    @partial(jax.jit, static_argnames="steps")
    def descend(params, batch, steps):
        def one(_, params):
            for _ in range(calls):
                gradient = jax.grad(total)(params, batch)
                params = jax.tree.map(lambda x, g: x + h * g, params, gradient)
            return params

        return jax.lax.fori_loop(0, steps, one, params)

    def run(steps: int) -> float:
        began = time.monotonic()
        jax.block_until_ready(descend(params, batch, steps))
        return time.monotonic() - began

    return run


def measure(model, rounds: int) -> dict[str, float]:
    steps = model[-1]
    contestants = {
        "blackjax sgld": blackjax_sgld(model),
        "ours sgld": ours(model, vr.minibatch),
        "ours practical": ours(model, vr.practical),
        "bare sgld": bare(model, 1),
        "bare practical": bare(model, 2),
    }
    for run in contestants.values():
        run(steps)
    seconds = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            seconds[name].append(run(steps))
    return {name: 1e6 * statistics.median(values) / steps for name, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="+", default=["gaussian", "logistic", "mlp"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    table = {}
    for name in options.models:
        row = measure(globals()[name](), options.rounds)
        row["ratio"] = row["blackjax sgld"] / row["ours sgld"]
        table[name] = row
        print(f"{name:10}" + "  ".join(f"{key} {value:8.2f}" for key, value in row.items()))
    if options.out:
        packages = {name: version(name) for name in ("vrsgmcmc", "jax", "blackjax")}
        record = {"microseconds per step": table, "rounds": options.rounds, "versions": packages}
        record["machine"] = platform.machine()
        record["command"] = shlex.join(["python", *sys.argv])
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
        record["commit"] = commit.stdout.strip()
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
