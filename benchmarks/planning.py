"""Is the plan as good as a search? `python benchmarks/planning.py` writes results/planning.csv.

For five problems: `vr.plan` with a budget of 200 passes over the data, its pilot included, against the
best of a grid, whose members get 200 passes each and start at the mode for free:

    full, minibatch, practical(100, 10), svrg, saga, control_variate at the mode, n = 10
    x  sgld, h lambda_max = 0.002 ... 1
       BAOAB, friction 4 sqrt(lambda_min), h sqrt(lambda_max) = 0.03 ... 1.2
    x  orders (of minibatches and of anchors): without_replacement, shuffled
    x  8 step sizes

The grid is ranked with 16 chains per member (4 where N = 20,000) and the best four again with 32; the
winner and the plan are then measured with 128 chains and fresh seeds. The score is
C = (MSE of means / sd^2 + MSE of variances / (2 sd^4)) / 2 of one chain, averaged over parameters.
References: exact, or importance sampling around the mode.
"""

import argparse
import csv
import json
import platform
import shlex
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import vrsgmcmc as vr
from vrsgmcmc.core import Sampler
from vrsgmcmc.run import find_mode

PASSES, N2 = 200, 10
CHAINS, FINALISTS, STEPS = 128, 4, 8
SGLD_STEPS, KINETIC_STEPS = np.geomspace(0.002, 1.0, STEPS), np.geomspace(0.03, 1.2, STEPS)


class Problem:
    def __init__(self, posterior, data, start, moments=None, draws=200_000):
        self.posterior, self.data = posterior, jax.tree.map(jnp.asarray, data)
        self.size = jax.tree.leaves(self.data)[0].shape[0]
        self.start = start
        self.mode = find_mode(posterior, self.data, start).params
        self.model = vr.theory.local(posterior, self.data, self.mode, rows=4096)
        self.mean, self.variance = moments or importance(self, draws)


def importance(problem, draws):
    """Means and variances by importance sampling from a t distribution around the mode."""
    rng, model = np.random.default_rng(1), problem.model
    d = len(model.center)
    z = rng.normal(size=(draws, d)) / np.sqrt(rng.chisquare(20, size=(draws, 1)) / 20)
    x = model.center + (z / np.sqrt(model.curvature)) @ model.directions.T

    @jax.jit
    def heights(x):
        def one(x):
            rows = jax.vmap(problem.posterior.loglik, (None, 0))(x, problem.data)
            return problem.posterior.logprior(x) + rows.sum()

        return jax.lax.map(one, x, batch_size=50)

    start = jnp.asarray(x[:1], jnp.float32)
    base = float(heights(start)[0])
    height = np.concatenate([heights(jnp.asarray(part, jnp.float32)) for part in np.split(x, 20)])
    log_q = -(20 + d) / 2 * np.log1p((z**2).sum(-1) / 20)
    weight = np.exp(height - base - log_q - np.max(height - base - log_q))
    weight /= weight.sum()
    print(f"  importance sampling: {1 / (weight**2).sum():,.0f} effective draws", flush=True)
    mean = weight @ x
    return mean, weight @ (x - mean) ** 2


def problems():
    rng = np.random.default_rng(0)
    x = rng.normal(0.7, 1.0, 1000).astype(np.float32)
    mean, covariance = vr.theory.gaussian_mean(x).posterior()
    yield (
        "gaussian",
        Problem(vr.models.gaussian.posterior(), x, jnp.zeros(()), (mean, covariance[0])),
    )

    for name, size, scales in (
        ("linear", 1000, np.ones(5)),
        ("linear, badly conditioned", 2000, np.geomspace(1, 0.05, 8)),
    ):
        X = (rng.normal(size=(size, len(scales))) * scales).astype(np.float32)
        y = (X @ rng.normal(size=len(scales)) + rng.normal(size=size)).astype(np.float32)
        mean, covariance = vr.theory.linear_regression(X, y).posterior()
        start = jnp.zeros(len(scales))
        moments = mean, np.diag(covariance)
        yield name, Problem(vr.models.linear.posterior(), (X, y), start, moments)

    X, y = vr.datasets.pima()
    X = vr.datasets.with_intercept(vr.datasets.standardise(X)[0])
    yield "pima", Problem(vr.models.logistic.posterior(), (X, y), jnp.zeros(X.shape[1]))

    X = rng.normal(size=(20_000, 20)) @ np.diag(np.geomspace(1, 0.3, 20))
    y = rng.uniform(size=len(X)) < 1 / (1 + np.exp(-X @ rng.normal(size=20) * 0.5))
    data = X.astype(np.float32), y.astype(np.int32)
    yield (
        "logistic, N = 20,000",
        Problem(vr.models.logistic.posterior(), data, jnp.zeros(20), draws=40_000),
    )


def scores(problem, settings, chains, seed):
    """C of each chain: the mean over parameters."""
    result = vr.sample(
        seed,
        problem.posterior,
        problem.data,
        problem.mode,
        num_chains=chains,
        keep="averages",
        observables={"first": identity, "second": vr.observable(square, data=problem.mode)},
        progress=False,
        **settings,
    )
    first = np.asarray(result.averages["first"], float).reshape(chains, -1)
    second = np.asarray(result.averages["second"], float).reshape(chains, -1)
    away = first - np.ravel(problem.mode)
    variance = second - away**2
    mean, sd2 = np.ravel(problem.mean), np.ravel(problem.variance)
    each = ((first - mean) ** 2 / sd2 + (variance - sd2) ** 2 / (2 * sd2**2)) / 2
    return np.where(result.diverged, np.inf, each.mean(-1))


def identity(x):
    return x


def square(x, center):
    return jnp.square(x - center)


def members(problem):
    largest, least = problem.model.curvature.max(), problem.model.curvature.min()
    kinetic = vr.splitting("BAOAB", 4 * float(np.sqrt(least)))
    estimators = {
        "full": vr.full(),
        "minibatch": vr.minibatch(),
        "practical": vr.practical(100, 10),
        "svrg": vr.svrg(),
        "saga": vr.saga(),
        "control_variate": vr.control_variate(problem.mode),
    }
    for name, estimator in estimators.items():
        for integrator, steps in (
            (vr.sgld(), SGLD_STEPS / largest),
            (kinetic, KINETIC_STEPS / np.sqrt(largest)),
        ):
            for order in ("without_replacement", "shuffled"):
                if name == "full" and order == "shuffled":
                    continue
                sampler = Sampler(estimator, integrator, batch_size=N2)
                step = sampler.cost_per_step(problem.size)
                single = estimator.refresh_period(problem.size, N2) is None
                once = estimator.refresh_size(problem.size) if single else 0
                label = f"{name}, {'sgld' if integrator.name == 'sgld' else 'BAOAB'}, {order}"
                yield (
                    label,
                    steps,
                    dict(
                        estimator=estimator,
                        integrator=integrator,
                        batch_size=N2,
                        order=order,
                        anchor_order=order,
                        num_steps=int((PASSES * problem.size - once) / step),
                    ),
                )


def search(problem):
    """The best member of the grid."""
    candidates, scouts = [], 16 if problem.size < 10_000 else 4
    for label, steps, settings in members(problem):
        step_size = np.repeat(steps, scouts).astype(np.float32)
        values = scores(problem, settings | {"step_size": step_size}, scouts * STEPS, seed=1)
        each = values.reshape(STEPS, scouts).mean(-1)
        best = int(np.argmin(each))
        print(f"  {label:48} C = {each[best]:.4g} at step {best + 1} of {STEPS}", flush=True)
        candidates += [
            (value, label, settings | {"step_size": float(step)})
            for value, step in zip(each, steps, strict=True)
        ]
    finalists = sorted(candidates, key=lambda row: row[0])[:FINALISTS]
    again = [scores(problem, settings, 32, seed=4).mean() for _, _, settings in finalists]
    return finalists[int(np.argmin(again))][1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("results/planning.csv"))
    parser.add_argument("--only", default="", help="a part of a problem's name")
    arguments = parser.parse_args()
    rows, records = read(arguments.out)
    for name, problem in problems():
        if arguments.only not in name:
            continue
        print(name, flush=True)
        began = time.monotonic()
        plan = vr.plan(
            problem.posterior,
            problem.data,
            problem.start,
            budget=PASSES * problem.size,
            num_chains=1,
        )
        print(plan, flush=True)
        settings = {k: v for k, v in plan.settings.items() if k != "num_chains"}
        own = scores(problem, settings, CHAINS, seed=2)
        label, settings = search(problem)
        best = scores(problem, settings, CHAINS, seed=3)
        rng = np.random.default_rng(0)
        draws = rng.integers(CHAINS, size=(2, 4000, CHAINS))
        ratios = own[draws[0]].mean(-1) / best[draws[1]].mean(-1)
        row = {
            "problem": name,
            "plan": str(plan.choice),
            "plan C": own.mean(),
            "predicted C": plan.score,
            "pilot passes": plan.pilot / problem.size,
            "grid winner": label,
            "grid step size": settings["step_size"],
            "grid C": best.mean(),
            "ratio": own.mean() / best.mean(),
            "ratio upper 95": np.quantile(ratios, 0.95),
        }
        print({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        rows[name], records[name] = row, record(time.monotonic() - began)
        write(arguments.out, rows, records)


def read(path):
    """The rows of earlier runs, by problem, and the records of these runs."""
    if not path.exists():
        return {}, {}
    with path.open(newline="") as file:
        rows = {row["problem"]: row for row in csv.DictReader(file)}
    return rows, json.loads(path.with_suffix(".json").read_text())


def write(path, rows, records):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, next(iter(rows.values())))
        writer.writeheader()
        writer.writerows(rows.values())
    path.with_suffix(".json").write_text(json.dumps(records, indent=2) + "\n")


def record(seconds):
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "command": shlex.join(["python", *sys.argv]),
        "commit": commit.stdout.strip(),
        "versions": {name: version(name) for name in ("vrsgmcmc", "jax", "numpy")},
        "python": platform.python_version(),
        "seeds": {"grid": 1, "finalists": 4, "plan": 2, "winner": 3},
        "seconds": round(seconds),
    }


if __name__ == "__main__":
    main()
