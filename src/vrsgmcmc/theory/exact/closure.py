"""The error of an average of squares as if all positions were jointly Gaussian.

For jointly Gaussian x_l with means m_l and covariances c_lk, in each coordinate,

    E[x_l^2] = m_l^2 + c_ll,      Cov(x_l^2, x_k^2) = 2 c_lk^2 + 4 m_l m_k c_lk.

Means and covariances are exact. The one approximation is that third and fourth cumulants vanish;
with the full gradient they do. The double sums over l and k follow a recursion: the columns
g_l = E[z_n (x_l - m_l)] follow the mean maps, c_nl = x . g_l, and so

    sum_l c_nl^2 = x W x^T,  W = sum_l g_l g_l^T,        sum_l m_l c_nl = x . U,  U = sum_l m_l g_l.

The past thus contributes a matrix and a vector. A stretch of steps (some cycles) updates them by
tensors that act on the second moments s before it. Each stretch is computed once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .affine import MomentMap, advance, pack, unit_moments
from .chains import Chain
from .problems import Array, LinearGaussian

SHORTEST = 32  # steps of a stretch: fewer and longer ones are faster
TOLERANCE = 1e-14  # relative change in a stretch below which the moments are constant


class Stretch(NamedTuple):
    """P steps as functions of the K second moments s, of C coordinates, before them."""

    means: Float[Array, "P d K"]  # E[x_j] = means s
    pairs: Float[Array, "P P d K"]  # E[x_j x_k] = pairs s
    cross: Float[Array, "P C d K"]  # E[z_end x_j] = cross s
    moments: Float[Array, "K K"]  # s_end = moments s
    end_means: Float[Array, "C K"]  # E[z_end] = end_means s
    response: Float[Array, "P d C"]  # x_j = response z, on average
    propagator: Float[Array, "C C"]  # z_end = propagator z, on average


def stretch(steps: Sequence[list[MomentMap]], chain: Chain) -> Stretch:
    """The tensors of some steps of a chain, from the unit moments."""
    carry, x, one = chain.carry, chain.select["x"], chain.select["one"][0]
    P, d = len(steps), len(x)
    moments, mean_map = unit_moments(carry), carry.T[None, None]
    K = len(moments)
    columns = moments[..., :0]  # E[z_now x_j] of each unit moment, for the steps j so far
    means, pairs, response = np.zeros((P, d, K)), np.zeros((P, P, d, K)), []
    for now, maps in enumerate(steps):
        for each in maps:
            moments, columns = advance(each, moments), each.apply_mean(columns)
            mean_map = each.apply_mean(mean_map)
        columns = np.concatenate([columns, moments @ x.T], axis=-1)
        means[now] = (x @ moments.mean((1, 2)) @ one).T
        products = (x @ columns.mean((1, 2))).reshape(K, d, now + 1, d)
        pairs[now, : now + 1] = pairs[: now + 1, now] = np.einsum("kiji->jik", products)
        response.append(x @ mean_map.mean((0, 1)))
    cross = (carry @ columns.mean((1, 2))).reshape(K, -1, P, d)
    return Stretch(
        means,
        pairs,
        np.einsum("kcjd->jcdk", cross),
        pack(moments, carry).T,
        (carry @ moments.mean((1, 2)) @ one).T,
        np.stack(response),
        carry @ mean_map.mean((0, 1)),
    )


class Past(NamedTuple):
    """The state before a stretch, the sums over the past, and the place in the stretch."""

    moments: Float[Array, " K"]  # s
    matrix: Float[Array, "d C C"]  # W, one for each coordinate of x
    vector: Float[Array, "C d"]  # U
    sums: Float[Array, "3 d"]  # sum_l E[x_l^2] - E[x^2 | data], sum_lk c_lk^2, sum_lk m_l m_k c_lk
    first: int = 0  # the sums lack the steps first < j <= now of the present stretch
    now: int = 0
    in_opening: bool = False  # whether this is the first stretch of a run


@dataclass(frozen=True, eq=False)
class Closure:
    """The recursion of these sums."""

    carry: Float[Array, "C D"]
    opening_length: int
    opening: Stretch | None  # None: a run begins with a cycle
    length: int
    cycle: Stretch
    origin: Float[Array, " d"]
    target: Float[Array, " d"]  # E[x^2 | data]

    def start(self, moment: Float[Array, "1 1 D D"]) -> Past:
        C, d = len(self.carry), len(self.origin)
        sums = np.zeros((d, C, C)), np.zeros((C, d)), np.zeros((3, d))
        return Past(pack(moment, self.carry), *sums, in_opening=self.opening is not None)

    def reset(self, past: Past) -> Past:
        zeros = (np.zeros_like(part) for part in past[1:4])
        return Past(past.moments, *zeros, first=past.now, now=past.now, in_opening=past.in_opening)

    def read(self, past: Past) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """Mean and variance of sum_l x_l^2 - E[x^2 | data]."""
        total, squares, products = self._add_steps(past).sums
        return total, 2 * squares + 4 * products

    def step(self, past: Past, l: int) -> Past:
        past = past._replace(now=past.now + 1)
        length = self.opening_length if past.in_opening else self.length
        return self._add_steps(past) if past.now == length else past

    def jump(self, past: Past, cycles: int) -> Past:
        """Stretch after stretch; once all moments are constant, each adds the same."""
        for left in reversed(range(cycles)):
            old, past = past, self._add_steps(past._replace(now=self.length))
            if _is_constant(old, past):
                return past._replace(sums=past.sums + left * (past.sums - old.sums))
        return past

    def _add_steps(self, past: Past) -> Past:
        """Add the steps that the sums lack, and go to the end of the stretch."""
        here = self.opening if past.in_opening and self.opening is not None else self.cycle
        s, steps = past.moments, slice(past.first, past.now)
        offset, response = here.means[steps] @ s, here.response[steps]
        mean = self.origin + offset
        covariance = here.pairs[steps, steps] @ s - offset[:, None] * offset
        along = np.einsum("jdc,cd->jd", response, past.vector)
        across = np.einsum("jdc,dce,jde->d", response, past.matrix, response)
        g = here.cross[steps] @ s - (here.end_means @ s)[:, None] * offset[:, None]
        total, squares, products = past.sums
        total = total + (mean**2 + np.einsum("jjd->jd", covariance) - self.target).sum(0)
        squares = squares + 2 * across + (covariance**2).sum((0, 1))
        products = products + 2 * (mean * along).sum(0)
        products = products + np.einsum("jd,jkd,kd->d", mean, covariance, mean)
        return Past(
            here.moments @ s,
            here.propagator @ past.matrix @ here.propagator.T + np.einsum("jcd,jed->dce", g, g),
            here.propagator @ past.vector + np.einsum("jcd,jd->cd", g, mean),
            np.stack([total, squares, products]),
        )


def gaussian_closure(problem: LinearGaussian, chain: Chain, num_steps: int) -> Closure:
    """The recursion of a chain, for runs of up to `num_steps` steps."""
    mean, covariance = problem.posterior()
    cycles = -(-min(SHORTEST, num_steps) // len(chain.steps))
    length = cycles * len(chain.steps)
    opening = [chain.step(l) for l in range(-(-len(chain.opening) // length) * length)]
    return Closure(
        carry=chain.carry,
        opening_length=len(opening),
        opening=stretch(opening, chain) if opening else None,
        length=length,
        cycle=stretch(chain.steps * cycles, chain),
        origin=mean,
        target=mean**2 + np.diag(covariance),
    )


def _is_constant(old: Past, new: Past) -> bool:
    """Whether a stretch changed none of the moments, up to rounding."""
    pairs = [(old.moments[:-1], new.moments[:-1])]  # without E[1 * 1] = 1
    pairs += [(old.matrix, new.matrix), (old.vector, new.vector)]
    return all(np.all(np.abs(a - b) <= TOLERANCE * np.abs(b).max()) for a, b in pairs)
