"""The noise of the estimators: every formula against the enumeration of all that can be drawn.

The model has whatever per-datum gradients a test wants: loglik(x, (c, q)) = c . x + q . x^2 / 2 has
the gradient c at x = 0, which is the point, and c + q at x = 1, which is the anchor.
"""

import itertools
import re

import hypothesis.extra.numpy as drawn_arrays
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vrsgmcmc as vr
from vrsgmcmc.core.order import draw
from vrsgmcmc.theory.noise import _rows, all_lags, noise, one_step

SEPARATE = ("with_replacement", "without_replacement")
SWEEPS = ("shuffled", "symmetric")
EXACT = {"rel": 1e-10, "abs": 1e-10}
DIMENSION = 3


def logprior(x):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))


def loglik(x, datum):
    slope, curvature = datum
    terms = jax.tree.map(lambda x, c, q: jnp.sum(c * x + q * x * x / 2), x, slope, curvature)
    return sum(jax.tree.leaves(terms))


POSTERIOR = vr.Posterior(logprior, loglik)


def as_tree(rows):
    """Vectors of length 3 as parameters with two leaves."""
    return {"bias": rows[..., 0], "weight": rows[..., 1:]}


POINT, ANCHOR = as_tree(np.zeros(DIMENSION)), as_tree(np.ones(DIMENSION))
BLOCKS = {"bias": slice(0, 1), "weight": slice(1, 3)}


def make_data(alpha, beta):
    return as_tree(alpha), as_tree(beta - alpha)


def gradients(size, seed=0):
    """alpha and beta [N, 3], far from each other, with means that are not 0."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, size, DIMENSION)) * [1.0, 2.0, 0.5] + rng.normal(
        size=(2, 1, DIMENSION)
    )


def figures(alpha, beta, **settings):
    return noise(POSTERIOR, make_data(alpha, beta), POINT, ANCHOR, **settings)


def weights(order, size, count):
    """N/n times how often each datum is drawn, in all equally likely draws: [draws, N]."""
    ways = itertools.product(range(size), repeat=count)
    if order != "with_replacement":
        ways = itertools.combinations(range(size), count)
    index = np.array(list(ways))
    return size / count * (index[:, :, None] == np.arange(size)).sum(1)


def mean_square(errors):
    return np.mean(np.sum(errors**2, -1))


# ---------------------------------------------------------------- one step


@pytest.mark.parametrize("order", SEPARATE)
@pytest.mark.parametrize("anchor_order", SEPARATE)
@pytest.mark.parametrize(("n1", "n2"), [(4, 2), (5, 1), (2, 3), (3, 3)])
def test_all_minibatches_and_anchors(order, anchor_order, n1, n2):
    alpha, beta = gradients(6)
    found = figures(
        alpha, beta, batch_size=n2, anchor_size=n1, order=order, anchor_order=anchor_order
    )
    w, b = weights(order, 6, n2), weights(anchor_order, 6, n1)
    for name, block in {None: slice(None), **BLOCKS}.items():
        here, there = alpha[:, block], beta[:, block]
        figure = found if name is None else found.blocks[name]
        held = (b - 1) @ there  # [anchors, d]
        corrections = (w - 1) @ (here - there)  # [minibatches, d]
        assert figure.minibatch == pytest.approx(mean_square((w - 1) @ here), **EXACT)
        assert figure.svrg == pytest.approx(mean_square(corrections), **EXACT)
        expected = mean_square(held[:, None] + corrections)
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
    found = figures(alpha, beta, batch_size=n2, anchor_size=n1)

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
    assert found.gamma == pytest.approx(aa / size**2 - aa_apart / (size * (size - 1)), **EXACT)
    parts = [
        (size / n2 - 1) * aa - k2 * aa_apart,
        (size / n2 + size / n1 - 2) * bb - (k2 + k1) * bb_apart,
        2 * (1 - size / n2) * ab + 2 * k2 * ab_apart,
    ]
    named = [found.A, found.B, found.C]
    assert named == pytest.approx(parts, **EXACT)
    assert found.lambda_ == pytest.approx(size**3 * (n1 - n2) / (n1 * n2) * gamma_beta, **EXACT)
    corrected = (size / n2 - size / n1) * bb - (k2 - k1) * bb_apart
    assert found.lambda_ == pytest.approx(corrected, **EXACT)
    printed = (size / n1 - size / n2) * bb - (k2 - k1) * bb_apart
    assert found.printed_lambda == pytest.approx(printed, **EXACT)
    as_printed = 2 * (1 - size / n2) * ab + 4 * k2 * np.triu(alpha @ beta.T, 1).sum()
    assert abs(found.C - as_printed) > 0.1  # 4 sum_{i<j} is not 2 sum_{i != j} here


def test_printed_lambda_has_no_definite_sign():
    beta = gradients(6)[1]
    centred, moved = beta - beta.mean(0), beta - beta.mean(0) + 10
    settings = {"batch_size": 2, "anchor_size": 4}
    assert figures(beta, centred, **settings).printed_lambda > 0
    assert figures(beta, moved, **settings).printed_lambda < 0
    assert figures(beta, moved, **settings).lambda_ == pytest.approx(
        figures(beta, centred, **settings).lambda_
    )


values = drawn_arrays.arrays(np.float64, (2, 6, DIMENSION), elements=st.floats(-100, 100))


@given(values, st.integers(1, 6), st.integers(1, 6), st.sampled_from(SEPARATE))
def test_identities_for_any_gradients(rows, n1, n2, order):
    alpha, beta = rows
    found = figures(alpha, beta, batch_size=n2, anchor_size=n1, order=order, anchor_order=order)
    close = {"rel": 1e-10, "abs": 1e-8}
    assert found.gamma >= 0
    parts = [found.A, found.B, found.C]
    assert sum(parts) == pytest.approx(found.practical, **close)
    assert sum(parts[1:]) == pytest.approx(found.rest - found.lambda_, **close)
    if order == "without_replacement":
        assert found.lambda_ * (n1 - n2) >= 0
        if n1 < n2 and found.S2.beta > 0:
            assert found.lambda_ < 0
    same = figures(alpha, alpha, batch_size=n2, anchor_size=n1)
    assert same.svrg == same.rest == 0.0  # at the anchor
    assert sum([same.B, same.C]) == pytest.approx(-same.lambda_, **close)


@pytest.mark.parametrize("order", [*SEPARATE, *SWEEPS])
def test_noise_falls_with_the_anchor(order):
    alpha, beta = gradients(6)
    found = [
        figures(alpha, beta, batch_size=2, anchor_size=n1, anchor_order=order) for n1 in range(1, 7)
    ]
    assert np.all(np.diff([each.practical for each in found]) < 0)
    assert np.all(np.diff([each.lambda_ for each in found]) > 0)
    assert found[-1].practical == found[-1].svrg  # the anchor sees all data, whatever its order


# ---------------------------------------------------------------- zero frequency


def sweeps(order, size, count, rows):
    """The errors of the steps of one sweep, for each permutation: [permutations, steps, d]."""
    permutations = np.array(list(itertools.permutations(range(size))))
    length = size // count
    blocks = permutations[:, : length * count].reshape(len(permutations), length, count)
    if order == "symmetric":
        blocks = np.concatenate([blocks, blocks[:, ::-1]], 1)
    return size / count * rows[blocks].sum(2) - rows.sum(0)


def followed(first):
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
        found = figures(alpha, beta, batch_size=count, order=order).zero_frequency
        for rows, figure in ((alpha, found.minibatch), (alpha - beta, found.svrg)):
            expected = sum_over_lags(followed(sweeps(order, size, count, rows)))
            assert figure == pytest.approx(expected, **EXACT)
            assert (size % count > 0) or figure == 0


@pytest.mark.parametrize("order", SWEEPS)
def test_sweeps_of_six(order):
    """Sweeps are independent, so what one of them adds up to is all there is."""
    alpha, beta = gradients(6)
    for count in range(1, 7):
        errors = sweeps(order, 6, count, alpha)
        expected = mean_square(errors.sum(1)) / errors.shape[1]
        found = figures(alpha, beta, batch_size=count, order=order)
        assert found.zero_frequency.minibatch == pytest.approx(expected, **EXACT)
        assert found.minibatch == pytest.approx(mean_square(errors), **EXACT)


@pytest.mark.parametrize("anchor_order", ["without_replacement", *SWEEPS])
@pytest.mark.parametrize(("n1", "m"), [(1, 3), (2, 2), (3, 2)])
def test_the_anchor_is_held(anchor_order, n1, m):
    """All the anchors of two periods, each held for m steps."""
    alpha, beta = gradients(4)
    period = ((weights(anchor_order, 4, n1) - 1) @ beta)[:, None]
    if anchor_order in SWEEPS:
        period = sweeps(anchor_order, 4, n1, beta)
    held = sum_over_lags(np.repeat(followed(period), m, axis=1))
    settings = {"batch_size": 1, "anchor_size": n1, "period": m, "anchor_order": anchor_order}
    found = figures(alpha, beta, **settings)
    expected = held + mean_square((weights("without_replacement", 4, 1) - 1) @ (alpha - beta))
    assert found.zero_frequency.practical == pytest.approx(expected, **EXACT)
    once = figures(alpha, beta, **settings | {"period": 1}).zero_frequency
    assert found.zero_frequency.practical - once.svrg == pytest.approx(
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
    found = figures(alpha, beta, batch_size=1, anchor_size=2, period=2, order="with_replacement")
    assert found.zero_frequency.practical == pytest.approx(sum_over_lags(errors), **EXACT)
    assert found.practical == pytest.approx(mean_square(errors), **EXACT)


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


# ---------------------------------------------------------------- the real estimators, real data


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
    found = figures(alpha, beta, batch_size=n2, anchor_size=n1)
    errors = np.asarray(every) - alpha.sum(0)  # the prior's gradient is 0 at the point
    assert errors.mean((0, 1)) == pytest.approx(0, abs=1e-12)
    assert getattr(found, estimator) == pytest.approx(mean_square(errors), **EXACT)


def pima():
    x, y = vr.datasets.pima()
    (x,) = vr.datasets.standardise(x)
    return vr.datasets.with_intercept(x), y


def logistic_rows(x, y, w):
    return (y - 1 / (1 + np.exp(-x @ w)))[:, None] * x


@pytest.mark.parametrize("x64", [True, False])
def test_pima_in_parts_and_at_once(x64):
    """768 rows in six parts (and, less one row, in parts that overlap) against dense NumPy."""
    rng = np.random.default_rng(2)
    for drop in (0, 1):
        x, y = (leaf[drop:] for leaf in pima())
        here = rng.normal(size=9) * 0.5
        there = here + rng.normal(size=9) * 0.05
        with jax.enable_x64(x64):
            found = noise(
                vr.models.logistic.posterior(),
                (x, y),
                here,
                there,
                batch_size=10,
                anchor_size=100,
                period=10,
            )
        alpha, beta = logistic_rows(x, y, here), logistic_rows(x, y, there)
        spread = [np.var(rows, axis=0, ddof=1).sum() for rows in (alpha, beta, alpha - beta)]
        close = {"rel": 1e-10 if x64 else 1e-5}
        assert [*found.S2] == pytest.approx(spread, **close)
        size = len(y)
        step, anchor = size * (size - 10) / 10, size * (size - 100) / 100
        assert found.minibatch == pytest.approx(step * spread[0], **close)
        assert found.practical == pytest.approx(step * spread[2] + anchor * spread[1], **close)
        assert found.svrg == pytest.approx(step * spread[2], **close)
        assert found.zero_frequency.practical == pytest.approx(
            step * spread[2] + 10 * anchor * spread[1], **close
        )
        assert found.standard_error == jax.tree.map(lambda _: 0.0, found.standard_error)


def test_the_spread_survives_a_large_mean_in_float32():
    """A mean 10,000 times the spread: a one-pass sum of squares would have no digit left."""
    alpha = 1e4 + np.random.default_rng(0).normal(size=(5000, DIMENSION)).astype(np.float32)
    alpha = alpha.astype(np.float32).astype(float)
    with jax.enable_x64(False):
        found = figures(alpha, alpha, batch_size=1)
    assert found.S2.alpha == pytest.approx(np.var(alpha, axis=0, ddof=1).sum(), rel=1e-3)


def test_blocks_add_up():
    alpha, beta = gradients(40)
    found = figures(alpha, beta, batch_size=3, anchor_size=10, period=5, subsample=20, key=1)
    assert list(found.blocks) == ["bias", "weight"]
    parts = [jax.tree.leaves(found.blocks[name]._replace(standard_error=None)) for name in BLOCKS]
    total = jax.tree.leaves(found._replace(standard_error=None, blocks=None))
    assert np.sum(parts, 0) == pytest.approx(np.array(total))
    assert noise(POSTERIOR, make_data(alpha, beta), POINT, batch_size=3).blocks["bias"].svrg is None


def test_any_pytree():
    def loglik(x, datum):
        return jnp.sin(x[0]) * datum["y"] + jnp.sum(jnp.tanh(x[1][0] * datum["z"]))

    rng = np.random.default_rng(0)
    data = {"y": rng.normal(size=50), "z": rng.normal(size=(50, 2, 3))}
    found = noise(
        vr.Posterior(lambda x: 0.0 * x[0], loglik), data, (0.3, [np.ones((2, 3))]), batch_size=5
    )
    first = np.cos(0.3) * data["y"]
    second = (1 - np.tanh(data["z"]) ** 2) * data["z"]
    assert list(found.blocks) == ["0", "1.0"]
    assert found.blocks["0"].gamma == pytest.approx(np.var(first, ddof=1) / 50)
    assert found.blocks["1.0"].gamma == pytest.approx(np.var(second, axis=0, ddof=1).sum() / 50)


def test_whole_numbers_are_fine_parameters():
    data, posterior = np.array([1.0, 4.0, 2.0]), vr.models.gaussian.posterior()
    found = [noise(posterior, data, x, batch_size=1) for x in (1, 1.0, np.ones(()))]
    assert found[0] == found[1] == found[2]
    assert found[0].S2.alpha == pytest.approx(np.var(data, ddof=1))


# ---------------------------------------------------------------- subsamples


def values_and_errors(found):
    """Every figure, in total and of the blocks, with its standard error."""
    every = {"total": found._replace(blocks=None), **found.blocks}
    values = {name: figures._replace(standard_error=None) for name, figures in every.items()}
    return values, {name: figures.standard_error for name, figures in every.items()}


def test_an_estimate_is_unbiased_and_knows_its_error():
    """600 subsamples of 60 out of 240: means equal the exact figures, errors the standard errors."""
    rng = np.random.default_rng(8)
    alpha = rng.normal(size=(240, DIMENSION)) * [1.0, 2.0, 0.5] + [1.0, -1.0, 0.5]
    alpha[:, 0] += rng.exponential(size=240)
    beta = 1.2 * alpha + 0.3 * rng.normal(size=alpha.shape)
    settings = {"batch_size": 5, "anchor_size": 50, "period": 7, "anchor_order": "shuffled"}
    exact, zeros = values_and_errors(figures(alpha, beta, **settings))
    assert not any(jax.tree.leaves(zeros))
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(exact)]
    estimates, errors = np.array(
        [
            [jax.tree.leaves(each) for each in values_and_errors(estimate)]
            for seed in range(600)
            for estimate in [figures(alpha, beta, subsample=60, key=seed, **settings)]
        ]
    ).transpose(1, 0, 2)
    apart = estimates - np.array(jax.tree.leaves(exact))
    z = apart.mean(0) / apart.std(0) * np.sqrt(len(apart))
    ratio = (errors**2).mean(0) / (apart**2).mean(0)
    told = dict(zip(names, np.stack([z, ratio], 1).round(2).tolist(), strict=True))
    most = np.array([1.3 if "printed" in name else 1.15 for name in names])  # on the large side
    assert np.all(abs(z) < 4), told
    assert np.all((ratio > 0.85) & (ratio < most)), told


def test_the_formulas_of_a_subsample():
    """Seven data, four of them seen. Which four, the spread tells; their figures by hand."""
    alpha, beta = gradients(7)
    settings = {"batch_size": 2, "anchor_size": 3}
    found = figures(alpha, beta, subsample=4, key=0, **settings)
    subsets = [list(subset) for subset in itertools.combinations(range(7), 4)]

    def spread(rows):
        return np.var(rows, axis=0, ddof=1).sum()

    def printed(rows):  # unbiased: proved by the mean over all subsets
        mean_square = np.sum(rows.mean(0) ** 2) - (1 / 4 - 1 / 7) * spread(rows)
        return 7**2 * (3 - 2) / (3 * 2) * (spread(rows) - 2 * 7 * mean_square)

    exact = figures(alpha, beta, **settings)
    assert np.mean([spread(alpha[i]) for i in subsets]) == pytest.approx(exact.S2.alpha, **EXACT)
    every = [printed(beta[i]) for i in subsets]
    assert np.mean(every) == pytest.approx(exact.printed_lambda, **EXACT)

    (seen,) = [i for i in subsets if spread(alpha[i]) == pytest.approx(found.S2.alpha, rel=1e-12)]
    assert found.printed_lambda == pytest.approx(printed(beta[seen]), **EXACT)

    def practical(rows):
        f1, f2 = 7 * (7 - 3) / 3, 7 * (7 - 2) / 2
        return f2 * spread(alpha[rows] - beta[rows]) + f1 * spread(beta[rows])

    assert found.practical == pytest.approx(practical(seen), **EXACT)
    without_one = [practical(np.delete(seen, i)) for i in range(4)]
    jackknife = 3 / 4 * np.sum((without_one - np.mean(without_one)) ** 2)
    expected = np.sqrt(jackknife * (4 - 2) / (4 - 1) * (1 - 4 / 7))
    assert found.standard_error.practical == pytest.approx(expected, **EXACT)


def test_a_subsample_of_all_data_is_exact():
    alpha, beta = gradients(30)
    settings = {"batch_size": 3, "anchor_size": 9}
    exact, found = (
        figures(alpha, beta, **settings, **more) for more in ({}, {"subsample": 30, "key": 0})
    )
    assert jax.tree.leaves(found) == pytest.approx(jax.tree.leaves(exact), rel=1e-12)
    assert max(jax.tree.leaves(found.standard_error)) == 0


def test_seeds_and_keys_are_the_same():
    alpha, beta = gradients(30)
    settings = {"batch_size": 3, "subsample": 10}
    assert figures(alpha, beta, key=4, **settings) == figures(
        alpha, beta, key=jax.random.key(4), **settings
    )
    assert figures(alpha, beta, key=4, **settings) != figures(alpha, beta, key=5, **settings)


# ---------------------------------------------------------------- augmentation, compilation


def stretch(key, item):
    words = jax.random.key_data(key).astype(float) / 2**32
    return jax.tree.map(lambda leaf: leaf * words[0], item)


@pytest.mark.parametrize("subsample", [None, 12])
def test_alpha_and_beta_share_one_lock(subsample):
    """Datum i is stretched by the key fold_in(lock, i), at the point and at the anchor alike."""
    alpha, beta = gradients(12)
    posterior = vr.Posterior(logprior, loglik, stretch)
    settings = {"batch_size": 2, "subsample": subsample}
    found = noise(posterior, make_data(alpha, beta), POINT, ANCHOR, key=3, **settings)
    lock = jax.random.key(3)
    words = [jax.random.key_data(jax.random.fold_in(lock, i)) for i in range(12)]
    factor = np.array([float(word[0]) / 2**32 for word in words])[:, None]
    plain = figures(factor * alpha, factor * beta, batch_size=2)
    assert [*found.S2] == pytest.approx([*plain.S2], rel=1e-12)
    same = noise(posterior, make_data(alpha, alpha), POINT, ANCHOR, key=3, **settings)
    assert same.svrg == 0


def test_equal_shapes_compile_once():
    calls = []

    def counted(x, datum):
        calls.append(1)
        return loglik(x, datum)

    posterior = vr.Posterior(logprior, counted)

    def run(seed, **settings):
        rows = gradients(20, seed)
        anchor = as_tree(np.full(DIMENSION, 1.0 + seed))
        return noise(posterior, make_data(*rows), POINT, anchor, **settings)

    run(0, batch_size=2)
    once = len(calls)
    run(1, batch_size=3, anchor_size=5, period=4, order="shuffled")
    run(2, batch_size=4, anchor_size=6, anchor_order="symmetric")
    assert len(calls) == once > 0
    run(3, batch_size=2, subsample=8, key=0)
    more = len(calls)
    run(4, batch_size=3, subsample=8, key=jax.random.key(1))
    assert len(calls) == more > once


@pytest.mark.parametrize(("width", "rows"), [(2**20, 2), (2**22, 1)])
def test_many_parameters_are_differentiated_a_few_data_at_a_time(width, rows):
    """A part of gradients takes 24 MB at most, or one row: no array of all eight rows is made."""

    def loglik(x, datum):
        return jnp.sum(x) * datum  # its own values are few

    point = jax.ShapeDtypeStruct((width,), jnp.float64)
    data = vr.Batch(jnp.arange(8), jnp.ones(8))
    program = _rows.lower(vr.Posterior(jnp.sum, loglik), point, None, data, jax.random.key(0))
    found = {int(count) for count in re.findall(rf"tensor<(\d+)x{width}xf64>", program.as_text())}
    assert max(found) == rows


# ---------------------------------------------------------------- what is missing, what is wrong


def test_what_is_not_asked_is_none():
    data = make_data(*gradients(6))
    bare = noise(POSTERIOR, data, POINT, batch_size=2)
    assert bare.minibatch == bare.A > 0
    anchored = ("practical", "svrg", "B", "C", "lambda_", "rest", "printed_lambda")
    assert all(getattr(bare, name) is None for name in anchored)
    assert bare.S2[1:] == bare.zero_frequency[1:] == (None, None)
    anchored = noise(POSTERIOR, data, POINT, ANCHOR, batch_size=2)
    assert anchored.svrg > 0
    assert anchored.practical is anchored.B is anchored.lambda_ is None
    drawn = noise(POSTERIOR, data, POINT, ANCHOR, batch_size=2, anchor_size=3)
    assert drawn.practical > 0
    assert drawn.zero_frequency.practical is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": None}, "noise(batch_size=None): batch_size must be a whole number, at"),
        (
            {"batch_size": 7},
            "noise(batch_size=7): batch_size must be at most 6, the number of data.",
        ),
        ({"batch_size": 0}, "noise(batch_size=0): batch_size must be a whole number, at least 1."),
        ({"batch_size": 2.0}, "noise(batch_size=2.0): batch_size must be a whole number"),
        ({"batch_size": True}, "noise(batch_size=True): batch_size must be a whole number"),
        ({"anchor_size": 9}, "noise(anchor_size=9): anchor_size must be at most 6"),
        ({"period": 0}, "noise(period=0): period must be a whole number, at least 1."),
        ({"period": 3}, "noise(period=3) needs anchor and anchor_size: pass them."),
        ({"anchor": None, "anchor_size": 3}, "noise(anchor_size=3) needs an anchor: pass it"),
        (
            {"subsample": 2, "key": 0},
            "noise(subsample=2): subsample must be a whole number, at least 3.",
        ),
        ({"subsample": 4}, "noise: subsample and augment need a key. Pass key=jax.random.key(0)."),
        ({"order": "shufled"}, "noise(order='shufled'): order must be one of with_replacement, "),
        ({"anchor_order": "all"}, "noise(anchor_order='all'): anchor_order must be one of"),
        ({"anchor": np.ones(3)}, "noise: anchor must be like params, {'bias': (), 'weight': (2,)}"),
        (
            {"data": (np.ones(3), np.ones(2))},
            "leaves of equal length, at least 2; got {'0': 3, '1'",
        ),
        (
            {"data": np.ones(1)},
            "noise: data needs leaves of equal length, at least 2; got {'x': 1}",
        ),
        (
            {"params": as_tree(np.full(3, np.nan))},
            "noise: gradients of loglik are not finite here.",
        ),
    ],
)
def test_bad_arguments(settings, message):
    arguments = {
        "posterior": POSTERIOR,
        "data": make_data(*gradients(6)),
        "params": POINT,
        "anchor": ANCHOR,
        "batch_size": 2,
    }
    with pytest.raises(ValueError, match=re.escape(message)):
        noise(**arguments | settings)


def test_bad_kinds():
    data = make_data(*gradients(6))
    with pytest.raises(TypeError, match=r"posterior must be a vr\.Posterior, got <function"):
        noise(loglik, data, POINT, batch_size=2)
    with pytest.raises(TypeError, match=r"old-style uint32 key. Make it with jax\.random\.key"):
        noise(POSTERIOR, data, POINT, batch_size=2, subsample=3, key=jax.random.PRNGKey(0))
    with pytest.raises(TypeError, match="batch_size"):
        noise(POSTERIOR, data, POINT)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=re.escape("augment need a key")):
        noise(vr.Posterior(logprior, loglik, stretch), data, POINT, batch_size=2)
    with pytest.raises(ValueError, match="labels must be integers"):
        noise(
            vr.models.logistic.posterior(), (np.ones((6, 2)), np.ones(6)), np.zeros(2), batch_size=2
        )


# ---------------------------------------------------------------- Lemma 3


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
