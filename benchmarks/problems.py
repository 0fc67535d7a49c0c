"""The posteriors that the library is measured on, with their references.

    from problems import PROBLEMS, TABLE
    problem = PROBLEMS["pima"]()
    problem.posterior, problem.data, problem.init, problem.reference.mean

Each is a function of nothing: seeded, the same numbers on every call. `TABLE` names the thirteen of
the table of accuracy, `SPEED` those of the race, `TRAPS` the two where success must not be claimed.
Real features are standardised and get an intercept, as a user would do; every coefficient has the
prior N(0, 1). Data are float32. `plain` is the same model as a `vr.Posterior` of two functions
that a user would write, where d <= 50; the references are made from these functions or from NumPy,
never from `vr.glm`. Breast cancer, wine and digits come with scikit-learn.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import vrsgmcmc as vr

REFERENCES = Path(__file__).parents[1] / "results" / "references.npz"
PLAIN = 50  # the largest d with a plain form
DOF = 4.0  # of the Student-t regression


class Moments(NamedTuple):
    """Posterior mean and sd of each parameter, raveled, and the standard errors of both."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray

    @property
    def floor(self) -> float:
        """C of the reference itself: the variance of a variance is 4 sd^2 times that of an sd."""
        means, sds = self.mean_error / self.sd, self.sd_error / self.sd
        return float(np.mean((means**2 + 2 * sds**2) / 2))


@dataclass(frozen=True)
class Problem:
    """A posterior with data and a start; `family` names the likelihood for the oracle."""

    name: str
    posterior: vr.Posterior
    data: Any
    init: Any
    family: str
    loglik: Callable  # of one datum, without its constants, by other code than the library's
    options: Mapping[str, Any] = field(default_factory=dict)  # of the reference: see references.py

    @property
    def size(self) -> int:
        return len(jax.tree.leaves(self.data)[0])

    @property
    def dimension(self) -> int:
        return int(np.size(self.init))

    @property
    def plain(self) -> vr.Posterior | None:
        if self.family == "other":
            return self.posterior
        return vr.Posterior(logprior, self.loglik) if self.dimension <= PLAIN else None

    @cached_property
    def reference(self) -> Moments:
        with np.load(REFERENCES) as file:
            if f"{self.name}/mean" not in file:
                raise KeyError(
                    f"{REFERENCES.name} has no reference of {self.name!r}. Make it with "
                    f"`python benchmarks/references.py {self.name}`."
                )
            return Moments(*(file[f"{self.name}/{each}"] for each in Moments._fields))


# The models again, as a user writes them.


def logprior(w):
    return -0.5 * jnp.sum(w**2)


def normal(w, datum):
    x, y = datum
    return -0.5 * (y - x @ w) ** 2


def logistic(w, datum):
    x, y = datum
    return y * (x @ w) - jnp.logaddexp(0.0, x @ w)


def softmax(w, datum):
    x, y = datum
    return (x @ w)[y] - jax.nn.logsumexp(x @ w)


def poisson(w, datum):
    x, y = datum
    return y * (x @ w) - jnp.exp(x @ w)


def student_t(w, datum):
    x, y = datum
    return -(DOF + 1) / 2 * jnp.log1p((y - x @ w) ** 2 / DOF)


FAMILIES = {
    "gaussian": (normal, vr.likelihoods.gaussian()),
    "bernoulli": (logistic, vr.likelihoods.bernoulli()),
    "poisson": (poisson, vr.likelihoods.poisson()),
    "student_t": (student_t, vr.likelihoods.student_t(DOF)),
}


def regression(name, family, x, y, **options) -> Problem:
    if family == "softmax":
        classes = int(np.max(y)) + 1
        loglik, likelihood, init = softmax, vr.likelihoods.softmax(classes), (x.shape[1], classes)
    else:
        (loglik, likelihood), init = FAMILIES[family], x.shape[1]
    labels = family in ("bernoulli", "softmax")
    data = x.astype(np.float32), y.astype(np.int32 if labels else np.float32)
    return Problem(name, vr.glm(likelihood), data, jnp.zeros(init), family, loglik, options)


def real_table(name, family, x, y, **options) -> Problem:
    x = vr.datasets.with_intercept(vr.datasets.standardise(x)[0])
    return regression(name, family, x, y, **options)


def labels_of(rng, x, w):
    return rng.uniform(size=len(x)) < 1 / (1 + np.exp(-x @ w))


def normal_table(rng, size, d):
    """An intercept and d - 1 independent normal columns."""
    x = rng.normal(size=(size, d))
    x[:, 0] = 1
    return x


# Thirteen problems.


def gaussian_mean():
    y = np.random.default_rng(1).normal(0.7, 1.0, 1000)
    return regression("gaussian-mean", "gaussian", np.ones((1000, 1)), y)


def linear_conditioned():
    """The Hessian has eigenvalues from 1.8e7 to 180, in directions across the columns."""
    rng = np.random.default_rng(2)
    rotation = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    x = rng.normal(size=(20_000, 10)) * np.geomspace(30, 30 / np.sqrt(1e5), 10) @ rotation
    return regression("linear-conditioned", "gaussian", x, x @ rng.normal(size=10) + noise(rng, x))


def linear_500():
    """Neighbouring columns have correlation 0.5."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20_000, 500))
    for j in range(1, 500):
        x[:, j] = 0.5 * x[:, j - 1] + np.sqrt(0.75) * x[:, j]
    return regression("linear-500", "gaussian", x, x @ rng.normal(size=500) + noise(rng, x))


def noise(rng, x):
    return rng.normal(size=len(x))


def pima():
    return real_table("pima", "bernoulli", *vr.datasets.pima(), draws=1_000_000, dof=30)


def breast_cancer():
    from sklearn.datasets import load_breast_cancer

    return real_table(
        "breast-cancer", "bernoulli", *load_breast_cancer(return_X_y=True), nuts=200_000
    )


def wine():
    from sklearn.datasets import load_wine

    return real_table("wine", "softmax", *load_wine(return_X_y=True), nuts=200_000)


def digits():
    from sklearn.datasets import load_digits

    return real_table("digits", "softmax", *load_digits(return_X_y=True), nuts=30_000)


def logistic_wide():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 300))
    w = np.where(np.arange(300) < 5, 2.0, 0.0)
    return regression("logistic-wide", "bernoulli", x, labels_of(rng, x, w), nuts=40_000)


def logistic_whitened():
    rng = np.random.default_rng(5)
    x, w = normal_table(rng, 100_000, 50), rng.normal(size=50) * 0.3
    return regression("logistic-whitened", "bernoulli", x, labels_of(rng, x, w), draws=20_000)


def logistic_scaled():
    """The whitened one with a column times 1,000, and two columns with correlation 0.99."""
    rng = np.random.default_rng(5)
    x, w = normal_table(rng, 100_000, 50), rng.normal(size=50) * 0.3
    x[:, 11] = 0.99 * x[:, 10] + np.sqrt(1 - 0.99**2) * x[:, 11]
    y = labels_of(rng, x, w)
    x[:, 7] *= 1000
    return regression("logistic-scaled", "bernoulli", x, y, draws=20_000)


def logistic_leverage():
    """Five rows of length 200 across the coefficients: their linear predictors have an sd near 1."""
    rng = np.random.default_rng(6)
    x, w = normal_table(rng, 100_000, 20), rng.normal(size=20) * 0.3
    rows = rng.normal(size=(5, 20))
    rows -= np.outer(rows @ w, w) / (w @ w)
    x[1000:1005] = 200 * rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return regression("logistic-leverage", "bernoulli", x, labels_of(rng, x, w), draws=40_000)


def poisson_counts():
    rng = np.random.default_rng(7)
    x, w = normal_table(rng, 100_000, 20), rng.normal(size=20) * 0.15
    return regression("poisson", "poisson", x, rng.poisson(np.exp(0.5 + x @ w)), draws=20_000)


def student_t_outliers():
    """Two rows of a hundred are off by 50."""
    rng = np.random.default_rng(8)
    x, w = normal_table(rng, 10_000, 10), rng.normal(size=10)
    y = x @ w + rng.standard_t(DOF, len(x)) + np.where(rng.uniform(size=len(x)) < 0.02, 50.0, 0.0)
    return regression("student-t", "student_t", x, y, draws=100_000)


# The race: one model, three sizes.


def speed(size: int, draws: int):
    def problem():
        rng = np.random.default_rng(9)
        x, w = normal_table(rng, size, 30), rng.normal(size=30) * 0.4
        return regression(
            f"speed-{size:.0e}".replace("+0", ""), "bernoulli", x, labels_of(rng, x, w), draws=draws
        )

    return problem


# Two traps.


def mixture_prior(mu):
    return -0.5 * jnp.sum(mu**2) / 9


def mixture(mu, y):
    return jnp.logaddexp(-0.5 * (y - mu[0]) ** 2, -0.5 * (y - mu[1]) ** 2)


def two_modes():
    """Half of the data around each of two means of unknown names: (a, b) and (b, a) are modes."""
    rng = np.random.default_rng(10)
    y = (rng.normal(size=1000) + np.where(rng.uniform(size=1000) < 0.5, -1.5, 1.5)).astype(
        np.float32
    )
    posterior = vr.Posterior(mixture_prior, mixture)
    return Problem("two-modes", posterior, y, jnp.zeros(2), "other", mixture)


SCHOOLS = np.array([[28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18]], np.float32)
TAU, MU = (1.0, 1.0), 5.0  # log tau ~ N(1, 1), mu ~ N(0, 5^2)


def funnel_prior(params):
    theta, mu, log_tau = params[:8], params[8], params[9]
    spread = -0.5 * jnp.sum((theta - mu) ** 2) * jnp.exp(-2 * log_tau) - 8 * log_tau
    return spread - 0.5 * (mu / MU) ** 2 - 0.5 * ((log_tau - TAU[0]) / TAU[1]) ** 2


def school(params, datum):
    index, y, sd = datum
    return -0.5 * ((y - params[index]) / sd) ** 2


def funnel():
    """The eight schools, centred: theta[8], mu, log tau. The mode is a spike far from the mass."""
    data = (np.arange(8, dtype=np.int32), *SCHOOLS)
    posterior = vr.Posterior(funnel_prior, school)
    return Problem("funnel", posterior, data, jnp.zeros(10), "other", school)


TABLE = {
    "gaussian-mean": gaussian_mean,
    "linear-conditioned": linear_conditioned,
    "linear-500": linear_500,
    "pima": pima,
    "breast-cancer": breast_cancer,
    "wine": wine,
    "digits": digits,
    "logistic-wide": logistic_wide,
    "logistic-whitened": logistic_whitened,
    "logistic-scaled": logistic_scaled,
    "logistic-leverage": logistic_leverage,
    "poisson": poisson_counts,
    "student-t": student_t_outliers,
}
SPEED = {
    "speed-1e4": speed(10_000, 100_000),
    "speed-1e5": speed(100_000, 20_000),
    "speed-1e6": speed(1_000_000, 4_000),
}
TRAPS = {"two-modes": two_modes, "funnel": funnel}
PROBLEMS: dict[str, Callable[[], Problem]] = {**TABLE, **SPEED, **TRAPS}
