"""The noise of the estimators: every formula against the enumeration of all draws."""

import itertools

import hypothesis.extra.numpy as array_strategies
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.linear_gradients import (
    ANCHOR,
    BLOCKS,
    DIMENSION,
    EXACT,
    POINT,
    POSTERIOR,
    SEPARATE,
    SWEEPS,
    figures,
    gradients,
    make_data,
    mean_square,
    weights,
)

import vrsgmcmc as vr
from vrsgmcmc.core.order import draw
from vrsgmcmc.theory.noise import all_lags, one_step


@pytest.mark.parametrize("order", SEPARATE)
@pytest.mark.parametrize("anchor_order", SEPARATE)
@pytest.mark.parametrize(("n1", "n2"), [(4, 2), (5, 1), (2, 3), (3, 3)])
def test_all_minibatches_and_anchors(order, anchor_order, n1, n2):
    alpha, beta = gradients(6)
    result = figures(
        alpha, beta, batch_size=n2, anchor_size=n1, order=order, anchor_order=anchor_order
    )
    w, b = weights(order, 6, n2), weights(anchor_order, 6, n1)
    for name, block in {None: slice(None), **BLOCKS}.items():
        here, there = alpha[:, block], beta[:, block]
        figure = result if name is None else result.blocks[name]
        anchor_part = (b - 1) @ there  # [anchors, d]
        corrections = (w - 1) @ (here - there)  # [minibatches, d]
        assert figure.minibatch == pytest.approx(mean_square((w - 1) @ here), **EXACT)
        assert figure.svrg == pytest.approx(mean_square(corrections), **EXACT)
        expected = mean_square(anchor_part[:, None] + corrections)
        assert figure.practical == pytest.approx(expected, **EXACT)

        first = (1 - w) @ here  # the two parts of dV
        second = (w @ there)[:, None] - b @ there
        cross = 2 * np.mean(np.sum(first[:, None] * second, -1))
        parts = [figure.A, figure.B, figure.C]
        assert parts == pytest.approx([mean_square(first), mean_square(second), cross], **EXACT)
        assert sum(parts) == pytest.approx(expected, **EXACT)
        assert sum(parts[1:]) == pytest.approx(figure.rest - figure.lambda_, **EXACT)


@pytest.mark.parametrize(("n1", "n2"), [(4, 2), (6, 1), (2, 5)])
def test_the_sums_of_the_paper(n1, n2):
    """Lemma 2, Proposition 1 (corrected) and Theorem 2 (corrected and as printed), term by term."""
    size = 6
    alpha, beta = gradients(size, seed=1)
    result = figures(alpha, beta, batch_size=n2, anchor_size=n1)

    def sums(u, v):
        products = u @ v.T
        return products.sum(), products.sum() - np.trace(products)

    (aa, aa_apart), (bb, bb_apart), (ab, ab_apart) = (
        sums(alpha, alpha),
        sums(beta, beta),
        sums(alpha, beta),
    )
    k1, k2 = (size * (size - n) / (n * (size - 1)) for n in (n1, n2))
    gamma_beta = bb / size**2 - bb_apart / (size * (size - 1))
    assert result.gamma == pytest.approx(aa / size**2 - aa_apart / (size * (size - 1)), **EXACT)
    parts = [
        (size / n2 - 1) * aa - k2 * aa_apart,
        (size / n2 + size / n1 - 2) * bb - (k2 + k1) * bb_apart,
        2 * (1 - size / n2) * ab + 2 * k2 * ab_apart,
    ]
    named = [result.A, result.B, result.C]
    assert named == pytest.approx(parts, **EXACT)
    assert result.lambda_ == pytest.approx(size**3 * (n1 - n2) / (n1 * n2) * gamma_beta, **EXACT)
    corrected = (size / n2 - size / n1) * bb - (k2 - k1) * bb_apart
    assert result.lambda_ == pytest.approx(corrected, **EXACT)
    printed = (size / n1 - size / n2) * bb - (k2 - k1) * bb_apart
    assert result.printed_lambda == pytest.approx(printed, **EXACT)
    as_printed = 2 * (1 - size / n2) * ab + 4 * k2 * np.triu(alpha @ beta.T, 1).sum()
    assert abs(result.C - as_printed) > 0.1  # 4 sum_{i<j} is not 2 sum_{i != j} here


def test_printed_lambda_has_no_definite_sign():
    beta = gradients(6)[1]
    centred, moved = beta - beta.mean(0), beta - beta.mean(0) + 10
    settings = {"batch_size": 2, "anchor_size": 4}
    assert figures(beta, centred, **settings).printed_lambda > 0
    assert figures(beta, moved, **settings).printed_lambda < 0
    assert figures(beta, moved, **settings).lambda_ == pytest.approx(
        figures(beta, centred, **settings).lambda_
    )


values = array_strategies.arrays(np.float64, (2, 6, DIMENSION), elements=st.floats(-100, 100))


@given(values, st.integers(1, 6), st.integers(1, 6), st.sampled_from(SEPARATE))
def test_identities_for_any_gradients(rows, n1, n2, order):
    alpha, beta = rows
    result = figures(alpha, beta, batch_size=n2, anchor_size=n1, order=order, anchor_order=order)
    close = {"rel": 1e-10, "abs": 1e-8}
    assert result.gamma >= 0
    parts = [result.A, result.B, result.C]
    assert sum(parts) == pytest.approx(result.practical, **close)
    assert sum(parts[1:]) == pytest.approx(result.rest - result.lambda_, **close)
    if order == "without_replacement":
        assert result.lambda_ * (n1 - n2) >= 0
        if n1 < n2 and result.S2.beta > 0:
            assert result.lambda_ < 0
    same = figures(alpha, alpha, batch_size=n2, anchor_size=n1)
    assert same.svrg == same.rest == 0.0  # at the anchor
    assert sum([same.B, same.C]) == pytest.approx(-same.lambda_, **close)


@pytest.mark.parametrize("order", [*SEPARATE, *SWEEPS])
def test_noise_falls_with_the_anchor(order):
    alpha, beta = gradients(6)
    result = [
        figures(alpha, beta, batch_size=2, anchor_size=n1, anchor_order=order) for n1 in range(1, 7)
    ]
    assert np.all(np.diff([each.practical for each in result]) < 0)
    assert np.all(np.diff([each.lambda_ for each in result]) > 0)
    assert result[-1].practical == result[-1].svrg  # the anchor sees all data, whatever its order


def sweeps(order, size, count, rows):
    """The errors of the steps of one sweep, for each permutation: [permutations, steps, d]."""
    permutations = np.array(list(itertools.permutations(range(size))))
    length = size // count
    blocks = permutations[:, : length * count].reshape(len(permutations), length, count)
    if order == "symmetric":
        blocks = np.concatenate([blocks, blocks[:, ::-1]], 1)
    return size / count * rows[blocks].sum(2) - rows.sum(0)


def pair_sweeps(first):
    """Two sweeps, one after the other, all pairs of them: [pairs, 2 steps, d]."""
    shape = (len(first), len(first), *first.shape[1:])
    pair = np.broadcast_to(first[:, None], shape), np.broadcast_to(first[None], shape)
    return np.concatenate(pair, 2).reshape(-1, 2 * first.shape[1], first.shape[2])


def sum_over_lags(two_periods):
    """sum_k mean_l E[e_l . e_(l+k)], l in the first of two periods; no dependence beyond them."""
    steps = two_periods.shape[1] // 2
    products = np.einsum("pld,pkd->lk", two_periods, two_periods) / len(two_periods)
    ahead = [np.mean([products[l, l + k] for l in range(steps)]) for k in range(1, steps + 1)]
    assert ahead[-1] == pytest.approx(0, abs=1e-10)  # a whole period later all is new
    return np.mean(np.diag(products)[:steps]) + 2 * sum(ahead)


@pytest.mark.parametrize("order", SWEEPS)
@pytest.mark.parametrize("size", [4, 5])
def test_sweeps_at_zero_frequency(order, size):
    alpha, beta = gradients(size)
    for count in range(1, size + 1):
        result = figures(alpha, beta, batch_size=count, order=order).zero_frequency
        for rows, figure in ((alpha, result.minibatch), (alpha - beta, result.svrg)):
            expected = sum_over_lags(pair_sweeps(sweeps(order, size, count, rows)))
            assert figure == pytest.approx(expected, **EXACT)
            assert (size % count > 0) or figure == 0


@pytest.mark.parametrize("order", SWEEPS)
def test_sweeps_of_six(order):
    """Sweeps are independent, so what one of them adds up to is all there is."""
    alpha, beta = gradients(6)
    for count in range(1, 7):
        errors = sweeps(order, 6, count, alpha)
        expected = mean_square(errors.sum(1)) / errors.shape[1]
        result = figures(alpha, beta, batch_size=count, order=order)
        assert result.zero_frequency.minibatch == pytest.approx(expected, **EXACT)
        assert result.minibatch == pytest.approx(mean_square(errors), **EXACT)


@pytest.mark.parametrize("anchor_order", ["without_replacement", *SWEEPS])
@pytest.mark.parametrize(("n1", "m"), [(1, 3), (2, 2), (3, 2)])
def test_the_anchor_is_held(anchor_order, n1, m):
    """All the anchors of two periods, each used for m steps."""
    alpha, beta = gradients(4)
    period = ((weights(anchor_order, 4, n1) - 1) @ beta)[:, None]
    if anchor_order in SWEEPS:
        period = sweeps(anchor_order, 4, n1, beta)
    anchor_part = sum_over_lags(np.repeat(pair_sweeps(period), m, axis=1))
    settings = {"batch_size": 1, "anchor_size": n1, "period": m, "anchor_order": anchor_order}
    result = figures(alpha, beta, **settings)
    expected = anchor_part + mean_square(
        (weights("without_replacement", 4, 1) - 1) @ (alpha - beta)
    )
    assert result.zero_frequency.practical == pytest.approx(expected, **EXACT)
    once = figures(alpha, beta, **settings | {"period": 1}).zero_frequency
    assert result.zero_frequency.practical - once.svrg == pytest.approx(
        m * (once.practical - once.svrg), **EXACT
    )


def test_anchors_and_minibatches_together():
    """All pairs of anchors and all minibatches of two cycles of two steps, N = 3, n1 = 2, n2 = 1."""
    alpha, beta = gradients(3)
    anchors = (weights("without_replacement", 3, 2) - 1) @ beta
    steps = (weights("with_replacement", 3, 1) - 1) @ (alpha - beta)
    errors = np.array(
        [
            [
                anchors[i] + steps[j],
                anchors[i] + steps[k],
                anchors[o] + steps[p],
                anchors[o] + steps[q],
            ]
            for i, o, j, k, p, q in itertools.product(range(3), repeat=6)
        ]
    )
    result = figures(alpha, beta, batch_size=1, anchor_size=2, period=2, order="with_replacement")
    assert result.zero_frequency.practical == pytest.approx(sum_over_lags(errors), **EXACT)
    assert result.practical == pytest.approx(mean_square(errors), **EXACT)


def test_factors_of_independent_draws_are_the_same_at_all_frequencies():
    for order in SEPARATE:
        assert all_lags(order, 10, 3) == one_step(order, 10, 3)
    assert one_step("without_replacement", 10, 3) == pytest.approx(10 * 7 / 3)
    assert one_step("with_replacement", 10, 3) == pytest.approx(10 * 9 / 3)


@pytest.mark.parametrize("order", SWEEPS)
def test_what_the_samplers_draw(order):
    """The samplers' own sweeps, N = 7, n = 3: the sum of a sweep's errors over 4,000 keys."""
    size, count = 7, 3
    rows = np.random.default_rng(5).normal(size=size)
    steps = jnp.arange(size // count * (2 if order == "symmetric" else 1))

    @jax.jit
    def sweep(seed):
        root = jax.random.key(seed)
        return jax.vmap(lambda l: draw(order, root, l, size, count))(steps)

    index = np.asarray(jax.vmap(sweep)(jnp.arange(4000)))  # [keys, steps, n]
    sums = (size / count * rows[index].sum(2) - rows.sum()).sum(1)
    squares = sums**2 / len(steps)
    expected = all_lags(order, size, count) * rows.var(ddof=1)
    assert abs(squares.mean() - expected) < 4 * squares.std() / np.sqrt(len(squares))


@pytest.mark.parametrize("estimator", ["minibatch", "practical", "svrg"])
def test_the_estimators_themselves(estimator):
    """All that `vr.kernel` can estimate at N = 5 with n1 = 3, n2 = 2, around the full gradient."""
    size, n1, n2 = 5, 3, 2
    alpha, beta = gradients(size)
    data = jax.tree.map(jnp.asarray, make_data(alpha, beta))
    descriptions = {
        "minibatch": vr.minibatch(),
        "practical": vr.practical(n1, 4),
        "svrg": vr.svrg(),
    }
    kernel = vr.kernel(POSTERIOR, descriptions[estimator], vr.sgld(), size=size, batch_size=n2)
    count = n1 if estimator == "practical" else size
    anchors = np.array(list(itertools.combinations(range(size), count)))
    batches = np.array(list(itertools.combinations(range(size), n2)))

    def take(index):
        return vr.Batch(index, jax.tree.map(lambda leaf: leaf[index], data))

    def estimate(anchor, batch):
        state = kernel.init(jax.random.key(0), jax.tree.map(jnp.asarray, ANCHOR))
        state = kernel.refresh(jax.random.key(1), state, take(anchor))
        state = state._replace(position=jax.tree.map(jnp.asarray, POINT))
        gradient = kernel.step(jax.random.key(2), state, take(batch), 0.1)[1].gradient
        return jnp.concatenate([gradient["bias"][None], gradient["weight"]])

    every = jax.jit(jax.vmap(jax.vmap(estimate, (None, 0)), (0, None)))(anchors, batches)
    result = figures(alpha, beta, batch_size=n2, anchor_size=n1)
    errors = np.asarray(every) - alpha.sum(0)  # the prior's gradient is 0 at the point
    assert errors.mean((0, 1)) == pytest.approx(0, abs=1e-12)
    assert getattr(result, estimator) == pytest.approx(mean_square(errors), **EXACT)


def make_mean_difference():
    """|E(alpha - beta)| m steps after a refresh. On the linear model gradients are linear in x, and
    the mean of x moves with the full gradient and without injected noise, for all estimators."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(20, 3))
    data = (jnp.asarray(x), jnp.asarray(x @ [1.0, -1.0, 0.5] + rng.normal(size=20)))
    posterior = vr.models.linear.posterior()
    kernel = vr.kernel(posterior, vr.full(), vr.sgld(temperature=0.0), size=20)
    everything = vr.Batch(jnp.arange(20), data)

    rows = jax.vmap(jax.grad(posterior.loglik), (None, 0))

    @jax.jit
    def difference(step_size, m):
        def step(_, state):
            return kernel.step(jax.random.key(1), state, everything, step_size)[0]

        start = kernel.init(jax.random.key(0), jnp.full(3, 2.0))  # off the mode
        anchor = jax.lax.fori_loop(0, 5, step, start)
        here = jax.lax.fori_loop(0, m, step, anchor)
        return jnp.linalg.norm(rows(here.position, data) - rows(anchor.position, data))

    return difference


def slope(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def test_lemma_3_the_mean_difference_grows_like_m_h():
    mean_difference = make_mean_difference()
    steps = 1e-6 * 2.0 ** np.arange(5)
    lags = [1, 2, 5, 10, 20]
    in_h = slope(10 * steps, [mean_difference(h, 10) for h in steps])
    in_m = slope(1e-6 * np.array(lags), [mean_difference(1e-6, m) for m in lags])
    assert in_h == pytest.approx(1, abs=0.05)
    assert in_m == pytest.approx(1, abs=0.05)
    ratio = [mean_difference(h, m) / (m * h) for h, m in ((1e-6, 10), (1e-7, 100), (1e-5, 1))]
    assert np.ptp(ratio) < 0.01 * ratio[0]  # only m h matters
