"""Modes, Hessians and posterior moments of generalised linear models, in NumPy and float64.

Written without the library, which is judged by it. With eta = x w [N, K], K = 1 but for softmax,

    log p(w | D) = sum_i l(eta_i, y_i) - |w|^2 / 2,     H = I + sum_i x_i x_i^T (x) W_i,

W_i = -l'' [K, K]. Importance sampling takes pairs m + s L z, m - s L z around the mode m, L L^T =
H^-1, s = 1 or, with `dof`, that of a Student t. A pair's mean of x under q is exact, so the
pair is a control variate of the means; for the variances it is u^2, u = (x - m) / Laplace's sd, whose
mean under q is known; its coefficient comes by regression. Standard errors are those of the pairs.
"""

from typing import NamedTuple

import numpy as np
from arviz_stats.base import array_stats

BLOCK = 2_000_000  # numbers of eta at a time


def gaussian(eta, y):
    return -0.5 * (y - eta) ** 2, y - eta, np.ones_like(eta)


def bernoulli(eta, y):
    decay = np.exp(-np.abs(eta))
    p = np.where(eta >= 0, 1, decay) / (1 + decay)
    return y * eta - np.maximum(eta, 0) - np.log(1 + decay), y - p, p * (1 - p)


def poisson(eta, y):
    rate = np.exp(eta)
    return y * eta - rate, y - rate, rate


def student_t(eta, y, dof=4.0):
    r = y - eta
    total = dof + r**2
    height = -(dof + 1) / 2 * np.log(total / dof)
    return height, (dof + 1) * r / total, (dof + 1) * (dof - r**2) / total**2


FAMILIES = {
    "gaussian": gaussian,
    "bernoulli": bernoulli,
    "poisson": poisson,
    "student_t": student_t,
}


def log_softmax(eta):
    eta = eta - eta.max(-1, keepdims=True)
    return eta - np.log(np.exp(eta).sum(-1, keepdims=True))


class Table(NamedTuple):
    family: str
    x: np.ndarray
    y: np.ndarray
    shape: tuple[int, ...]  # of the parameters

    @classmethod
    def of(cls, problem) -> "Table":
        x, y = (np.asarray(each, np.float64) for each in problem.data)
        return cls(
            problem.family,
            x,
            y.astype(int) if problem.family == "softmax" else y,
            problem.init.shape,
        )

    def derivatives(self, w):
        """Height, gradient and minus the Hessian at w [d]."""
        d = w.size
        if self.family == "softmax":
            height, gradient, H = self._softmax(w.reshape(self.shape))
        else:
            each, slope, curvature = FAMILIES[self.family](self.x @ w, self.y)
            height, gradient = each.sum(), self.x.T @ slope
            H = self.x.T @ (self.x * curvature[:, None])
        return height - w @ w / 2, gradient.reshape(d) - w, H + np.eye(d)

    def _softmax(self, w):
        d, K = w.shape
        log_p = log_softmax(self.x @ w)
        p, rows = np.exp(log_p), np.arange(len(self.y))
        H = np.empty((d, K, d, K))
        for k in range(K):
            for l in range(K):
                weight = p[:, k] * ((k == l) - p[:, l])
                H[:, k, :, l] = self.x.T @ (self.x * weight[:, None])
        slope = -p
        slope[rows, self.y] += 1
        return log_p[rows, self.y].sum(), self.x.T @ slope, H.reshape(d * K, d * K)

    def heights(self, w):
        """log p of each row of w [n, d], up to one constant."""
        total = np.zeros(len(w))
        for rows in np.array_split(np.arange(len(self.x)), -(-len(w) * len(self.x) // BLOCK)):
            x, y = self.x[rows], self.y[rows]
            if self.family == "softmax":
                eta = np.einsum("ip,npk->ink", x, w.reshape(-1, *self.shape))
                total += log_softmax(eta)[np.arange(len(y)), :, y].sum(0)
            elif self.family == "bernoulli":  # y eta is linear
                eta = x @ w.T
                total += (y @ x) @ w.T - np.maximum(eta, 0).sum(0)
                total -= np.log(1 + np.exp(-np.abs(eta))).sum(0)
            else:
                total += FAMILIES[self.family](x @ w.T, y[:, None])[0].sum(0)
        return total - (w**2).sum(-1) / 2


class Laplace(NamedTuple):
    mode: np.ndarray
    factor: np.ndarray  # L L^T = H^-1
    passes: int

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt((self.factor**2).sum(-1))


def laplace(table: Table, most: int = 100) -> Laplace:
    """Newton's method with halved steps; where H is not positive definite, H + c I instead."""
    w = np.zeros(int(np.prod(table.shape)))
    height, gradient, H = table.derivatives(w)
    for passes in range(1, most):
        shift = max(0.0, 1e-3 - np.linalg.eigvalsh(H)[0]) * 2
        step = np.linalg.solve(H + shift * np.eye(len(w)), gradient)
        if gradient @ step < 1e-16 * len(w) and shift == 0:
            factor = np.linalg.inv(np.linalg.cholesky(H)).T
            return Laplace(w, factor, passes)
        for halving in range(30):
            trial = w + step / 2**halving
            after = table.derivatives(trial)
            if after[0] >= height - 1e-12 * abs(height):
                break
        w, (height, gradient, H) = trial, after
    raise RuntimeError(f"no mode after {most} iterations: decrement {gradient @ step:.3g}")


def importance(table: Table, around: Laplace, draws: int, dof=None, seed=0):
    """Mean, sd and their standard errors, and a record of the weights."""
    rng, d, n = np.random.default_rng(seed), len(around.mode), draws // 2
    parts = max(1, n * d // 4_000_000)
    u, log_weight = [], []
    for count in (len(part) for part in np.array_split(np.arange(n), parts)):
        z = rng.normal(size=(count, d))
        scale = (
            np.ones((count, 1)) if dof is None else np.sqrt(dof / rng.chisquare(dof, (count, 1)))
        )
        z = scale * z
        radius = (z**2).sum(-1)
        log_q = -radius / 2 if dof is None else -(dof + d) / 2 * np.log1p(radius / dof)
        away = z @ around.factor.T
        both = np.concatenate([around.mode + away, around.mode - away])
        heights = np.concatenate(
            [table.heights(part) for part in np.array_split(both, -(-len(both) // 2000))]
        )
        log_weight.append(heights.reshape(2, count) - log_q)
        u.append(away / around.sd)
    u, log_weight = np.concatenate(u), np.concatenate(log_weight, axis=1)
    weight = np.exp(log_weight - log_weight.max())
    record = {
        "draws": 2 * n,
        "ess": float(weight.sum() ** 2 / (weight**2).sum()),
        "pareto_k": float(array_stats.psislw(-log_weight.ravel())[1]),
    }
    weight /= weight.mean()
    odd, even = (weight[0] - weight[1]) / 2, (weight[0] + weight[1]) / 2
    mean = odd @ u / n
    mean_influence = odd[:, None] * u - even[:, None] * mean
    second = 1.0 if dof is None else dof / (dof - 2)
    control = u**2 - second
    # (u - m)^2 and (-u - m)^2, weighed
    square = even[:, None] * (u**2 + mean**2) - 2 * odd[:, None] * u * mean
    raw = square - even[:, None] * square.mean(0)
    slope = (raw * control).mean(0) / (control**2).mean(0)
    variance = square.mean(0) - slope * control.mean(0)
    variance_influence = raw - slope * control
    sd = np.sqrt(variance)
    mean_error = np.sqrt((mean_influence**2).mean(0) / n)
    sd_error = np.sqrt((variance_influence**2).mean(0) / n) / (2 * sd)
    moments = (
        around.mode + around.sd * mean,
        *(around.sd * each for each in (sd, mean_error, sd_error)),
    )
    return moments, record
