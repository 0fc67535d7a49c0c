"""The paper's bounds against brute force: grids over h and n, sums over pairs, the proofs' formulas.

`noise.py` has its own tests; here Gamma and the sums over pairs are written out from the paper.
"""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from vrsgmcmc.theory.bounds import (
    bias_bound,
    improvement,
    improvement_as_printed,
    minibatch_bound,
    minibatch_noise,
    mse_bound,
    practical_bound,
    step_cost,
    svrg_bound,
)
from vrsgmcmc.theory.regimes import (
    STEP_FACTOR,
    batch_size_as_printed,
    best_bias_step_size,
    best_step_size,
    dubey_sgld_bound,
    dubey_svrg_bound,
    minibatch_budget_bound,
    minibatch_regime,
    practical_budget_bound,
    svrg_beats_sgld,
    svrg_step_limit,
)

N = 12
RUN = dict(num_steps=500, step_size=1e-3)


def numbers(least, most):
    """Positive numbers, spread evenly over their powers of ten."""
    return st.floats(math.log10(least), math.log10(most)).map(lambda power: 10.0**power)


def pairs(v):
    """sum_ij v_i.v_j, sum_{i != j} v_i.v_j, and Gamma as Lemma 2 defines it."""
    products = v @ v.T
    every = products.sum()
    distinct = every - np.trace(products)
    n = len(v)
    return every, distinct, every / n**2 - distinct / (n * (n - 1))


@pytest.fixture
def gradients():
    rng = np.random.default_rng(3)
    return rng.normal(size=(N, 2)), rng.normal(0.3, 1.0, size=(N, 2))


# Lemma 1


def test_lemma_1():
    assert mse_bound(6.0, 4, 0.5) == 6 / 4 + 1 / 2 + 0.25
    assert mse_bound(6.0, 4, 0.5, order=2, constants=(2, 3, 5)) == 12 / 4 + 3 / 2 + 5 / 16
    assert bias_bound(6.0, 4, 0.5) == 6 + 1 / 2 + 0.5
    assert bias_bound(6.0, 4, 0.5, order=3, constants=(2, 3, 5)) == 12 + 3 / 2 + 5 / 8


@pytest.mark.parametrize("order", [1, 2, 4])
def test_scaling(order):
    """Ten times the steps: noise and 1/(L h) fall to a tenth. Half the step: 2^-2K, 2^-K."""
    noise_only, steps_only = dict(constants=(1, 1, 0)), dict(constants=(0, 0, 1), order=order)
    assert mse_bound(7.0, 1000, 0.1, **noise_only) == pytest.approx(
        mse_bound(7.0, 100, 0.1, **noise_only) / 10
    )
    for bound, power in ((mse_bound, 2 * order), (bias_bound, order)):
        ratio = bound(7.0, 100, 0.1, **steps_only) / bound(7.0, 100, 0.05, **steps_only)
        assert ratio == pytest.approx(2.0**power)


def test_arrays_broadcast():
    h, L = np.array([0.1, 0.2, 0.4]), np.array([[10], [1000]])
    table = mse_bound(2.0, L, h)
    assert table.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        assert table[i, j] == mse_bound(2.0, L[i, 0], h[j])
    noise = minibatch_noise(0.5, size=N, batch_size=np.arange(1, N + 1))
    assert noise.shape == (N,)
    assert np.all(np.diff(noise) < 0)
    assert noise[-1] == 0
    assert mse_bound(jnp.float32(2.0), 10, 0.1) == mse_bound(2.0, 10, 0.1)


# Theorems 1 and 2 with their remarks


@pytest.mark.parametrize("n", [1, 5, N])
def test_minibatch_noise_is_the_formula_of_the_proof(gradients, n):
    every, distinct, gamma = pairs(gradients[0])
    proof = (N / n - 1) * every - N * (N - n) / (n * (N - 1)) * distinct
    assert minibatch_noise(gamma, size=N, batch_size=n) == pytest.approx(proof, abs=1e-10)


def test_theorem_1_and_its_factor_2():
    sizes = dict(size=N, batch_size=4)
    noise = (N - 4) * N**2 * 0.7 / 4
    assert minibatch_bound(0.7, 100, 0.1, **sizes) == mse_bound(noise, 100, 0.1)
    printed = minibatch_bound(0.7, 100, 0.1, **sizes, as_printed=True)
    assert printed - minibatch_bound(0.7, 100, 0.1, **sizes) == pytest.approx(noise / 100)
    # Gamma_M is the largest Gamma_l.
    assert minibatch_bound([0.1, 0.7, 0.2], 100, 0.1, **sizes) == mse_bound(noise, 100, 0.1)


@pytest.mark.parametrize(("n1", "n2"), [(8, 3), (N, 1), (5, 5), (3, 8), (1, N)])
def test_improvement_is_minus_b_plus_c(gradients, n1, n2):
    """At alpha = beta, A + B + C is the noise of the anchor alone: lambda = A(n2) - A(n1)."""
    every, distinct, gamma = pairs(gradients[1])
    sizes = dict(size=N, batch_size=n2, anchor_size=n1)
    q1, q2 = (N * (N - n) / (n * (N - 1)) for n in (n1, n2))
    B = (N / n2 + N / n1 - 2) * every - (q2 + q1) * distinct
    C = 2 * (1 - N / n2) * every + 2 * q2 * distinct
    right = improvement(gamma, **sizes)
    assert right == pytest.approx(-(B + C), abs=1e-9)
    noise = [minibatch_noise(gamma, size=N, batch_size=n) for n in (n2, n1)]
    assert right == pytest.approx(noise[0] - noise[1], abs=1e-9)
    assert np.sign(right) == np.sign(n1 - n2)
    printed = improvement_as_printed(every, distinct, **sizes)
    one_sign = (N / n2 - N / n1) * every  # what is wrong with the printed one
    assert printed + 2 * one_sign == pytest.approx(right, abs=1e-9)


def test_the_printed_improvement_has_no_definite_sign():
    sizes = dict(size=N, batch_size=2, anchor_size=8)
    equal = np.ones((N, 1))
    opposite = np.tile([[1.0], [-1.0]], (N // 2, 1))
    for v, sign in ((equal, -1), (opposite, 1)):
        every, distinct, gamma = pairs(v)
        assert np.sign(improvement_as_printed(every, distinct, **sizes)) == sign
        assert improvement(gamma, **sizes) >= 0


def theorem_2(n1, n2, **more):
    sizes = dict(size=N, batch_size=n2, anchor_size=n1, period=10)
    return practical_bound(0.7, 0.7, **RUN, **sizes, **more)


@pytest.mark.parametrize("n2", [1, 4, 7])
def test_a_larger_anchor_lowers_the_bound_a_smaller_one_raises_it(n2):
    plain = minibatch_bound(0.7, **RUN, size=N, batch_size=n2)
    bounds = np.array([theorem_2(n1, n2) for n1 in range(1, N + 1)])
    assert np.all(np.diff(bounds) < 0)
    for n1, bound in enumerate(bounds, start=1):
        if n1 > n2:
            assert bound < plain
        if n1 < n2:
            assert bound > plain
    # At n1 = n2 only m h / L is left, and at equal Gammas the noise is that of n1 data.
    L, h = RUN["num_steps"], RUN["step_size"]
    assert bounds[n2 - 1] - plain == pytest.approx(10 * h / L)
    like_n1 = minibatch_bound(0.7, **RUN, size=N, batch_size=np.arange(1, N + 1))
    np.testing.assert_allclose(bounds - 10 * h / L, like_n1, rtol=1e-12)


def test_theorem_2_takes_the_worst_step():
    gammas, anchors = np.array([0.5, 0.9, 0.6]), np.array([0.4, 0.8, 0.3])
    for n1, n2 in ((8, 3), (3, 8)):
        sizes = dict(size=N, batch_size=n2, anchor_size=n1)
        lambdas = improvement(anchors, **sizes)
        noises = minibatch_noise(gammas, size=N, batch_size=n2)
        expected = mse_bound(2 * (noises.max() - lambdas.min()), 50, 0.1, order=2)
        bound = practical_bound(
            gammas, anchors, 50, 0.1, **sizes, period=6, order=2, constants=(2, 1, 1, 3)
        )
        assert bound == pytest.approx(expected + 3 * 6 * 0.1 / 50, rel=1e-12)


def test_remark_1_is_theorem_2_at_all_data():
    gammas, anchors = np.array([0.5, 0.9, 0.6]), np.array([0.4, 0.8, 0.3])
    sizes = dict(size=N, batch_size=3, period=4)
    right = svrg_bound(gammas, anchors, 50, 0.1, **sizes)
    assert right == practical_bound(gammas, anchors, 50, 0.1, **sizes, anchor_size=N)
    noise = (N - 3) * N**2 / 3 * (0.9 - 0.3)
    assert right == pytest.approx(noise / 50 + 1 / 5 + 0.01 + 4 * 0.1 / 50)
    printed = svrg_bound(gammas, anchors, 50, 0.1, **sizes, as_printed=True)
    assert right - printed == pytest.approx((N - 3) * N**2 / 3 * (0.8 - 0.3) / 50)


def test_remark_2_counts_two_gradients_for_each_datum():
    work = dict(batch_size=3, anchor_size=8, period=4)
    assert step_cost(**work) == 8
    assert step_cost(**work, as_printed=True) == 5
    A_less_lambda = N**2 * 0.7 * (N - 8) / 8
    for cost, as_printed in ((8, False), (5, True)):
        bound = practical_budget_bound(0.7, 0.7, 2000, 0.1, **work, size=N, as_printed=as_printed)
        expected = (A_less_lambda + 4 * 0.1) * cost / 2000 + cost / (2000 * 0.1) + 0.1**2
        assert bound == pytest.approx(expected, rel=1e-12)


# The step size


def fine_grid(function, around):
    """The least value on a grid over h, from 1/100 to 100 times `around`, and the h it is at."""
    h = around * np.exp(np.linspace(-math.log(100), math.log(100), 200_001))
    values = function(h)
    return h[np.argmin(values)], values.min()


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("period", [0, 10, 100_000])
@pytest.mark.parametrize("L", [7, 10**6])
def test_best_step_size_against_a_grid(order, period, L):
    constants = (2.0, 3.0, 0.5, 0.7)

    def bound(h):
        linear = constants[3] * period * h / L
        return mse_bound(4.0, L, h, order=order, constants=constants[:3]) + linear

    best = best_step_size(L, noise=4.0, period=period, order=order, constants=constants)
    h, value = fine_grid(bound, best.step_size)
    assert best.step_size == pytest.approx(h, rel=1e-4)
    assert best.bound == pytest.approx(bound(best.step_size), rel=1e-12)
    assert value * (1 - 1e-6) <= best.bound <= value * (1 + 1e-12)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_best_bias_step_size_against_a_grid(order):
    best = best_bias_step_size(300, order=order, constants=(3.0, 0.5))

    def bound(h):
        return bias_bound(0.0, 300, h, order=order, constants=(1.0, 3.0, 0.5))

    h, value = fine_grid(bound, best.step_size)
    assert best.step_size == pytest.approx(h, rel=1e-4)
    assert value * (1 - 1e-6) <= best.bound <= value * (1 + 1e-12)


@given(
    L=numbers(1, 1e9),
    period=st.integers(0, 10**6),
    order=st.integers(1, 4),
    c=st.tuples(*[numbers(1e-4, 1e4)] * 4),
)
def test_best_step_size_is_where_the_derivative_vanishes(L, period, order, c):
    h, bound = best_step_size(L, period=period, order=order, constants=c)
    falling, rising = c[1] / (L * h**2), 2 * order * c[2] * h ** (2 * order - 1) + c[3] * period / L
    assert falling == pytest.approx(rising, rel=1e-9)
    if period == 0:
        assert h == pytest.approx((c[1] / (2 * order * c[2] * L)) ** (1 / (2 * order + 1)))
        assert bound == pytest.approx((2 * order + 1) * c[2] * h ** (2 * order))
    else:
        assert h < best_step_size(L, order=order, constants=c).step_size


def test_best_step_size_of_arrays():
    L = np.array([10.0, 1e3, 1e6])
    table = best_step_size(L, period=np.array([[0], [50]]))
    assert table.step_size.shape == table.bound.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        one = best_step_size(L[j], period=[0, 50][i])
        assert (table.step_size[i, j], table.bound[i, j]) == one


@settings(max_examples=40)
@given(n=st.integers(1, N), T=numbers(1e-1, 1e9), gamma=numbers(1e-5, 1e3))
def test_the_factor_that_the_paper_drops(n, T, gamma):
    """min over h of n / (T h) + h^2 is 3 / 2^(2/3) (n / T)^(2/3): Eq. (msebound_t) has the power."""
    L = T / n
    noise = minibatch_noise(gamma, size=N, batch_size=n)
    best = best_step_size(L, noise=noise)
    right = minibatch_budget_bound(n, T, N, gamma)
    assert right == pytest.approx(best.bound, rel=1e-9)
    numeric = minimize_scalar(
        lambda power: float(mse_bound(0.0, L, math.exp(power))), bounds=(-15, 5), method="bounded"
    )
    assert STEP_FACTOR * (n / T) ** (2 / 3) == pytest.approx(numeric.fun, rel=1e-6)
    printed = minibatch_budget_bound(n, T, N, gamma, as_printed=True)
    assert right - printed == pytest.approx((STEP_FACTOR - 1) * (n / T) ** (2 / 3), rel=1e-6)
    assert abs(STEP_FACTOR - 1.88988) < 1e-5


def test_the_constants_of_the_budget_bound():
    c1, c2, c3 = 2.0, 3.0, 0.5
    best = best_step_size(
        1e4 / 5, noise=minibatch_noise(0.1, size=N, batch_size=5), constants=(c1, c2, c3, 0)
    )
    merged = (c1, (c2**2 * c3) ** (1 / 3))
    assert minibatch_budget_bound(5, 1e4, N, 0.1, constants=merged) == pytest.approx(best.bound)


# Corollary 1


def eq_msebound_t(n, T, N, gamma, c1=1.0, c2=1.0):
    return c1 * (N - n) * N**2 * gamma / T + c2 * (n / T) ** (2 / 3)


def thresholds(N, gamma, c1=1.0, c2=1.0):
    low = 27 / 8 * (c1 / c2) ** 3 * gamma**3 * N**6
    return low, low * N


@pytest.mark.parametrize("constants", [(1.0, 1.0), (3.0, 0.5), (0.2, 7.0)])
@pytest.mark.parametrize("gamma", [1e-4, 0.3, 20.0])
@pytest.mark.parametrize("size", [2, 3, 10, 1000])
def test_corollary_1_is_the_argmin(size, gamma, constants):
    low, high = thresholds(size, gamma, *constants)
    n = np.arange(1, size + 1)
    inside = [low * (high / low) ** part for part in np.linspace(0.01, 0.99, 21)]
    cases = {
        "limited budget": [low * x for x in (1e-9, 0.01, 0.5, 0.999, 1 - 1e-9)],
        "between": [low * (1 + 1e-9), *inside, high * (1 - 1e-9)],
        "long run": [high * x for x in (1 + 1e-9, 1.001, 2, 1e3, 1e9)],
    }
    sizes_of = {}
    for regime, budgets in cases.items():
        for T in budgets:
            bounds = eq_msebound_t(n, T, size, gamma, *constants)
            advice = minibatch_regime(T, size, gamma, constants=constants)
            assert advice.regime == regime
            assert advice.batch_size == n[np.argmin(bounds)]
            assert advice.bound == pytest.approx(bounds.min(), rel=1e-12)
            assert advice.limited_below == pytest.approx(low, rel=1e-12)
            assert advice.long_run_above == pytest.approx(high, rel=1e-12)
            sizes_of.setdefault(regime, set()).add(advice.batch_size)
    assert sizes_of == {"limited budget": {size}, "between": {1, size}, "long run": {1}}


@pytest.mark.parametrize("size", [5, 40])
def test_the_three_shapes_of_corollary_1(size):
    gamma, n = 0.3, np.arange(1, size + 1)
    low, high = thresholds(size, gamma)
    assert np.all(np.diff(eq_msebound_t(n, low * 0.999, size, gamma)) < 0)
    assert np.all(np.diff(eq_msebound_t(n, high * 1.001, size, gamma)) > 0)
    slopes = np.sign(np.diff(eq_msebound_t(n, math.sqrt(low * high), size, gamma)))
    assert slopes[0] > 0 > slopes[-1]
    assert np.count_nonzero(np.diff(slopes)) == 1


@given(
    T=numbers(1e-3, 1e30),
    size=st.integers(1, 300),
    gamma=st.one_of(st.just(0.0), numbers(1e-6, 1e3)),
    constants=st.tuples(numbers(1e-3, 1e3), numbers(1e-3, 1e3)),
)
def test_the_regime_is_the_argmin_anywhere(T, size, gamma, constants):
    n = np.arange(1, size + 1)
    bounds = eq_msebound_t(n, T, size, gamma, *constants)
    advice = minibatch_regime(T, size, gamma, constants=constants)
    if abs(bounds[0] - bounds[-1]) > 1e-12 * bounds[0]:
        assert advice.batch_size == n[np.argmin(bounds)]
    assert advice.bound == pytest.approx(bounds.min(), rel=1e-11)


@pytest.mark.parametrize("constants", [(1.0, 1.0), (3.0, 0.5)])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.8])
def test_the_printed_batch_size_is_the_worst(part, constants):
    size, gamma = 1000, 0.3
    low, high = thresholds(size, gamma, *constants)
    T = low * (high / low) ** part
    printed = batch_size_as_printed(T, size, gamma, constants=constants)
    if constants == (1.0, 1.0):
        assert printed == pytest.approx(8 * T / (27 * size**6 * gamma**3))
    n = np.linspace(1, size, 999_001)
    bounds = eq_msebound_t(n, T, size, gamma, *constants)
    assert n[np.argmax(bounds)] == pytest.approx(printed, abs=0.01)
    assert eq_msebound_t(printed, T, size, gamma, *constants) >= bounds.max()
    assert minibatch_regime(T, size, gamma, constants=constants).bound < bounds.max()


def test_extremes():
    assert minibatch_regime(1e3, 50, 0.0)[:3] == (1, "long run", pytest.approx(1e-2))
    assert minibatch_regime(1e9, 10**9, 0.1)[:3] == (10**9, "limited budget", 1.0)
    assert minibatch_regime(1e300, 1e9, 0.1).batch_size == 1
    assert minibatch_regime(10**10, 10**9, 1e-16).regime == "between"
    assert minibatch_regime(1e9, 10**9, 1e300).batch_size == 10**9
    assert minibatch_regime(1e9, 10**9, 1e-300).batch_size == 1
    assert minibatch_regime(5.0, 1, 0.3).batch_size == 1
    assert batch_size_as_printed(1e3, 50, 0.0) == math.inf
    advice = minibatch_regime(jnp.float32(1e3), np.int64(50), jnp.float32(0.5))
    assert advice == minibatch_regime(1e3, 50, 0.5)
    assert [type(x) for x in advice] == [int, str, float, float, float]


def test_equal_ends_take_the_smaller():
    """gamma + 1 = 2^(2/3) at N = 2, T = 1, c1 = 1/4, without rounding."""
    gamma, constants = 2 ** (2 / 3) - 1, (0.25, 1.0)
    bounds = minibatch_budget_bound([1, 2], 1, 2, gamma, constants=constants, as_printed=True)
    assert bounds[0] == bounds[1]
    assert minibatch_regime(1, 2, gamma, constants=constants).batch_size == 1
    assert minibatch_regime(1, 2, gamma * (1 + 1e-12), constants=constants).batch_size == 2


# Dubey et al.

DUBEY = dict(period=20, sigma=1.7, D=3.0, d=2.0)


@settings(max_examples=40)
@given(
    period=st.integers(1, 10**4),
    sigma=numbers(1e-3, 1e3),
    D=st.one_of(st.just(0.0), numbers(1e-3, 1e3)),
    d=numbers(1, 1e4),
)
def test_the_region_where_svrg_has_the_smaller_bound(period, sigma, D, d):
    values = dict(period=period, sigma=sigma, D=D, d=d)
    limit = svrg_step_limit(**values)
    spread = period**2 * (D**2 * limit**2 * sigma**2 + limit * d)
    assert spread == pytest.approx(sigma**2, rel=1e-9)
    # The terms in h are the same for both: leave them out, to see the difference.
    common = dict(size=N, batch_size=3, constants=(1, 0, 0))
    for h, smaller in ((limit * (1 - 1e-6), True), (limit * (1 + 1e-6), False)):
        assert svrg_beats_sgld(h, **values) == smaller
        sgld = dubey_sgld_bound(100, h, **common, sigma=sigma)
        for rewritten in (False, True):
            svrg = dubey_svrg_bound(100, h, **common, **values, rewritten=rewritten)
            assert (svrg < sgld) == smaller


def test_the_bounds_of_dubey():
    common = dict(size=N, batch_size=3, constants=(2, 3, 5))
    for h in (1e-4, 1e-2, 1.0):
        spread = 20**2 * (3.0**2 * h**2 * 1.7**2 + h * 2.0)
        rest = 3 / (100 * h) + 5 * h**2
        sgld = dubey_sgld_bound(100, h, **common, sigma=1.7)
        assert sgld == pytest.approx(2 * N**2 * 1.7**2 / 300 + rest)
        least = dubey_svrg_bound(100, h, **common, **DUBEY)
        assert least == pytest.approx(2 * N**2 * min(2 * 1.7**2, spread) / 300 + rest)
        rewritten = dubey_svrg_bound(100, h, **common, **DUBEY, rewritten=True)
        assert rewritten == pytest.approx(2 * N**2 * spread / 300 + rest)


def test_the_region_is_an_interval():
    h = np.logspace(-6, 1, 1000)
    inside = svrg_beats_sgld(h, **DUBEY)
    assert inside[0]
    assert not inside[-1]
    assert np.count_nonzero(np.diff(inside)) == 1
    assert np.array_equal(inside, h < svrg_step_limit(**DUBEY))


# Messages

SIZES = dict(size=N, batch_size=3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mse_bound(1.0, 0, 0.1), "num_steps must be positive; got 0; give"),
        (lambda: mse_bound(1.0, 10, [0.1, -0.1]), r"step_size must be positive; got \[0.1, -0.1\]"),
        (lambda: mse_bound(math.nan, 10, 0.1), "noise must be finite; got nan"),
        (
            lambda: mse_bound(1.0, 10, 0.1, order=0),
            "order must be a whole number, at least 1; got 0",
        ),
        (
            lambda: mse_bound(1.0, 10, 0.1, constants=(1, 1)),
            r"constants must be 3 numbers; got \(1, 1",
        ),
        (lambda: mse_bound(1.0, 10, 0.1, constants=(1, -1, 1)), "constants must be 0 or more"),
        (lambda: mse_bound("ten", 10, 0.1), "noise must be finite; got ten"),
        (lambda: bias_bound(-1.0, 10, 0.1), "drift must be 0 or more; got -1.0; it is a mean"),
        (lambda: minibatch_noise(-1.0, **SIZES), "gamma must be 0 or more; got -1.0"),
        (lambda: minibatch_noise(1.0, size=0, batch_size=1), "size must be a whole number.*got 0"),
        (lambda: minibatch_noise(1.0, size=N, batch_size=0), "batch_size must be a whole .*got 0"),
        (
            lambda: minibatch_noise(1.0, size=N, batch_size=2.5),
            "batch_size must be a whole.*got 2.5",
        ),
        (lambda: minibatch_noise(1.0, size=N, batch_size=13), "at most size = 12.*got 13; use all"),
        (
            lambda: improvement(1.0, **SIZES, anchor_size=13),
            "anchor_size must be at most size = 12",
        ),
        (
            lambda: improvement_as_printed(1.0, 1.0, size=1, batch_size=1, anchor_size=1),
            "size must be at least 2; got 1; one datum makes no pairs",
        ),
        (lambda: minibatch_bound([1.0, -1.0], 10, 0.1, **SIZES), "gammas must be 0 or more"),
        (
            lambda: practical_bound(1.0, 1.0, 10, 0.1, **SIZES, anchor_size=5, period=0),
            "period must be a whole number, at least 1; got 0",
        ),
        (
            lambda: practical_budget_bound(1.0, 1.0, -5, 0.1, **SIZES, anchor_size=5, period=2),
            "budget must be positive; got -5",
        ),
        (lambda: best_step_size(0), "num_steps must be positive; got 0"),
        (lambda: best_step_size(10, period=-1), "period must be 0 or more; got -1; 0 leaves"),
        (
            lambda: best_step_size(10, constants=(1, 1, 0, 1)),
            r"constants c2 and c3 must be positive; got \(1.0, 0.0\)",
        ),
        (lambda: minibatch_regime(0, N, 0.1), "T must be positive; got 0"),
        (lambda: minibatch_regime(math.inf, N, 0.1), "T must be finite; got inf"),
        (lambda: minibatch_regime(10, 0, 0.1), "N must be a whole number, at least 1; got 0"),
        (lambda: minibatch_regime(10, N, -0.1), "gamma must be 0 or more; got -0.1"),
        (
            lambda: minibatch_regime([1, 2], N, 0.1),
            r"T must be one number; got \[1, 2\]; call once",
        ),
        (
            lambda: minibatch_regime(10, N, 0.1, constants=(1.0, 0.0)),
            "constants c2 must be positive; got 0.0",
        ),
        (lambda: minibatch_budget_bound(13, 10, N, 0.1), "batch_size must be at most size = 12"),
        (lambda: svrg_step_limit(**DUBEY | {"d": 0}), "d must be positive; got 0"),
        (lambda: svrg_beats_sgld(0.0, **DUBEY), "step_size must be positive; got 0.0"),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError, match=message):
        call()
