"""Prints the numbers of docs/choosing.md: `python docs/measure.py` (a few minutes).

The first table is exact, from `vr.theory`; the second runs the Pima experiment with more methods; the
last lines show what the order does to SAGA.
"""

import sys
from pathlib import Path

import numpy as np

import vrsgmcmc as vr
from vrsgmcmc.experiments import Settings, pima
from vrsgmcmc.experiments.pima import Method

SEEDS = 5


def gaussian():
    """Excess of the stationary variance over the posterior's, on the Gaussian mean model."""
    size = 1000
    x = np.random.default_rng(0).normal(size=size)
    x *= np.sqrt(0.95) / x.std(ddof=1)
    problem = vr.theory.gaussian_mean(x)
    methods = {
        "full gradient": (vr.full(), {}),
        "SGLD n = 10": (vr.minibatch(), {}),
        "SGLD n = 30": (vr.minibatch(), dict(batch_size=30)),
        "practical 100/10/10": (vr.practical(), {}),
        "SGLD n = 10, shuffled": (vr.minibatch(), dict(order="shuffled")),
        "practical, shuffled anchors": (vr.practical(), dict(anchor_order="shuffled")),
    }
    print(f"| h (N + 1) | {' | '.join(methods)} |\n{'| --- ' * (1 + len(methods))}|")
    for a in (0.002, 0.01, 0.05, 0.2, 0.5):
        row = []
        for estimator, options in methods.values():
            options = {"batch_size": 10, **options}
            law = vr.theory.stationary(
                problem, estimator, vr.sgld(), step_size=a / (size + 1), **options
            )
            row.append(law.covariance[0, 0] / problem.posterior()[1][0, 0] - 1)
        print(f"| {a} | {' | '.join(f'{excess:.2g}' for excess in row)} |")


def regression():
    """1/C on the Pima posterior after 200 passes, each method at its best step size of the grid."""
    problem = pima.prepare()
    shuffled = "shuffled"
    methods = {
        "practical 100/10/10, independent anchors": Method(vr.practical()),
        "SGLD n = 30": Method(vr.minibatch(), batch_size=30),
        "SGLD n = 10": Method(vr.minibatch()),
        "practical 100/10/10, shuffled anchors": Method(vr.practical(), anchor_order=shuffled),
        "SGLD n = 10, shuffled": Method(vr.minibatch(), order=shuffled),
        "SGLD n = 10, symmetric": Method(vr.minibatch(), order="symmetric"),
        "SVRG-LD": Method(vr.svrg()),
        "control variate at the mode": Method(vr.control_variate()),
        "SAGA-LD": Method(vr.saga()),
    }
    print(
        "\n| method | worth | over seeds | step h N | data passes |\n| --- | --- | --- | --- | --- |"
    )
    references = [pima.long_run(problem, seed) for seed in range(SEEDS)]
    for name, method in methods.items():
        rows = []
        for seed, reference in enumerate(references):
            settings = Settings(Path("."), seed=seed)
            criterion = pima.tune(problem, reference, method, settings)["posterior"]
            step = pima.STEP_SIZES[int(np.argmin(criterion))]
            result = pima.sample(problem, method, step, settings, stage=1)
            rows.append(pima.show(problem, reference, name, method, step, result).row)
        worth = [row["worth"] for row in rows]
        steps = ", ".join(f"{step:g}" for step in sorted({row["step"] for row in rows}))
        passes = rows[0]["data_passes"]
        print(
            f"| {name} | {np.mean(worth):.0f} | {min(worth):.0f} to {max(worth):.0f} "
            f"| {steps} | {passes:.0f} |",
            flush=True,
        )


def orders_of_saga():
    """Posterior variances under SAGA at a small step, relative to the reference's."""
    problem = pima.prepare()
    reference = pima.long_run(problem, seed=0)
    for order in ("without_replacement", "shuffled"):
        result = vr.sample(
            0,
            vr.models.logistic.posterior(),
            problem.train,
            reference.draws.mean(axis=0).astype(np.float32),
            estimator=vr.saga(),
            order=order,
            step_size=0.1 / problem.size,
            num_steps=60_000,
            burn_in=2_000,
            thin=20,
            num_chains=16,
            progress=False,
        )
        variance = result.draws.reshape(-1, len(pima.COLUMNS)).var(axis=0)
        ratio = (variance / reference.draws.var(axis=0)).mean()
        print(f"SAGA, {order}, h N = 0.1: variance {ratio:.2f} times the reference's")


if __name__ == "__main__":
    gaussian()
    sys.stdout.flush()
    regression()
    orders_of_saga()
