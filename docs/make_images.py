"""Draws the pictures of the documents: `python docs/make_images.py`, or with the names of some.

posterior          README.md: draws of four methods at the same, fairly large step size, over the
                   posterior of a logistic regression, summed on a grid
excess-variance    docs/variance-reduction.md: excess variance against step size at equal cost
audit              docs/planning.md: an audit of a run on the Pima data
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from measure import EQUAL_COST, Gaussian, Pima
from scipy.special import log_expit

import vrsgmcmc as vr
from vrsgmcmc.reports.figures import COLOURS, GREY, GRID, label_ends, style

IMAGES = Path(__file__).parent / "images"
SIZE = 1000
STEP = 1.0  # h N
METHODS = {
    "SGLD, n = 10\n10 gradients per step": dict(estimator=vr.minibatch(), batch_size=10),
    "SGLD, n = 30\n30 gradients per step": dict(estimator=vr.minibatch(), batch_size=30),
    "vrSG-MCMC, 100/10/10\n30 gradients per step": dict(estimator=vr.practical(100, 10)),
    "SVRG-LD, n = 10\n30 gradients per step": dict(estimator=vr.svrg()),
}
LINES = {  # of EQUAL_COST: label, colour and dash
    "SGLD, n = 30": ("SGLD, n = 30", COLOURS[1], "-"),
    "SGLD, n = 30, shuffled": ("shuffled (dashed)", COLOURS[1], "--"),
    "practical 100/10/10": ("practical 100/10/10", COLOURS[2], "-"),
    "practical, shuffled anchors": ("shuffled anchors (dashed)", COLOURS[2], "--"),
    "SVRG, n = 10": ("SVRG, n = 10", COLOURS[4], "-"),
    "SAGA, n = 30": ("SAGA, n = 30", COLOURS[5], "-"),
    "full gradient": ("full gradient", GREY, "-"),
}
NOT_GAUSSIAN = (
    "SVRG, n = 10",
    "SAGA, n = 30",
)  # the one is the full gradient, the other has no law


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


def posterior():
    x, y = make_data()
    first, second = np.linspace(0.2, 1.8, 321), np.linspace(-1.3, 0.3, 321)
    mass, mean = exact(x, y, first, second)
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
    figure.savefig(IMAGES / "posterior.png", dpi=110)


def excess_variance():
    """How much too wide the posterior becomes, for methods whose steps cost the same."""
    steps = np.geomspace(0.001, 0.8, 21)
    figure = Figure(figsize=(9.4, 8.2), layout="constrained")
    grid = figure.subplots(2, 1, sharex=True)
    for axes, title, problem, left_out in (
        (grid[0], "A Gaussian mean, N = 1000: exact", Gaussian(), NOT_GAUSSIAN),
        (grid[1], "Logistic regression on Pima, N = 768, 9 weights: forecast", Pima(), ()),
    ):
        names = []
        for method in [name for name in LINES if name not in left_out]:
            name, colour, dash = LINES[method]
            excess = problem.excess(EQUAL_COST[method], steps)
            stable = np.isfinite(excess)  # a large step has no stationary law
            axes.plot(steps[stable], excess[stable], color=colour, linestyle=dash)
            both = ", SVRG" if left_out and method == "full gradient" else ""
            names.append((name + both, colour, steps[stable][-1], excess[stable][-1]))
        axes.axhline(0.1, color="black", linewidth=1, linestyle=":", zorder=0)
        axes.set(xscale="log", yscale="log", title=title, ylim=(1e-3, 40))
        axes.set_ylabel("posterior variance too wide by")
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.grid(color=GRID, linewidth=0.8)
        label_ends(axes, names)
    grid[1].set_xlabel("step size h λ_max;  a step costs 30 gradients (grey: N)")
    figure.savefig(IMAGES / "excess-variance.png", dpi=96)


def audit():
    problem = Pima()
    result = vr.sample(
        0,
        problem.posterior,
        problem.data,
        vr.models.logistic.initial(9),
        estimator=vr.practical(100, 10),
        step_size=5e-5,
        burn_in=2_000,
        progress=False,
    )
    vr.audit(result).plot(IMAGES / "audit.png")


PICTURES = {"posterior": posterior, "excess-variance": excess_variance, "audit": audit}

if __name__ == "__main__":
    with style():
        for picture in sys.argv[1:] or PICTURES:
            PICTURES[picture]()
