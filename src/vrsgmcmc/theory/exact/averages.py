"""The error of an average over a run of a certain length: bias, variance, mean squared error.

    phi-hat = 1/(L - b) sum_{b < l <= L} phi(x_l),    MSE = (E phi-hat - E[phi | data])^2 + Var phi-hat

for phi(x) = x or x^2, coordinate by coordinate. The sum of the positions is itself a coordinate of
a chain of random affine maps (see `chains.py`), so its variance is a second moment. Sums of squares
need fourth moments: `moments.py` has those of the Gaussian mean model, `closure.py` approximates.
Each is a recursion that repeats from cycle to cycle:

    length, opening_length    steps of a cycle, and of the opening, whose steps differ from a cycle's
    step, jump                the state after one step, and after some whole cycles
    reset                     the state with the sum set to 0
    read                      mean and variance of the sum of phi(x_l) - E[phi | data]
"""

import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from vrsgmcmc.core import Estimator, Integrator

from .affine import Powers, cycle_matrix, fixed_point, pack, unpack
from .chains import Chain, chain, start_moments
from .closure import Closure, gaussian_closure
from .draws import resolve
from .moments import Squares, squares
from .problems import Array, LinearGaussian
from .schemes import temperature_of


class AverageError(NamedTuple):
    """Expected error and variance of an average, by coordinate; a curve has its points first."""

    bias: Float[Array, "*points d"]
    variance: Float[Array, "*points d"]

    @property
    def mse(self) -> Float[Array, "*points d"]:
        return self.bias**2 + self.variance


def mse(
    problem: LinearGaussian,
    estimator: Estimator,
    integrator: Integrator,
    *,
    num_steps: int | Sequence[int] | Int[Array, " points"],
    start: ArrayLike | float | None = None,
    observable: str = "position",
    burn_in: int = 0,
    closure: str | None = None,
    step_size: float,
    batch_size: int | None = None,
    order: str = "without_replacement",
    anchor_order: str = "without_replacement",
) -> AverageError:
    """The error of the average of an observable over the steps burn_in < l <= num_steps.

    The descriptions are those of `stationary`, and so are the pairs with a law.

    - `num_steps`: the length of the run, or an increasing sequence: the points of a curve.
    - `start`: where the chain starts, as in `vr.sample`: momenta from N(0, T), the table of `saga`
      filled there. None: from the stationary law, at the beginning of a cycle.
    - `observable`: "position" (x, exact for every pair) or "square" (x^2 in each coordinate).
    - `closure`: for "square", None or "gaussian". None is exact: on the Gaussian mean model, with
      independent draws, for full, minibatch, practical, svrg and control_variate. "gaussian" takes
      all positions as jointly Gaussian, for every pair.

    The closure's error, measured on the paper's Gaussian (N = 1000 data from N(1, 1), sgld from 0,
    10 to 100,000 steps, h (N + 1) from 0.002 to 0.5), in the MSE of theta^2: at most 5 % for
    minibatch with n = 1, 0.5 % with n = 10, 0.03 % with n = 100, and 0.04 % for practical with
    n1 = 200, m = 10 and n2 = 1, 10, 100 (there n2 does not matter). It grows with the step size.
    """
    if observable not in ("position", "square"):
        raise ValueError(f"observable must be 'position' or 'square', got {observable!r}")
    if closure not in (None, "gaussian"):
        raise ValueError(f"closure must be None or 'gaussian', got {closure!r}")
    stops = _stops(num_steps, burn_in)
    sampler = resolve(problem, estimator, integrator, step_size, batch_size, order, anchor_order)
    cycle = chain(problem, sampler, sums=observable == "position")
    point = None if start is None else _point(start, problem)
    if point is None:
        moment = fixed_point(cycle.maps, cycle.carry)
        cycle = cycle._replace(opening=[])
    else:
        moment = start_moments(problem, integrator, point, cycle.select)

    run: Sums | Closure | Squares
    if observable == "position":
        run, state = Sums(cycle), moment
    elif closure == "gaussian":
        run = gaussian_closure(problem, cycle, stops[-1])
        state = run.start(moment)
    elif point is None:
        run = replace(squares(problem, sampler), opening=[])
        state = run.stationary()
    else:
        run, position = squares(problem, sampler), float((point - problem.posterior()[0])[0])
        state = run.start(position, temperature_of(integrator))

    state = run.reset(_advance(run, state, 0, burn_in))
    bias, variance = [], []
    for begin, stop in pairwise([burn_in, *stops]):
        state = _advance(run, state, begin, stop)
        count, (first, second) = stop - burn_in, run.read(state)
        bias.append(first / count)
        variance.append(np.maximum(second, 0.0) / count**2)  # rounding may leave it below 0
    curve = slice(None) if np.ndim(num_steps) else 0
    return AverageError(np.stack(bias)[curve], np.stack(variance)[curve])


class Sums:
    """The recursion of the second moments of z and of the sum of the positions."""

    def __init__(self, chain: Chain):
        self.chain = chain
        self.length, self.opening_length = len(chain.steps), len(chain.opening)
        self._carry = np.concatenate([chain.select["sum"], chain.carry])

    def step(self, moment: Float[Array, "p q D D"], l: int) -> Float[Array, "_ _ D D"]:
        for each in self.chain.step(l):
            moment = each(moment)
        return moment

    def jump(self, moment: Float[Array, "p q D D"], cycles: int) -> Float[Array, "1 1 D D"]:
        return unpack(self._powers(pack(moment, self._carry), cycles), self._carry)

    def reset(self, moment: Float[Array, "p q D D"]) -> Float[Array, "p q D D"]:
        mask = 1.0 - self.chain.select["sum"].sum(0)
        return moment * np.outer(mask, mask)

    def read(
        self, moment: Float[Array, "p q D D"]
    ) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """Mean and variance of the sum, measured from the posterior mean."""
        total, one = self.chain.select["sum"], self.chain.select["one"][0]
        now = moment.mean((0, 1))
        mean = total @ now @ one
        return mean, np.diag(total @ now @ total.T) - mean**2

    @cached_property
    def _powers(self) -> Powers:
        return Powers(cycle_matrix(self.chain.maps, self._carry))


def _advance(run: Sums | Closure | Squares, state: Any, l: int, stop: int) -> Any:
    """The state after step `stop`, from the state after step l."""
    while l < stop:
        in_cycle = l >= run.opening_length and l % run.length == 0
        cycles = (stop - l) // run.length if in_cycle else 0
        state = run.jump(state, cycles) if cycles else run.step(state, l)
        l += max(cycles * run.length, 1)
    return state


def _stops(num_steps: int | Sequence[int] | Int[Array, " points"], burn_in: int) -> list[int]:
    stops = [operator.index(stop) for stop in np.ravel(np.asarray(num_steps))]
    if not stops or burn_in < 0 or any(b <= a for a, b in pairwise([burn_in, *stops])):
        raise ValueError(
            f"num_steps must be a number, or increasing numbers, above burn_in (0 or more); got "
            f"num_steps={num_steps} and burn_in={burn_in}"
        )
    return stops


def _point(start: ArrayLike | float, problem: LinearGaussian) -> Float[Array, " d"]:
    point, dimension = np.asarray(start, dtype=float).reshape(-1), problem.features.shape[1]
    if len(point) != dimension or not np.all(np.isfinite(point)):
        raise ValueError(
            f"start must hold as many finite numbers as there are dimensions, {dimension}, or be "
            f"None for the stationary law; got {start!r}"
        )
    return point
