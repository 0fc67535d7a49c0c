"""Our sampler in BlackJAX's loop and our estimators in its kernels, against both libraries."""

from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.sgmcmc import gradients
from blackjax.util import generate_gaussian_noise, run_inference_algorithm

import vrsgmcmc as vr
from vrsgmcmc.core import all_rows, draw, fold, rows
from vrsgmcmc.interop.feed import ANCHOR, AUGMENT, BATCH, NOISE

N, COUNT, STEPS = 12, 3, 11
RNG = np.random.default_rng(0)
DATA = {"x": RNG.normal(size=(N, 2)), "y": RNG.integers(0, 2, N)}
START = {"bias": jnp.array(0.3), "weight": jnp.array([-0.2, 0.5])}
H = 0.01


def logprior(params):
    return -0.5 * (params["bias"] ** 2 + jnp.sum(params["weight"] ** 2))


def loglik(params, datum):
    logit = params["bias"] + datum["x"] @ params["weight"]
    return jax.nn.log_sigmoid(jnp.where(datum["y"] == 1, logit, -logit))


def jitter(key, item):
    return item | {"x": item["x"] + 0.1 * jax.random.normal(key, item["x"].shape)}


PLAIN = vr.Posterior(logprior, loglik)
AUGMENTED = vr.Posterior(logprior, loglik, jitter)


class Case(NamedTuple):
    estimator: vr.core.Estimator
    integrator: vr.core.Integrator
    posterior: vr.Posterior = PLAIN
    options: dict = {}  # noqa: RUF012


CASES = {
    "minibatch-sgld": Case(vr.minibatch(), vr.sgld(), AUGMENTED),
    "svrg-sghmc": Case(vr.svrg(), vr.sghmc(1.0), AUGMENTED),
    "practical-BAOAB": Case(vr.practical(5, 3, average=2), vr.splitting("BAOAB", 1.0)),
    "saga-sgnht": Case(vr.saga(), vr.sgnht(1.0), options={"clip": 0.3}),
    "control_variate-psgld": Case(vr.control_variate(), vr.psgld()),
    "full-sgld": Case(vr.full(), vr.sgld(), options={"metric": (np.zeros(3), np.full(3, 0.5))}),
}
QUICK = ("practical-BAOAB",)


def algorithm(case, step_size=H, data=DATA, **options):
    return vr.to_blackjax(
        case.posterior,
        data,
        case.estimator,
        case.integrator,
        step_size,
        COUNT,
        **case.options,
        **options,
    )


def by_kernel(case, init_key, step_keys, start=START, data=DATA):
    """The same chain by `vr.kernel`, with the keys that feed.py names."""
    kernel = vr.kernel(
        case.posterior, case.estimator, case.integrator, size=N, batch_size=COUNT, **case.options
    )
    data = jax.tree.map(jnp.asarray, data)
    state, positions = kernel.init(fold(init_key, NOISE), start), []
    if kernel.anchor_size and kernel.period is None:
        state = kernel.refresh(fold(init_key, AUGMENT), state, all_rows(data))

    @jax.jit
    def refresh(state, key):
        anchor = all_rows(data)
        if (size := kernel.anchor_size) < N:
            anchor = rows(data, draw("without_replacement", fold(key, ANCHOR), 0, N, size))
        return kernel.refresh(fold(key, AUGMENT), state, anchor)

    @jax.jit
    def step(state, key):
        batch = all_rows(data)
        if not kernel.estimator.uses_all_data:
            index = draw("without_replacement", fold(key, BATCH), state.step, N, COUNT)
            batch = rows(data, index)
        return kernel.step(fold(key, NOISE), state, batch, H)[0]

    for l, key in enumerate(step_keys):
        if kernel.period and l % kernel.period == 0:
            state = refresh(state, key)
        state = step(state, key)
        positions.append(state.position)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *positions)


def run(algorithm, key, start=START):
    return run_inference_algorithm(
        key, algorithm, STEPS, initial_position=start, transform=lambda state, info: state.position
    )[1]


def assert_same(one, other, tolerance=1e-12):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, tolerance, tolerance), one, other)


# --- the sampler as BlackJAX's -------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=n, marks=[pytest.mark.slow] * (n not in QUICK)) for n, c in CASES.items()],
)
def test_the_draws_are_those_of_the_kernel(case):
    """Two chains under vmap; the second one, step by step."""
    keys, sampler = jax.random.split(jax.random.key(7)), algorithm(case)
    draws = jax.vmap(lambda key: run(sampler, key))(keys)
    assert np.ptp(draws["bias"], axis=1).min() > 0
    rest, init_key = jax.random.split(jax.random.clone(keys)[1])
    expected = by_kernel(case, init_key, jax.random.split(rest, STEPS))
    assert_same(jax.tree.map(lambda x: x[1], draws), expected)
    assert not np.allclose(draws["bias"][0], draws["bias"][1])


def test_chains_at_different_steps_refresh_when_each_is_due():
    sampler, period = algorithm(CASES["practical-BAOAB"]), 3
    step, key = jax.jit(sampler.step), jax.random.key(2)
    states = [jax.jit(sampler.init)(START, jax.random.fold_in(key, 0))]
    for l in range(1, 5):
        states.append(step(jax.random.fold_in(key, l), states[-1])[0])
    keys = jax.random.split(jax.random.key(3), 5)
    batched = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    moved, _ = jax.jit(jax.vmap(sampler.step))(keys, batched)
    for c, state in enumerate(states):
        alone, _ = step(keys[c], state)
        assert_same(jax.tree.map(lambda x, c=c: x[c], moved), alone)
        same = np.array_equal(alone.memory.gradient["weight"], state.memory.gradient["weight"])
        assert same == (c % period != 0)


def test_a_refresh_stays_a_branch_for_chains_with_counters_of_their_own():
    """A `cond` on a vector would become a select, and every step would visit all data."""
    visits, case = [], CASES["svrg-sghmc"]

    def counted(params, datum):
        jax.debug.callback(lambda: visits.append(1))
        return loglik(params, datum)

    sampler = algorithm(case._replace(posterior=vr.Posterior(logprior, counted)))
    keys = jax.random.split(jax.random.key(0), 2)
    states = jax.jit(jax.vmap(lambda key: sampler.init(START, key)))(keys)
    assert states.step.shape == (2,)
    step, counts = jax.jit(jax.vmap(sampler.step)), []
    for l in range(5):
        before = len(visits)
        states, _ = step(jax.random.split(jax.random.key(l), 2), states)
        jax.effects_barrier()
        counts.append(len(visits) - before)
    assert counts[0] == counts[4] > counts[1] == counts[2] == counts[3] > 0


def test_one_start_and_several_keys_give_several_minibatches():
    sampler = algorithm(Case(vr.minibatch(), vr.sgld(0.0)))
    state = jax.jit(sampler.init)(START, jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 8)
    moved, _ = jax.jit(jax.vmap(sampler.step, (0, None)))(keys, state)
    assert np.unique(moved.position["bias"]).size > 4


@pytest.mark.parametrize("order", [pytest.param("shuffled", marks=pytest.mark.slow), "symmetric"])
def test_a_sweep_visits_every_datum_once(order):
    """loglik = x . e_i: the gradient says which data the step had."""
    posterior = vr.Posterior(lambda x: 0.0 * jnp.sum(x), lambda x, e: x @ e)
    sampler = vr.to_blackjax(posterior, np.eye(6), vr.minibatch(), vr.sgld(), H, 2, order=order)
    _, (_, info) = run_inference_algorithm(
        jax.random.key(0), sampler, 12, initial_position=jnp.zeros(6)
    )
    visited = np.round(np.asarray(info.gradient) * 2 / 6).reshape(4, 3, 6)
    np.testing.assert_array_equal(visited.sum(1), 1)
    assert not np.array_equal(visited[0], visited[2])
    backward = np.array_equal(visited[0], visited[1][::-1])
    assert backward == (order == "symmetric")


@pytest.mark.slow
def test_float32_stays_and_step_sizes_may_vary():
    single = jax.tree.map(lambda x: x.astype(jnp.float32), START)
    data = DATA | {"x": DATA["x"].astype(np.float32)}
    case, key = CASES["practical-BAOAB"], jax.random.key(7)
    draws = run(algorithm(case, data=data), key, single)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(draws))
    rest, init_key = jax.random.split(jax.random.clone(key))
    keys = jax.random.split(rest, STEPS)
    assert_same(draws, by_kernel(case, init_key, keys, single, data), 1e-5)

    def schedule(l):
        return jnp.where(l < 3, H, 0.0)

    constant, varying = (run(algorithm(case, h), jax.random.key(7))["bias"] for h in (H, schedule))
    assert_same(varying[:3], constant[:3])
    assert varying[4] == varying[5] != constant[5]


# --- our estimators in BlackJAX's kernels --------------------------------------------------------


def drive(estimator, posterior, kernel_step, steps=STEPS):
    """Positions of a BlackJAX kernel with our estimator, and the keys."""
    gradient = vr.gradient_estimator(posterior, DATA, estimator, COUNT)
    keys = jax.random.split(jax.random.key(4), steps)

    def one(carry, key):
        position, memory = carry
        minibatch = gradient.minibatch(key, position, memory)
        moved = kernel_step(gradient)(jax.random.clone(key), position, minibatch)
        return (moved, gradient.update(minibatch, position, moved)), moved

    first = jax.random.key(5)
    memory = gradient.init(first, START)
    _, positions = jax.jit(lambda carry: jax.lax.scan(one, carry, keys))((START, memory))
    return positions, first, keys


@pytest.mark.parametrize(
    "estimator",
    [
        vr.saga(),
        pytest.param(vr.minibatch(), marks=pytest.mark.slow),
        pytest.param(vr.svrg(), marks=pytest.mark.slow),
        pytest.param(vr.practical(5, 3, average=2), marks=pytest.mark.slow),
        pytest.param(vr.control_variate(), marks=pytest.mark.slow),
    ],
    ids=lambda estimator: estimator.name,
)
def test_blackjax_s_sgld_takes_the_steps_of_ours(estimator):
    """Without noise: the same gradients at each step, memory included."""
    posterior = PLAIN if estimator.name == "control_variate" else AUGMENTED

    def step(gradient):
        sampler = blackjax.sgld(gradient)
        return lambda key, x, minibatch: sampler.step(key, x, minibatch, H, 0.0)

    positions, first, keys = drive(estimator, posterior, step)
    assert_same(positions, by_kernel(Case(estimator, vr.sgld(0.0), posterior), first, keys))


def test_gradients_are_those_of_blackjax_where_it_has_them():
    theirs = gradients.grad_estimator(logprior, loglik, N)
    center = {"bias": jnp.array(0.1), "weight": jnp.array([0.4, -0.3])}
    data = jax.tree.map(jnp.asarray, DATA)
    for estimator, expected in (
        (vr.minibatch(), theirs),
        (vr.control_variate(center), gradients.control_variates(theirs, center, data)),
    ):
        ours = vr.gradient_estimator(PLAIN, DATA, estimator, COUNT)
        memory = jax.jit(ours.init)(jax.random.key(0), START)
        minibatch = jax.jit(ours.minibatch)(jax.random.key(1), START, memory)
        g = ours(START, minibatch)
        assert_same(g, expected(START, minibatch.batch.items))
        moved = blackjax.sgld(ours).step(jax.random.key(2), START, minibatch, H)
        noise = generate_gaussian_noise(jax.random.key(2), START)
        by_hand = jax.tree.map(lambda x, g, xi: x + H * g + np.sqrt(2 * H) * xi, START, g, noise)
        assert_same(moved, by_hand)


def test_blackjax_s_other_kernels_take_our_gradients():
    """With all data there is no doubt about the gradient: their own estimator gives the same chain."""
    theirs, everything = gradients.grad_estimator(logprior, loglik, N), DATA
    ours = vr.gradient_estimator(PLAIN, DATA, vr.full())
    minibatch = ours.minibatch(jax.random.key(1), START, ours.init(jax.random.key(0), START))
    with jax.debug_key_reuse(False):  # their sghmc splits the key of its momenta
        for name in ("sghmc", "sgnht"):
            moved = []
            for gradient, batch in ((ours, minibatch), (theirs, everything)):
                sampler = getattr(blackjax, name)(gradient)
                state = sampler.init(START, jax.random.key(2))
                moved.append(sampler.step(jax.random.key(3), state, batch, H))
            assert_same(*moved)
            assert not np.array_equal(jax.tree.leaves(moved[0])[0], START["bias"])


# --- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"integrator": vr.nuts(), "estimator": vr.full()}, "Use blackjax.nuts"),
        ({"order": "random"}, "order must be one of"),
        ({"batch_size": 13}, "batch_size is larger than the data"),
        ({"step_size": -1.0}, r"to_blackjax\(step_size=-1.0\): step_size must be positive"),
        ({"estimator": vr.block_saga(3), "order": "shuffled"}, "blocks are drawn independently"),
        ({"data": {"x": np.ones(3), "y": np.ones(2)}}, "the same number of rows"),
    ],
)
def test_mistakes_are_named(change, message):
    arguments = {
        "posterior": PLAIN,
        "data": DATA,
        "estimator": vr.minibatch(),
        "integrator": vr.sgld(),
        "step_size": H,
        "batch_size": COUNT,
    }
    with pytest.raises(ValueError, match=message):
        vr.to_blackjax(**(arguments | change))


def test_mistakes_of_a_start_are_named():
    sampler = algorithm(CASES["svrg-sghmc"])
    with pytest.raises(ValueError, match="a key is needed"):
        sampler.init(START)
    with pytest.raises(TypeError, match="leaf bias has dtype int"):
        sampler.init(START | {"bias": 1}, jax.random.key(0))
    with pytest.raises(ValueError, match="loglik gets ONE datum"):
        sampler.init(START | {"weight": jnp.zeros(3)}, jax.random.key(0))
    with pytest.raises(ValueError, match="Hessian"):
        algorithm(Case(vr.control_variate(order=2), vr.sgld())).init(START, jax.random.key(0))


@pytest.mark.slow
def test_the_posterior_of_a_run_in_blackjax_s_loop_is_the_exact_one():
    data = np.random.default_rng(0).normal(size=100)
    sampler = vr.to_blackjax(
        vr.models.gaussian.posterior(), data, vr.svrg(), vr.leimkuhler_matthews(), 5e-3, 10
    )

    def chain(key):
        return run_inference_algorithm(
            key, sampler, 4_000, initial_position=jnp.zeros(()), transform=lambda s, i: s.position
        )[1][200:]

    draws = jax.vmap(chain)(jax.random.split(jax.random.key(0), 16))
    assert abs(draws.mean() - data.sum() / 101) < 0.02 / np.sqrt(101)
    assert abs(draws.var() * 101 - 1) < 0.05
