"""How right a result is: coupled runs against exact laws, effective draws, bounds, verdicts."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri

import vrsgmcmc as vr
from vrsgmcmc.advice.accuracy import Accuracy, effective
from vrsgmcmc.advice.accuracy.assess import assess, bound
from vrsgmcmc.advice.accuracy.coupling import couple, scheme_of
from vrsgmcmc.core import Sampler
from vrsgmcmc.theory import gaussian_mean, stationary

DATA = np.random.default_rng(3).normal(0.3, 1.0, 40)
POSTERIOR = vr.models.gaussian.posterior()
EXACT = gaussian_mean(DATA)


@pytest.mark.parametrize("integrator", [vr.sgld(), vr.splitting("BAOAB", 5.0)], ids=str)
def test_the_noise_of_a_long_step_is_that_of_two_short_ones(integrator):
    scheme = scheme_of(integrator)
    h = 0.3
    one, two = scheme.mix(h)
    assert one**2 + two**2 == pytest.approx(1)  # a standard normal again

    def nothing(z):
        return 0.0 * z

    rng = np.random.default_rng(0)
    xi, other = rng.normal(size=2)
    _, p = scheme.step(0.0, 1.0, nothing, xi, h / 2)
    _, p = scheme.step(0.0, p, nothing, other, h / 2)
    _, whole = scheme.step(0.0, 1.0, nothing, one * xi + two * other, h)
    assert float(p) == pytest.approx(float(whole))  # without a force they end at the same momentum


def test_other_integrators_have_no_scheme():
    assert scheme_of(vr.sghmc(1.0)) is None
    assert scheme_of(vr.splitting("UBU", 1.0)) is None


@pytest.mark.parametrize(
    ("integrator", "step_size"), [(vr.sgld(), 0.012), (vr.splitting("BAOAB", 6.0), 0.08)], ids=str
)
def test_the_bias_is_that_of_the_exact_laws(integrator, step_size):
    mean, covariance = EXACT.posterior()
    sd = np.sqrt(covariance[0, 0])
    estimator = vr.minibatch()
    laws = [
        stationary(EXACT, estimator, integrator, step_size=h, batch_size=4).covariance[0, 0]
        for h in (step_size, step_size / 2)
    ]
    sampler = Sampler(estimator, integrator, step_size, 4)
    starts = jnp.asarray(mean[0] + sd * np.random.default_rng(1).normal(size=200))
    found = couple(
        POSTERIOR,
        jnp.asarray(DATA),
        sampler,
        (),
        starts,
        np.array([mean[0]]),
        np.array([sd]),
        num_steps=400,
        seed=2,
    )
    expected = 2 * (laws[0] - laws[1]) / sd**2
    assert abs(found.variance[0] - expected) < 4 * found.variance_error[0]
    assert found.variance_error[0] < 0.2 * expected
    assert abs(found.mean[0]) < 4 * found.mean_error[0]
    assert found.evaluations == 3 * 200 * 400 * 4


def test_effective_draws_of_independent_ones():
    rng = np.random.default_rng(0)
    draws = {"a": rng.normal(3.0, 2.0, size=(4, 1000)), "b": rng.normal(size=(4, 1000, 2))}
    found = effective(draws)
    assert found.mean.shape == (3,)
    np.testing.assert_allclose(found.ess, 4000, rtol=0.2)
    np.testing.assert_allclose(found.ess_square, 4000, rtol=0.2)
    np.testing.assert_allclose(found.sd, [2.0, 1.0, 1.0], rtol=0.05)
    np.testing.assert_allclose(found.sd_error, 1 / np.sqrt(2 * found.ess_square), rtol=0.1)
    assert np.all(found.r_hat < 1.01)


def test_effective_draws_of_a_chain_with_memory():
    rng, phi = np.random.default_rng(0), 0.9
    x = np.zeros((8, 5000))
    for l in range(1, 5000):
        x[:, l] = phi * x[:, l - 1] + rng.normal(size=8)
    found = effective(x)
    assert found.ess[0] == pytest.approx(x.size * (1 - phi) / (1 + phi), rel=0.25)
    assert found.ess_square[0] == pytest.approx(x.size * (1 - phi**2) / (1 + phi**2), rel=0.25)


def test_a_chain_that_became_non_finite_is_left_out():
    draws = np.random.default_rng(0).normal(size=(3, 100))
    draws[1, 50:] = np.nan
    assert np.isfinite(effective(draws).mean).all()


def test_bounds_cover_what_they_should():
    """Biases around a common mean, known with an error: the bound covers 95 % of |bias + error|."""
    rng, d = np.random.default_rng(0), 400
    for spread, noise in ((0.0, 0.05), (0.05, 0.02), (0.1, 0.1)):
        bias = 0.02 + spread * rng.normal(size=d)
        error = np.full(d, 0.02)
        found, _ = bound(bias + noise * rng.normal(size=d), np.full(d, noise), error, common=True)
        assert np.mean(np.abs(bias + error * rng.normal(size=d)) <= found) > 0.92


def record(**options):
    given = {
        "mean": np.array([0.03, 0.04]),
        "sd": np.array([0.02, 0.05]),
        "names": ("a", "b"),
        "subject": "parameter",
        "ess": 2600.0,
        "r_hat": 1.001,
        "bias": 0.01,
        "virial": 1.02,
        "virial_error": 0.1,
        "laplace_mean": np.array([0.0, 0.3]),
        "laplace_sd": np.array([1.0, 1.1]),
        "evaluations": 10,
    }
    return Accuracy(**given | options)


def test_the_verdict_in_words():
    good = record()
    assert good.good
    assert good.verdict.startswith(
        "Good: every parameter's mean is within 0.04 sd and its sd within"
    )
    assert "Laplace's approximation differs for 1 of 2 (b)" in good.verdict
    bad = record(r_hat=1.2, mean=np.array([0.03, 0.4]))
    assert not bad.good
    assert (
        "Not good: R-hat is 1.2: the chains do not agree; the mean of b may be off by 0.4 sd"
        in (bad.verdict)
    )
    assert not record(virial=3.0).good


def test_chance_alone_is_no_difference_to_laplace():
    """The errors of 100 exact means, in their expected order, exceed 5 of their bounds."""
    errors = ndtri((np.arange(100) + 0.5) / 100)
    bound = np.full(100, 0.04)
    exact = {"names": tuple(map(str, range(100))), "mean": bound, "sd": bound}
    exact |= {"laplace_mean": bound * errors / 1.96, "laplace_sd": np.ones(100)}
    assert np.sum(np.abs(exact["laplace_mean"]) > bound) > 3
    assert "has the same moments, as far as this run can tell" in record(**exact).verdict
    exact["laplace_mean"][7] = 2 * bound[7]
    assert "differs for 1 of 100 (7)" in record(**exact).verdict


def test_a_record_survives_json():
    again = Accuracy.from_json(record().to_json())
    assert str(again) == str(record())
    np.testing.assert_array_equal(again.laplace_sd, record().laplace_sd)


def test_a_wrong_run_is_flagged_on_call():
    """SGLD on small minibatches at a large step: the exact law is over 10 % too wide."""
    options = {"estimator": vr.minibatch(), "step_size": 0.002, "batch_size": 4, "progress": False}
    result = vr.sample(0, POSTERIOR, DATA, 0.0, **options, num_steps=20_000, burn_in=100)
    accuracy = result.accuracy()
    assert accuracy is result.accuracy()
    assert not accuracy.good
    exact = stationary(EXACT, vr.minibatch(), vr.sgld(), step_size=0.002, batch_size=4)
    off = np.sqrt(exact.covariance[0, 0] / EXACT.posterior()[1][0, 0]) - 1
    assert off > 0.1
    assert accuracy.sd[0] > off


def test_without_draws_there_is_nothing_to_judge():
    result = vr.sample(
        0, POSTERIOR, DATA, 0.0, step_size=1e-3, keep="averages", num_steps=50,
        estimator=vr.minibatch(), batch_size=4, progress=False,
    )  # fmt: skip
    with pytest.raises(ValueError, match="no draws were kept"):
        result.accuracy()


def test_draws_that_are_not_finite_in_any_chain_are_not_good():
    """As those of a forged run directory may be, whose chains are not marked."""
    data = np.linspace(-1.0, 1.0, 20)
    posterior = vr.Posterior(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
    result = vr.sample(0, posterior, data, 0.0, step_size=1e-3, num_steps=50, num_chains=2,
                       estimator=vr.minibatch())  # fmt: skip
    accuracy = assess(result.with_draws(np.full((2, 50), np.nan)))
    assert not accuracy.good
    assert accuracy.names == ()
