"""Local Gaussian models by hand, and integrators with step sizes that suit them."""

import math

import numpy as np

import vrsgmcmc as vr
from vrsgmcmc.theory import linear_regression
from vrsgmcmc.theory.forecast.local import Local

WORDS = ("BAOAB", "ABOBA", "OBABO", "UBU")


def integrators(scale, temperature=1.0):
    friction = 1.3 * math.sqrt(scale)
    methods = {"sgld": vr.sgld(temperature), "sghmc": vr.sghmc(friction, temperature)}
    methods["leimkuhler_matthews"] = vr.leimkuhler_matthews(temperature)
    return methods | {word: vr.splitting(word, friction, temperature) for word in WORDS}


def step_for(integrator, a, largest):
    """h with h lambda = a, or h^2 lambda = a for dynamics with momenta."""
    overdamped = integrator.name in ("sgld", "leimkuhler_matthews")
    return a / largest if overdamped else math.sqrt(a / largest)


def gaussian_model(data):
    """What `local` measures on the Gaussian mean model, by hand."""
    size, covariance = len(data), np.var(data, ddof=1) * np.eye(1)
    curvature, center = np.array([size + 1.0]), np.array([data.sum() / (size + 1)])
    one = np.eye(1)
    return Local(size, center, one, curvature, np.ones(1), covariance, 0 * one, 0)


def linear_model(problem):
    """What `local` measures on a linear regression, by hand."""
    X, y, s2 = problem.features, problem.targets, problem.noise_variance
    mean, covariance = problem.posterior()
    curvature, directions = np.linalg.eigh(np.linalg.inv(covariance))
    gradients = X * (y - X @ mean)[:, None] / s2 @ directions
    rows = X @ directions
    hessians = rows[:, :, None] * rows[:, None, :] / s2
    return Local(
        len(X),
        mean,
        directions,
        curvature,
        np.diagonal(hessians.mean(0)).copy(),
        np.atleast_2d(np.cov(gradients.T)),
        hessians.var(0, ddof=1),
        0,
    )


def well_posed(scales, size=200, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(size, len(scales))) * scales
    targets = features @ rng.normal(size=len(scales)) + rng.normal(size=size)
    return linear_regression(features, targets)


REGRESSIONS = {
    "alike": well_posed(np.ones(4)),
    "scaled": well_posed(np.geomspace(1, 0.2, 4)),
    "three": well_posed(np.array([1.0, 0.6, 0.4]), size=150, seed=1),
}
