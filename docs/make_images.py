"""Draws the picture of the README: `python docs/make_images.py` writes docs/images/posterior.png.

A logistic regression with two weights and 1000 data, whose posterior can be summed on a grid, and
draws of four methods that all use the same, fairly large step size.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.special import log_expit

import vrsgmcmc as vr
from vrsgmcmc.figures import COLOURS, style

SIZE = 1000
STEP = 1.0  # h N
METHODS = {
    "SGLD, n = 10\n10 gradients per step": dict(estimator=vr.minibatch(), batch_size=10),
    "SGLD, n = 30\n30 gradients per step": dict(estimator=vr.minibatch(), batch_size=30),
    "vrSG-MCMC, 100/10/10\n30 gradients per step": dict(estimator=vr.practical(100, 10)),
    "SVRG-LD, n = 10\n30 gradients per step": dict(estimator=vr.svrg()),
}


def make_data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SIZE, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    y = rng.random(SIZE) < 1 / (1 + np.exp(-x @ np.array([1.0, -0.5])))
    return x.astype(np.float32), y.astype(int)


def exact(x, y, first, second):
    """The posterior density on a grid, as the mass of the region where it is higher."""
    w = np.stack(np.meshgrid(first, second), axis=-1)
    logits = w @ (x * (2 * y - 1)[:, None]).T
    log_density = log_expit(logits).sum(axis=-1) - 0.5 * (w**2).sum(axis=-1)
    density = np.exp(log_density - log_density.max())
    ranked = np.argsort(-density, axis=None)
    mass = np.empty(density.size)
    mass[ranked] = np.cumsum(density.ravel()[ranked]) / density.sum()
    mean = (w * density[..., None]).sum(axis=(0, 1)) / density.sum()
    return mass.reshape(density.shape), mean


def main():
    x, y = make_data()
    first, second = np.linspace(0.2, 1.8, 321), np.linspace(-1.3, 0.3, 321)
    mass, mean = exact(x, y, first, second)
    with style():
        figure = Figure(figsize=(11, 3.5), layout="constrained")
        grid = figure.subplots(1, len(METHODS), sharex=True, sharey=True)
        for axes, colour, (title, method) in zip(
            grid, (COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[4]), METHODS.items(), strict=True
        ):
            result = vr.sample(
                0,
                vr.models.logistic.posterior(),
                (x, y),
                mean.astype(np.float32),
                step_size=STEP / SIZE,
                num_steps=5_000,
                burn_in=500,
                thin=15,
                progress=False,
                **method,
            )
            draws = result.draws.reshape(-1, 2)
            axes.scatter(*draws.T, s=7, color=colour, alpha=0.45, linewidths=0, rasterized=True)
            axes.contour(first, second, mass, levels=[0.5, 0.9], colors="black", linewidths=1.3)
            axes.set(title=title, xlabel="first weight", aspect="equal")
            axes.set(xlim=(0.35, 1.55), ylim=(-1.05, 0.1))
        grid[0].set_ylabel("second weight")
        figure.savefig(Path(__file__).parent / "images" / "posterior.png", dpi=110)


if __name__ == "__main__":
    main()
