"""References of all problems: `python benchmarks/references.py [names]` writes results/references.npz.

    exact        linear models, the two traps: closed forms and quadrature
    importance   sampling around the mode (oracle.py): where N is large, or d small
    NUTS         BlackJAX's in float64, in coordinates z of the Laplace approximation, 4 chains: where
                 the posterior is far from Gaussian. Good for errors of a few hundredths of an sd.

The record beside it, references.json, has for each the floor in C (what the reference's own error adds
to a score), the effective draws, the shape k of the largest weights, and the seconds. `--confirm`
runs NUTS, or importance sampling, on problems that have another reference, and prints the largest
difference in standard errors; nothing is written.
"""

import argparse
import json
import platform
import shlex
import sys
import time
from importlib.metadata import version

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base import array_stats
from oracle import Laplace, Table, importance, laplace
from problems import MU, PROBLEMS, REFERENCES, SCHOOLS, TAU, Moments, Problem, logprior
from scipy.optimize import minimize

SEED, CHAINS, WARMUP = 0, 4, 1000


def exact(table: Table):
    """The posterior of a linear model is normal."""
    covariance = np.linalg.inv(table.x.T @ table.x + np.eye(table.x.shape[1]))
    mean = covariance @ (table.x.T @ table.y)
    return of_exact(mean, np.sqrt(np.diag(covariance)))


def of_exact(mean, sd):
    return (mean, sd, np.zeros_like(mean), np.zeros_like(mean)), {"method": "exact"}


def two_modes(problem: Problem):
    """Quadrature around one of two modes that are each other's mirror image."""
    y = np.asarray(problem.data, np.float64)

    def heights(a, b):
        each = np.logaddexp(-((y - a[..., None]) ** 2) / 2, -((y - b[..., None]) ** 2) / 2)
        return each.sum(-1) - (a**2 + b**2) / 18

    mode = minimize(lambda m: -heights(m[0], m[1]), [-1.5, 1.5], tol=1e-10).x
    steps = np.linspace(-0.6, 0.6, 241)  # some ten sd to each side
    a, b = np.meshgrid(mode[0] + steps, mode[1] + steps, indexing="ij")
    height = np.stack([heights(*row) for row in zip(a, b, strict=True)])
    weight = np.exp(height - height.max())
    weight /= weight.sum()
    mean = ((a + b) * weight).sum() / 2
    variance = ((a**2 + b**2) * weight).sum() / 2 - mean**2
    return of_exact(np.full(2, mean), np.full(2, np.sqrt(variance)))


def funnel(problem: Problem):
    """All but log tau is normal: given tau, mu ~ N(m, v), theta_j ~ N(s_j y_j + (1 - s_j) mu, .)."""
    y, sd = SCHOOLS.astype(np.float64)
    log_tau = np.linspace(TAU[0] - 12 * TAU[1], TAU[0] + 12 * TAU[1], 20_001)
    tau2 = np.exp(2 * log_tau)[:, None]
    marginal = sd**2 + tau2
    v = 1 / ((1 / marginal).sum(-1) + 1 / MU**2)
    m = v * (y / marginal).sum(-1)
    share = tau2 / marginal
    evidence = -0.5 * (np.log(marginal).sum(-1) - np.log(v) + (y**2 / marginal).sum(-1) - m**2 / v)
    height = evidence - 0.5 * ((log_tau - TAU[0]) / TAU[1]) ** 2
    weight = np.exp(height - height.max())
    weight /= weight.sum()
    means = np.column_stack([share * y + (1 - share) * m[:, None], m, log_tau])
    within = np.column_stack([share * sd**2 + (1 - share) ** 2 * v[:, None], v, 0 * v])
    mean = weight @ means
    return of_exact(mean, np.sqrt(weight @ (within + (means - mean) ** 2)))


def nuts(problem: Problem, around: Laplace, draws: int):
    """Four chains of BlackJAX's NUTS in z, x = mode + L z, started from the Laplace approximation."""
    data = jax.tree.map(jnp.asarray, problem.data)
    data = (data[0].astype(float), data[1])
    mode, factor = jnp.asarray(around.mode), jnp.asarray(around.factor)

    def log_density(z, data):
        w = (mode + factor @ z).reshape(problem.init.shape)
        return logprior(w) + jax.vmap(problem.loglik, (None, 0))(w, data).sum()

    def chain(key, data):
        begin, warm, run = jax.random.split(key, 3)
        target = lambda z: log_density(z, data)  # noqa: E731
        adaptation = blackjax.window_adaptation(blackjax.nuts, target)
        start = jax.random.normal(begin, mode.shape)
        (state, parameters), _ = adaptation.run(warm, start, WARMUP)
        step = blackjax.nuts(target, **parameters).step

        def one(state, key):
            state, info = step(key, state)
            return state, (
                mode + factor @ state.position,
                info.is_divergent,
                info.num_integration_steps,
            )

        return jax.lax.scan(one, state, jax.random.split(run, draws // CHAINS))[1]

    keys = jax.random.split(jax.random.key(SEED), CHAINS)
    x, divergent, leapfrogs = jax.jit(jax.vmap(chain, (0, None)))(keys, data)
    x = np.asarray(x)
    mean, sd = x.mean((0, 1)), x.std((0, 1))
    first, second, r_hat = (np.empty(len(mean)) for _ in range(3))
    square = (x - mean) ** 2
    for j in range(len(mean)):
        first[j] = array_stats.ess(x[:, :, j], method="mean")
        second[j] = array_stats.ess(square[:, :, j], method="mean")
        r_hat[j] = array_stats.rhat(x[:, :, j])
    record = {
        "method": "NUTS",
        "draws": draws,
        "ess": float(min(first.min(), second.min())),
        "r_hat": float(r_hat.max()),
        "divergences": int(divergent.sum()),
        "leapfrogs_per_draw": float(leapfrogs.mean()),
    }
    sd_error = square.std((0, 1)) / np.sqrt(second) / (2 * sd)
    return (mean, sd, sd / np.sqrt(first), sd_error), record


def reference(problem: Problem, confirm: bool = False):
    """The moments of a problem; with `confirm` by the other way."""
    if problem.name in ("two-modes", "funnel"):
        return {"two-modes": two_modes, "funnel": funnel}[problem.name](problem)
    table, options = Table.of(problem), problem.options
    if problem.family == "gaussian" and not confirm:
        return exact(table)
    around = laplace(table)
    if ("nuts" in options) != confirm and problem.family != "gaussian":
        return nuts(problem, around, options.get("nuts", 40_000))
    draws, dof = options.get("draws", 100_000), options.get("dof")
    moments, record = importance(table, around, draws, dof, SEED)
    return moments, {"method": "importance", "dof": dof, "newton_passes": around.passes, **record}


def largest_difference(one: Moments, two: Moments) -> str:
    parts = []
    for each in ("mean", "sd"):
        error = np.hypot(getattr(one, f"{each}_error"), getattr(two, f"{each}_error"))
        gap = np.abs(getattr(one, each) - getattr(two, each))
        parts.append(f"{each} {np.max(gap / error):.2f} se, {np.max(gap / one.sd):.2g} sd")
    return "; ".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(PROBLEMS))
    parser.add_argument("--confirm", action="store_true", help="compare with another way")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name in arguments.names or PROBLEMS:
        problem = PROBLEMS[name]()
        began = time.process_time()
        moments, record = reference(problem, arguments.confirm)
        moments = Moments(*moments)
        record["cpu_seconds"] = round(time.process_time() - began, 1)
        record = {
            "size": problem.size,
            "dimension": problem.dimension,
            "floor": moments.floor,
            **record,
        }
        if arguments.confirm:
            record["difference"] = largest_difference(moments, problem.reference)
        else:
            write(name, moments, record)
        print(name, json.dumps(record), flush=True)


def write(name: str, moments: Moments, record: dict):
    arrays, path = {}, REFERENCES.with_suffix(".json")
    if REFERENCES.exists():
        with np.load(REFERENCES) as file:
            arrays = dict(file)
    arrays |= {f"{name}/{each}": value for each, value in moments._asdict().items()}
    records = json.loads(path.read_text()) if path.exists() else {}
    record["command"] = shlex.join(["python", *sys.argv])
    record["seed"] = SEED
    packages = ("arviz-stats", "blackjax", "jax", "numpy", "scikit-learn", "scipy")
    record["versions"] = {each: version(each) for each in packages}
    record["python"] = platform.python_version()
    np.savez_compressed(REFERENCES, **arrays)
    records[name] = record
    in_order = {each: records[each] for each in PROBLEMS if each in records}
    path.write_text(json.dumps(in_order, indent=1) + "\n")


if __name__ == "__main__":
    main()
