"""The posterior of the Pima experiment by NUTS: `python benchmarks/pima_reference.py`.

Four chains of BlackJAX's NUTS in float64, window adaptation, on the training rows of
`vrsgmcmc.experiments.pima`. Writes results/pima-reference.json and the copy that ships with the
package.
"""

import json
from importlib.metadata import version
from pathlib import Path

import arviz_stats
import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

import vrsgmcmc as vr
from vrsgmcmc.experiments import pima

CHAINS, WARMUP, DRAWS, SEED = 4, 1000, 20_000, 0
FILES = (
    Path("results/pima-reference.json"),
    Path("src/vrsgmcmc/experiments/pima-posterior.json"),
)


def main():
    jax.config.update("jax_enable_x64", True)
    problem = pima.prepare()
    data = jax.tree.map(jnp.asarray, (problem.train[0].astype(float), problem.train[1]))
    posterior = vr.models.logistic.posterior()

    def log_density(w):
        return posterior.logprior(w) + jax.vmap(posterior.loglik, (None, 0))(w, data).sum()

    def chain(key):
        warm, run = jax.random.split(key)
        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, parameters), _ = adaptation.run(warm, jnp.zeros(len(pima.COLUMNS)), WARMUP)
        step = blackjax.nuts(log_density, **parameters).step

        def one(state, key):
            state, info = step(key, state)
            return state, (state.position, info.is_divergent)

        return jax.lax.scan(one, state, jax.random.split(run, DRAWS))[1]

    draws, divergent = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(SEED), CHAINS))
    draws = np.asarray(draws)
    x, y = problem.test
    flat = draws.reshape(-1, draws.shape[-1])
    likelihood = expit(flat[::10] @ (x * (2 * y - 1)[:, None]).T.astype(float))
    record = {
        "coordinates": list(pima.COLUMNS),
        "mean": flat.mean(0).tolist(),
        "variance": flat.var(0, ddof=1).tolist(),
        "test_nll": float(-np.log(likelihood.mean(0)).mean()),
        "ess_least": float(min(arviz_stats.ess(draws[:, :, j]) for j in range(draws.shape[-1]))),
        "r_hat_largest": float(
            max(arviz_stats.rhat(draws[:, :, j]) for j in range(draws.shape[-1]))
        ),
        "divergences": int(divergent.sum()),
        "method": f"NUTS, {CHAINS} chains of {DRAWS} draws after {WARMUP} of warm-up, float64",
        "command": "python benchmarks/pima_reference.py",
        "seed": SEED,
        "versions": {name: version(name) for name in ("blackjax", "jax", "numpy")},
    }
    for file in FILES:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
