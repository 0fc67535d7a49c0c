"""NUTS: BlackJAX's steps, exact moments, every leapfrog counted, and runs like all others."""

import logging
import signal
from types import SimpleNamespace

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.adaptation.step_size import dual_averaging_adaptation
from support.crashes import commit_chunks
from support.small_runs import assert_same_run, broken_run, run, whole_run

import vrsgmcmc as vr
from vrsgmcmc import core
from vrsgmcmc.core import compiled
from vrsgmcmc.run import chain_roots
from vrsgmcmc.run.timeline import Pace

N, D, WARM_UP, STEPS = 40, 3, 60, 100
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) * [0.5, 1.0, 4.0]
X[:, 2] += 2 * X[:, 1]
DATA = X, X @ [1.0, -1.0, 0.5] + RNG.normal(size=N)
POSTERIOR = vr.models.linear.posterior()
MEAN, COVARIANCE = vr.models.linear.exact(DATA)
METRIC = MEAN, np.linalg.cholesky(COVARIANCE)


def sample(key=3, posterior=POSTERIOR, data=DATA, **options):
    given = {
        "init": np.zeros(D),
        "integrator": vr.nuts(warm_up=WARM_UP),
        "step_size": 1e-3,
        "num_steps": STEPS,
        "num_chains": 2,
        "burn_in": WARM_UP,
        "progress": False,
    }
    return vr.sample(key, posterior, data, **(given | options))


def dynamics_of(result):
    found = result.state.dynamics
    return found if result.settings["metric"] is None else found.dynamics


# --- the steps are BlackJAX's --------------------------------------------------------------------


def log_density(w):
    x, y = DATA
    return -0.5 * (w @ w) - 0.5 * jnp.sum((y - x @ w) ** 2)


def written_out(metric):
    """Two chains, by BlackJAX's own functions."""
    density, to_x, z = log_density, lambda z: z, jnp.zeros(D)
    if metric is not None:
        center, factor = map(jnp.asarray, metric)
        to_x = lambda z: center + factor @ z  # noqa: E731
        density = lambda z: log_density(to_x(z))  # noqa: E731
        z = jnp.linalg.solve(factor, -center)
    ones = jnp.ones(D)
    nuts = jax.jit(lambda key, state, h: blackjax.nuts.build_kernel()(key, state, density, h, ones))
    one_leapfrog = jax.jit(
        lambda key, state, h: blackjax.hmc.build_kernel()(key, state, density, h, ones, 1)[1]
    )
    start, update, final = dual_averaging_adaptation(0.8)

    def one_chain(words):
        state, h, direction, leapfrogs = blackjax.nuts.init(z, density), 1e-3, None, 1
        draws = []
        for l in range(STEPS):
            key = core.fold(core.fold(compiled.wrap_keys(words), l), 0)
            if l == 0:  # BlackJAX's find_reasonable_step_size
                for number in range(99):
                    tried = jax.random.fold_in(core.fold(key, 1), number)
                    up = one_leapfrog(tried, state, h).acceptance_rate > 0.65
                    leapfrogs += 1
                    if direction not in (None, up):
                        break
                    direction = up
                    h *= 2.0 if up else 0.5
                tuning = start(h)
            state, info = nuts(core.fold(key, 0), state, h)
            leapfrogs += int(info.num_integration_steps)
            if l < WARM_UP:
                tuning = update(tuning, info.acceptance_rate)
                h = jnp.exp(tuning.log_step_size) if l < WARM_UP - 1 else final(tuning)
            else:
                draws.append(to_x(state.position))
        return SimpleNamespace(draws=np.array(draws), leapfrogs=leapfrogs, h=float(h))

    return [one_chain(words) for words in chain_roots(jax.random.key(3), 2).noise]


@pytest.mark.parametrize(
    ("metric", "chain_method"),
    [
        pytest.param(None, "vmap", id="x", marks=pytest.mark.slow),
        pytest.param(METRIC, "sequential", id="z"),
    ],
)
def test_steps_step_sizes_and_costs_are_those_of_blackjax(metric, chain_method):
    result = sample(metric=metric, chain_method=chain_method)
    expected = written_out(metric)
    np.testing.assert_allclose(result.draws, [each.draws for each in expected], rtol=0, atol=1e-9)
    dynamics = dynamics_of(result)
    np.testing.assert_allclose(dynamics.step_size, [each.h for each in expected], rtol=1e-9)
    counts = [each.leapfrogs for each in expected]
    np.testing.assert_array_equal(vr.nuts().gradient_counts(dynamics), counts)
    assert result.evaluations == N * sum(counts)
    assert result.data_passes == np.mean(counts)


def test_every_evaluation_of_the_density_is_counted():
    """The prior is evaluated once for each: by the chain, and by checks that do not depend on it."""
    calls = []

    def logprior(w):
        jax.debug.callback(lambda _: calls.append(1), w[0])
        return -0.5 * w @ w

    def cost(**options):
        result = sample(posterior=vr.Posterior(logprior, POSTERIOR.loglik), num_chains=1, **options)
        jax.effects_barrier()
        count = len(calls)
        calls.clear()
        return count, result.evaluations // N

    short, long = (cost(num_steps=n, chain_method="sequential") for n in (61, 81))
    assert long[1] - short[1] == long[0] - short[0] > 40
    checks = short[0] - short[1]
    h = cost(num_steps=61, chain_method="sequential", step_size=1e-9)  # a longer search
    assert h[0] - h[1] == checks <= 3


def test_the_count_has_64_bits():
    from vrsgmcmc.run.nuts import add_count

    words = jnp.array([2**32 - 3, 5], jnp.uint32)
    words = add_count(words, jnp.asarray(7, jnp.int32))
    np.testing.assert_array_equal(words, np.array([4, 6], np.uint32))
    many = SimpleNamespace(gradients=words)
    assert vr.nuts().gradient_counts(many) == 6 * 2**32 + 4


# --- the posterior, and the tuning ---------------------------------------------------------------


@pytest.fixture(scope="module", params=[None, METRIC], ids=["x", "z"])
def long_run(request):
    return sample(num_steps=6_000, burn_in=200, metric=request.param)


def test_moments_are_those_of_the_posterior(long_run):
    from arviz_stats.base import array_stats

    draws = np.asarray(long_run.draws)
    scale = np.sqrt(np.diag(COVARIANCE))
    z = (draws - MEAN) / scale
    products = np.stack(
        [z[..., i] * z[..., j] for i in range(D) for j in range(i + 1)], -1
    )  # E = correlations
    correlations = COVARIANCE / np.outer(scale, scale)
    expected = [correlations[i, j] for i in range(D) for j in range(i + 1)]
    for values, mean in ((z, np.zeros(D)), (products, expected)):
        for k in range(values.shape[-1]):
            ess = array_stats.ess(values[..., k], chain_axis=0, draw_axis=1, method="mean")
            error = values[..., k].std() / np.sqrt(ess)
            assert ess > 1000
            assert abs(values[..., k].mean() - mean[k]) < 4 * error
    assert not np.any(dynamics_of(long_run).divergences)
    np.testing.assert_array_equal(dynamics_of(long_run).draws, 6_000 - WARM_UP)


def test_the_exact_covariance_as_metric_makes_trajectories_short():
    in_x, in_z = (sample(metric=metric, num_steps=200) for metric in (None, METRIC))
    assert in_z.data_passes < 0.4 * in_x.data_passes
    assert np.all(dynamics_of(in_z).step_size > 0.5)


def test_the_step_size_reaches_the_acceptance_asked_for():
    def one(state, key, h):
        return blackjax.nuts.build_kernel()(key, state, log_density, h, jnp.ones(D))

    @jax.jit
    def acceptance(h):
        state = blackjax.nuts.init(jnp.asarray(MEAN), log_density)
        keys = jax.random.split(jax.random.key(0), 1500)
        _, info = jax.lax.scan(lambda state, key: one(state, key, h), state, keys)
        return info.acceptance_rate.mean()

    for target in (0.6, 0.8, 0.95):
        for start in (1e-4, 7.0):
            integrator = vr.nuts(target, warm_up=WARM_UP)
            dynamics = dynamics_of(sample(integrator=integrator, step_size=start))
            assert np.all(np.abs(dynamics.tuning.avg_error) < 0.03)  # of the acceptances in warm-up
            for h in dynamics.step_size:  # their mean is of log h, so a bit on the safe side
                assert -0.1 < float(acceptance(h)) - target < 0.3


def test_without_warm_up_the_step_size_is_the_one_of_the_call():
    steps = np.array([0.01, 0.02])
    result = sample(integrator=vr.nuts(warm_up=0), burn_in=0, step_size=steps)
    np.testing.assert_array_equal(dynamics_of(result).step_size, steps)


# --- a run like all others -----------------------------------------------------------------------

NUTS = {
    "estimator": vr.full(),
    "integrator": vr.nuts(warm_up=40),
    "burn_in": 40,
}
IN_Z = {"metric": (np.ones(2), np.array([[0.2, 0.0], [0.1, 0.3]])), "keep": "averages"}
KINDS = {"vmap": {"thin": 3}, "sequential in z": {"chain_method": "sequential", **IN_Z}}


@pytest.mark.parametrize("count", [1, 4], ids=["in warm-up", "after it"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_run_resumes_bit_for_bit(tmp_path, monkeypatch, small, kind, count):
    options = NUTS | KINDS[kind]
    broken_run(tmp_path, monkeypatch, count, **options)
    resumed = run(tmp_path, **options)
    assert_same_run(resumed, whole_run(**options))
    assert_same_run(run(tmp_path, **options), resumed)  # loaded
    assert vr.store.open(tmp_path).progress["evaluations"] == resumed.evaluations


def test_another_target_is_another_run(tmp_path, small):
    run(tmp_path, **NUTS | KINDS["vmap"])
    with pytest.raises(vr.store.RunError, match="target_accept"):
        run(tmp_path, **NUTS | KINDS["vmap"] | {"integrator": vr.nuts(0.7, warm_up=40)})


@pytest.mark.parametrize("metric", [None, METRIC], ids=["x", "z"])
@pytest.mark.parametrize("cut", [20, 80], ids=["in warm-up", "after it"])
def test_ctrl_c_returns_what_is_finished_and_its_state_goes_on(monkeypatch, metric, cut):
    whole, chunks = sample(metric=metric), []

    def press_ctrl_c(*_):
        chunks.append(1)
        if 20 * len(chunks) == cut:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        commit_chunks(patch, 20)
        patch.setattr(Pace, "took", press_ctrl_c)
        first = sample(metric=metric)
    assert first.interrupted
    assert first.num_steps == cut
    left = {"num_steps": STEPS - cut, "burn_in": max(0, WARM_UP - cut)}
    second = sample(metric=metric, init=first.state, **left)
    draws = np.concatenate([first.draws, second.draws], 1)
    np.testing.assert_array_equal(draws, whole.draws)
    assert first.evaluations + second.evaluations == whole.evaluations
    if cut < WARM_UP:
        with pytest.raises(ValueError, match="Pass burn_in=40 or more"):
            sample(metric=metric, init=first.state, burn_in=39)


def test_chains_one_after_another_do_not_know_each_other():
    both = sample(chain_method="sequential", metric=METRIC)
    alone = sample(chain_method="sequential", metric=METRIC, num_chains=1)
    np.testing.assert_array_equal(alone.draws[0], both.draws[0])


def test_trees_dtypes_thinning_and_averages():
    def together(w):
        return jnp.concatenate([w["a"].astype(float), w["b"]])

    posterior = vr.Posterior(
        lambda w: POSTERIOR.logprior(together(w)),
        lambda w, datum: POSTERIOR.loglik(together(w), datum),
    )
    result = sample(
        posterior=posterior,
        init={"a": np.zeros(1, np.float32), "b": np.zeros(2)},
        observables={"square": lambda w: together(w) ** 2},
    )
    assert result.draws["a"].dtype == np.float32
    assert result.draws["b"].dtype == np.float64
    flat = np.concatenate([result.draws["a"], result.draws["b"]], -1)
    np.testing.assert_allclose(result.averages["square"], (flat**2).mean(1), rtol=1e-12)
    assert np.all(np.abs(flat.mean((0, 1)) - MEAN) < np.sqrt(np.diag(COVARIANCE)))


# --- what goes wrong -----------------------------------------------------------------------------


def test_divergent_trajectories_are_reported(caplog):
    fixed = {"integrator": vr.nuts(warm_up=0), "burn_in": 0}
    with caplog.at_level(logging.WARNING, "vrsgmcmc"):
        good = sample(**fixed, step_size=0.01)
        assert not caplog.messages
        result = sample(**fixed, step_size=50.0)
    assert f"nuts(): {2 * STEPS} of {2 * STEPS} trajectories after warm-up diverged" in caplog.text
    np.testing.assert_array_equal(dynamics_of(result).divergences, STEPS)
    np.testing.assert_array_equal(result.draws, 0.0)  # rejected, so still at the start
    assert not np.any(dynamics_of(good).divergences)


@pytest.mark.slow
def test_a_hard_edge_is_no_end_of_the_chain():
    """-inf outside a support: such trajectories are rejected, and the chain stays finite."""
    posterior = vr.Posterior(
        lambda w: jnp.where(w[0] > 0, -0.5 * (w @ w), -jnp.inf), lambda w, x: 0.0 * w[0] * x
    )
    result = sample(posterior=posterior, data=np.ones(3), init=np.ones(1), num_steps=400)
    assert not result.diverged.any()
    assert np.all(result.draws > 0)


AUGMENT = vr.Posterior(POSTERIOR.logprior, POSTERIOR.loglik, lambda key, item: item)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"burn_in": 10},
            r"burn_in=10\): nuts\(\) tunes .* first 60 steps.* Pass burn_in=60 or more",
        ),
        ({"estimator": vr.svrg()}, r"so svrg\(\) has no part in it. Pass estimator=vr.full\(\)"),
        ({"estimator": vr.practical()}, r"so practical\(\) has no part in it"),
        ({"clip": 1.0}, r"clip=1.0: nuts\(\) .* Leave clip out"),
        ({"posterior": AUGMENT}, r"nuts\(\) needs a log density that is the same at each call"),
        ({"step_size": lambda l: 0.1}, r"a schedule would have no effect. Pass a number"),
        ({"step_size": 0.0}, "step sizes must be positive"),
        ({"integrator": vr.nuts}, r"the function itself; call it: nuts\(\)"),
    ],
)
def test_mistakes_of_a_run(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sample(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"target_accept": t}, "between 0 and 1") for t in (0.0, 1, -0.2, 1.5)),
        *(({"target_accept": t}, "finite number") for t in (np.nan, "high", None, True)),
        *(({"warm_up": n}, "whole number, at least 0") for n in (-1, 2.5, None)),
        *(({"max_doublings": n}, "whole number, at least 1") for n in (0, 1.0)),
    ],
)
def test_mistakes_of_the_description(options, message):
    with pytest.raises(ValueError, match=rf"nuts\({next(iter(options))}=.*{message}"):
        vr.nuts(**options)


def test_mistakes_of_the_kernel():
    with pytest.raises(ValueError, match="has no part in it"):
        vr.kernel(POSTERIOR, vr.minibatch(), vr.nuts(), size=N)
    with pytest.raises(ValueError, match="Leave clip out"):
        vr.kernel(POSTERIOR, vr.full(), vr.nuts(), size=N, clip=1.0)
    kernel = vr.kernel(POSTERIOR, vr.full(), vr.nuts(), size=N)
    state = kernel.init(0, np.zeros(D))
    some = vr.Batch(jnp.arange(4), jax.tree.map(lambda leaf: jnp.asarray(leaf[:4]), DATA))
    with pytest.raises(ValueError, match=r"nuts\(\) needs all 40 data in its batch, got 4"):
        kernel.step(1, state, some, 0.1)


def test_the_state_of_another_integrator_is_refused():
    other = sample(estimator=vr.full(), integrator=vr.sgld())
    with pytest.raises(ValueError, match=r"nuts\(\) cannot continue: its dynamics is of another"):
        sample(init=other.state)


def test_it_is_no_integrator_for_stochastic_gradients():
    assert "nuts" not in vr.INTEGRATORS
    assert vr.nuts() == vr.nuts(0.8)
    assert vr.nuts() != vr.nuts(0.9)
