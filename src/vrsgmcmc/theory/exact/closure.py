"""The error of an average of squares as if all positions were jointly Gaussian.

For jointly Gaussian x_l with means m_l and covariances c_lk, in each coordinate,

    E[x_l^2] = m_l^2 + c_ll,      Cov(x_l^2, x_k^2) = 2 c_lk^2 + 4 m_l m_k c_lk.

Means and covariances are exact; that third and fourth cumulants vanish is the one approximation
(none with the full gradient). The double sums over l and k are carried along: the columns
g_l = E[z_n (x_l - m_l)] follow the mean maps, c_nl = x . g_l, and so

    sum_l c_nl^2 = x W x^T,  W = sum_l g_l g_l^T,        sum_l m_l c_nl = x . U,  U = sum_l m_l g_l.

What the past contributes is thus a matrix and a vector. A stretch of steps (some cycles) does to
them what its tensors say; these act on the second moments s before it, and are made once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vrsgmcmc.theory.exact.affine import MomentMap, advance, pack, unit_moments
from vrsgmcmc.theory.exact.chains import Chain
from vrsgmcmc.theory.exact.problems import LinearGaussian

Array = np.ndarray

SHORTEST = 32  # steps of a stretch: fewer and longer ones are faster
SETTLED = 1e-14  # relative change of all moments in a stretch, from which on stretches are alike


class Stretch(NamedTuple):
    """What P steps do. K second moments s, of C coordinates, before them determine the rest."""

    means: Float[Array, "P d K"]  # E[x_j] = means s
    pairs: Float[Array, "P P d K"]  # E[x_j x_k] = pairs s
    born: Float[Array, "P C d K"]  # E[z_end x_j] = born s
    moments: Float[Array, "K K"]  # s_end = moments s
    ends: Float[Array, "C K"]  # E[z_end] = ends s
    response: Float[Array, "P d C"]  # x_j = response z, on average
    carry: Float[Array, "C C"]  # z_end = carry z, on average


def stretch(steps: Sequence[list[MomentMap]], chain: Chain) -> Stretch:
    carried, x, one = chain.carried, chain.select["x"], chain.select["one"][0]
    P, d = len(steps), len(x)
    moments, mean_map = unit_moments(carried), carried.T[None, None]
    K = len(moments)
    columns = moments[..., :0]  # E[z_now x_j] of each unit moment, for the steps j so far
    means, pairs, response = np.zeros((P, d, K)), np.zeros((P, P, d, K)), []
    for now, maps in enumerate(steps):
        for each in maps:
            moments, columns = advance(each, moments), each.expected(columns)
            mean_map = each.expected(mean_map)
        columns = np.concatenate([columns, moments @ x.T], axis=-1)
        means[now] = (x @ moments.mean((1, 2)) @ one).T
        seen = (x @ columns.mean((1, 2))).reshape(K, d, now + 1, d)
        pairs[now, : now + 1] = pairs[: now + 1, now] = np.einsum("kiji->jik", seen)
        response.append(x @ mean_map.mean((0, 1)))
    born = (carried @ columns.mean((1, 2))).reshape(K, -1, P, d)
    return Stretch(
        means,
        pairs,
        np.einsum("kcjd->jcdk", born),
        pack(moments, carried).T,
        (carried @ moments.mean((1, 2)) @ one).T,
        np.stack(response),
        carried @ mean_map.mean((0, 1)),
    )


class Past(NamedTuple):
    """The state before a stretch, what was before it, and how far in it we are."""

    moments: Float[Array, " K"]  # s
    matrix: Float[Array, "d C C"]  # W, one for each coordinate of x
    vector: Float[Array, "C d"]  # U
    total: Float[Array, " d"]  # sum_l E[x_l^2] - E[x^2 | data]
    squares: Float[Array, " d"]  # sum_lk c_lk^2
    products: Float[Array, " d"]  # sum_lk m_l m_k c_lk
    first: int = 0  # the sums lack the steps first < j <= now of the present stretch
    now: int = 0
    opening: bool = False  # is it the first stretch of a run?


@dataclass(frozen=True, eq=False)
class Closure:
    """The recursion of these sums."""

    carried: Float[Array, "C D"]
    opening: Stretch | None  # where a run does not open with a cycle
    cycle: Stretch
    origin: Float[Array, " d"]
    target: Float[Array, " d"]  # E[x^2 | data]

    @property
    def opens(self) -> int:
        return 0 if self.opening is None else len(self.opening.means)

    @property
    def length(self) -> int:
        return len(self.cycle.means)

    def started(self, moment: Float[Array, "1 1 D D"]) -> Past:
        C, d = len(self.carried), len(self.origin)
        sums = np.zeros((d, C, C)), np.zeros((C, d)), np.zeros(d), np.zeros(d), np.zeros(d)
        return Past(pack(moment, self.carried), *sums, opening=self.opening is not None)

    def reset(self, past: Past) -> Past:
        none = (np.zeros_like(part) for part in past[1:6])
        return Past(past.moments, *none, first=past.now, now=past.now, opening=past.opening)

    def read(self, past: Past) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """Mean and variance of sum_l x_l^2 - E[x^2 | data]."""
        past = self._gather(past)
        return past.total, 2 * past.squares + 4 * past.products

    def step(self, past: Past, l: int) -> Past:
        past = past._replace(now=past.now + 1)
        ended = past.now == (self.opens if past.opening else self.length)
        return self._gather(past) if ended else past

    def jump(self, past: Past, cycles: int) -> Past:
        """Stretch after stretch, until all moments have settled: then each adds the same."""
        for left in reversed(range(cycles)):
            old, past = past, self._gather(past._replace(now=self.length))
            if _settled(old, past):
                return past._replace(
                    total=past.total + left * (past.total - old.total),
                    squares=past.squares + left * (past.squares - old.squares),
                    products=past.products + left * (past.products - old.products),
                )
        return past

    def _gather(self, past: Past) -> Past:
        """Go to the end of the stretch with the steps that the sums lack."""
        here = self.opening if past.opening and self.opening is not None else self.cycle
        s, steps = past.moments, slice(past.first, past.now)
        apart, response = here.means[steps] @ s, here.response[steps]
        mean = self.origin + apart
        covariance = here.pairs[steps, steps] @ s - apart[:, None] * apart
        along = np.einsum("jdc,cd->jd", response, past.vector)
        seen = np.einsum("jdc,dce,jde->d", response, past.matrix, response)
        g = here.born[steps] @ s - (here.ends @ s)[:, None] * apart[:, None]
        return Past(
            here.moments @ s,
            here.carry @ past.matrix @ here.carry.T + np.einsum("jcd,jed->dce", g, g),
            here.carry @ past.vector + np.einsum("jcd,jd->cd", g, mean),
            past.total + (mean**2 + np.einsum("jjd->jd", covariance) - self.target).sum(0),
            past.squares + 2 * seen + (covariance**2).sum((0, 1)),
            past.products
            + 2 * (mean * along).sum(0)
            + np.einsum("jd,jkd,kd->d", mean, covariance, mean),
        )


def gaussian_closure(problem: LinearGaussian, chain: Chain, num_steps: int) -> Closure:
    """The recursion for runs of up to so many steps."""
    mean, covariance = problem.posterior()
    cycles = -(-min(SHORTEST, num_steps) // len(chain.steps))
    length = cycles * len(chain.steps)
    opens = -(-len(chain.opening) // length) * length
    return Closure(
        carried=chain.carried,
        opening=stretch([chain.step(l) for l in range(opens)], chain) if opens else None,
        cycle=stretch(chain.steps * cycles, chain),
        origin=mean,
        target=mean**2 + np.diag(covariance),
    )


def _settled(old: Past, new: Past) -> bool:
    pairs = [(old.moments[:-1], new.moments[:-1])]  # without E[1 * 1] = 1
    pairs += [(old.matrix, new.matrix), (old.vector, new.vector)]
    return all(np.all(np.abs(a - b) <= SETTLED * np.abs(b).max()) for a, b in pairs)
