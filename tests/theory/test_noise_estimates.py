"""The noise of the estimators on data: in parts, by blocks, from a subsample; and wrong arguments."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.linear_gradients import (
    ANCHOR,
    BLOCKS,
    DIMENSION,
    EXACT,
    POINT,
    POSTERIOR,
    as_tree,
    figures,
    gradients,
    loglik,
    logprior,
    make_data,
)

import vrsgmcmc as vr
from vrsgmcmc.theory.noise import _rows, noise


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
            result = noise(
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
        assert [*result.S2] == pytest.approx(spread, **close)
        size = len(y)
        step, anchor = size * (size - 10) / 10, size * (size - 100) / 100
        assert result.minibatch == pytest.approx(step * spread[0], **close)
        assert result.practical == pytest.approx(step * spread[2] + anchor * spread[1], **close)
        assert result.svrg == pytest.approx(step * spread[2], **close)
        assert result.zero_frequency.practical == pytest.approx(
            step * spread[2] + 10 * anchor * spread[1], **close
        )
        assert result.standard_error == jax.tree.map(lambda _: 0.0, result.standard_error)


def test_the_spread_survives_a_large_mean_in_float32():
    """A mean 10,000 times the spread: a one-pass sum of squares would have no digit left."""
    alpha = 1e4 + np.random.default_rng(0).normal(size=(5000, DIMENSION)).astype(np.float32)
    alpha = alpha.astype(np.float32).astype(float)
    with jax.enable_x64(False):
        result = figures(alpha, alpha, batch_size=1)
    assert result.S2.alpha == pytest.approx(np.var(alpha, axis=0, ddof=1).sum(), rel=1e-3)


def test_blocks_add_up():
    alpha, beta = gradients(40)
    result = figures(alpha, beta, batch_size=3, anchor_size=10, period=5, subsample=20, key=1)
    assert list(result.blocks) == ["bias", "weight"]
    parts = [jax.tree.leaves(result.blocks[name]._replace(standard_error=None)) for name in BLOCKS]
    total = jax.tree.leaves(result._replace(standard_error=None, blocks=None))
    assert np.sum(parts, 0) == pytest.approx(np.array(total))
    assert noise(POSTERIOR, make_data(alpha, beta), POINT, batch_size=3).blocks["bias"].svrg is None


def test_any_pytree():
    def loglik(x, datum):
        return jnp.sin(x[0]) * datum["y"] + jnp.sum(jnp.tanh(x[1][0] * datum["z"]))

    rng = np.random.default_rng(0)
    data = {"y": rng.normal(size=50), "z": rng.normal(size=(50, 2, 3))}
    result = noise(
        vr.Posterior(lambda x: 0.0 * x[0], loglik), data, (0.3, [np.ones((2, 3))]), batch_size=5
    )
    first = np.cos(0.3) * data["y"]
    second = (1 - np.tanh(data["z"]) ** 2) * data["z"]
    assert list(result.blocks) == ["0", "1.0"]
    assert result.blocks["0"].gamma == pytest.approx(np.var(first, ddof=1) / 50)
    assert result.blocks["1.0"].gamma == pytest.approx(np.var(second, axis=0, ddof=1).sum() / 50)


def test_whole_numbers_are_fine_parameters():
    data, posterior = np.array([1.0, 4.0, 2.0]), vr.models.gaussian.posterior()
    result = [noise(posterior, data, x, batch_size=1) for x in (1, 1.0, np.ones(()))]
    assert result[0] == result[1] == result[2]
    assert result[0].S2.alpha == pytest.approx(np.var(data, ddof=1))


def values_and_errors(result):
    """Every figure, in total and of the blocks, with its standard error."""
    every = {"total": result._replace(blocks=None), **result.blocks}
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
    report = dict(zip(names, np.stack([z, ratio], 1).round(2).tolist(), strict=True))
    most = np.array([1.3 if "printed" in name else 1.15 for name in names])  # on the large side
    assert np.all(abs(z) < 4), report
    assert np.all((ratio > 0.85) & (ratio < most)), report


def test_the_formulas_of_a_subsample():
    """Four of seven data. The spread tells which four; their figures by hand."""
    alpha, beta = gradients(7)
    settings = {"batch_size": 2, "anchor_size": 3}
    result = figures(alpha, beta, subsample=4, key=0, **settings)
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

    (subset,) = [
        i for i in subsets if spread(alpha[i]) == pytest.approx(result.S2.alpha, rel=1e-12)
    ]
    assert result.printed_lambda == pytest.approx(printed(beta[subset]), **EXACT)

    def practical(rows):
        f1, f2 = 7 * (7 - 3) / 3, 7 * (7 - 2) / 2
        return f2 * spread(alpha[rows] - beta[rows]) + f1 * spread(beta[rows])

    assert result.practical == pytest.approx(practical(subset), **EXACT)
    without_one = [practical(np.delete(subset, i)) for i in range(4)]
    jackknife = 3 / 4 * np.sum((without_one - np.mean(without_one)) ** 2)
    expected = np.sqrt(jackknife * (4 - 2) / (4 - 1) * (1 - 4 / 7))
    assert result.standard_error.practical == pytest.approx(expected, **EXACT)


def test_a_subsample_of_all_data_is_exact():
    alpha, beta = gradients(30)
    settings = {"batch_size": 3, "anchor_size": 9}
    exact, result = (
        figures(alpha, beta, **settings, **more) for more in ({}, {"subsample": 30, "key": 0})
    )
    assert jax.tree.leaves(result) == pytest.approx(jax.tree.leaves(exact), rel=1e-12)
    assert max(jax.tree.leaves(result.standard_error)) == 0


def test_seeds_and_keys_are_the_same():
    alpha, beta = gradients(30)
    settings = {"batch_size": 3, "subsample": 10}
    assert figures(alpha, beta, key=4, **settings) == figures(
        alpha, beta, key=jax.random.key(4), **settings
    )
    assert figures(alpha, beta, key=4, **settings) != figures(alpha, beta, key=5, **settings)


def stretch(key, item):
    words = jax.random.key_data(key).astype(float) / 2**32
    return jax.tree.map(lambda leaf: leaf * words[0], item)


@pytest.mark.parametrize("subsample", [None, 12])
def test_alpha_and_beta_share_one_lock(subsample):
    """Datum i is stretched by the key fold_in(lock, i), at the point and at the anchor alike."""
    alpha, beta = gradients(12)
    posterior = vr.Posterior(logprior, loglik, stretch)
    settings = {"batch_size": 2, "subsample": subsample}
    result = noise(posterior, make_data(alpha, beta), POINT, ANCHOR, key=3, **settings)
    lock = jax.random.key(3)
    words = [jax.random.key_data(jax.random.fold_in(lock, i)) for i in range(12)]
    factor = np.array([float(word[0]) / 2**32 for word in words])[:, None]
    plain = figures(factor * alpha, factor * beta, batch_size=2)
    assert [*result.S2] == pytest.approx([*plain.S2], rel=1e-12)
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
    """A part of gradients takes 24 MB at most, or one row: there is no array of all eight rows."""

    def loglik(x, datum):
        return jnp.sum(x) * datum  # its own values are few

    point = jax.ShapeDtypeStruct((width,), jnp.float64)
    data = vr.Batch(jnp.arange(8), jnp.ones(8))
    program = _rows.program(vr.Posterior(jnp.sum, loglik))
    program = program.lower(point, None, data, jax.random.key(0))
    result = {int(count) for count in re.findall(rf"tensor<(\d+)x{width}xf64>", program.as_text())}
    assert max(result) == rows


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
    full = noise(POSTERIOR, data, POINT, ANCHOR, batch_size=2, anchor_size=3)
    assert full.practical > 0
    assert full.zero_frequency.practical is None


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
