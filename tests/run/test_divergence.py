"""Chains that become non-finite: frozen, reported, and without effect on the others."""

import logging
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.sample_methods import KEY, PRACTICAL, STEPS, D, H, Method, assert_same_bits, identity

import vrsgmcmc as vr
from vrsgmcmc.core import compiled
from vrsgmcmc.core.rng import fold
from vrsgmcmc.run import densities, rows

WATCHED = Method(vr.practical(8, 5), options={"observables": {"mean": identity}, "num_steps": 200})


def test_a_diverging_chain_is_frozen_and_the_others_go_on(caplog):
    calm = WATCHED.run()
    with caplog.at_level(logging.WARNING, logger="vrsgmcmc"):
        result = WATCHED.run(step_size=[H, 100.0, H])
    np.testing.assert_array_equal(result.diverged, [False, True, False])
    (found,) = result.divergences
    assert (found.chain, found.step_size) == (1, 100.0)
    assert 100 < found.step < 180
    (record,) = caplog.records
    assert f"chain 1 became non-finite at step {found.step}" in record.getMessage()
    assert f"Try a step size of {found.try_step_size:.2g}" in record.getMessage()

    finite = np.isfinite(result.draws).all(-1)
    np.testing.assert_array_equal(finite[1], result.draw_steps <= found.step)
    assert np.all(np.isnan(result.draws[1, found.step :]))
    np.testing.assert_allclose(result.state.position[1], result.draws[1, found.step - 1], rtol=1e-9)
    assert result.state.step[1] == found.step
    largest = np.abs(result.state.position[1]).max()
    assert largest <= found.norm <= largest * math.sqrt(D)  # finite, though its square is not
    assert np.all(np.isnan(result.averages["mean"][1]))

    assert_same_bits(result.draws[[0, 2]], calm.draws[[0, 2]])
    assert_same_bits(result.averages["mean"][[0, 2]], calm.averages["mean"][[0, 2]])
    others = [jax.tree.map(lambda leaf: leaf[jnp.array([0, 2])], r.state) for r in (result, calm)]
    assert_same_bits(*others)

    table = result.summary()
    assert "[1]" in table.attrs["note"]
    kept = result.draws[[0, 2]].reshape(-1, D)
    np.testing.assert_allclose(table["mean"], kept.mean(0), rtol=1e-6)
    np.testing.assert_array_equal(result.to_arviz().posterior.chain, [0, 2])

    assert not WATCHED.run(step_size=found.try_step_size).diverged.any()


def test_others_continue_after_the_first_chain_has_diverged():
    result = WATCHED.run(step_size=[100.0, H, H])
    np.testing.assert_array_equal(result.diverged, [True, False, False])
    rest = WATCHED.run(num_steps=10, init=result.state)
    assert_same_bits(rest.draws[1:], WATCHED.run(num_steps=210).draws[1:, 200:])


def test_a_run_ends_when_every_chain_has_diverged():
    result = WATCHED.run(num_steps=200_000, step_size=100.0)
    assert result.diverged.all()
    assert [found.chain for found in result.divergences] == [0, 1, 2]
    assert result.num_steps < 2_000
    assert np.all(np.isfinite(result.state.position))
    assert result.draws.shape[1] == result.num_steps
    with pytest.raises(ValueError, match=r"every chain became non-finite.*[Tt]ry a step size"):
        result.summary()


def test_the_step_of_the_first_nan_is_found():
    """x grows by 0.1 a step; above 1.05 its gradient is NaN: x_11 = 1.1 is the last finite one."""
    cliff = vr.Posterior(
        lambda x: 0.0 * x, lambda x, datum: jnp.where(x > 1.05, jnp.nan, 1.0) * x + 0.0 * datum
    )
    first = jax.random.key_data(compiled.make_roots(fold(jax.random.key(KEY), 0)).start)[0]
    own = {"init": lambda key: -10.0 * (jax.random.key_data(key)[0] != first), "num_chains": 2}
    result = Method(vr.full(), cliff, own).run(
        data=np.ones(5), step_size=0.02, temperature=0.0, batch_size=1, first_chunk=3
    )
    np.testing.assert_array_equal(result.diverged, [True, False])
    assert result.divergences[0].step == 11
    np.testing.assert_allclose(result.state.position[0], 1.1, rtol=1e-12)
    np.testing.assert_allclose(result.draws[0, :11], 0.1 * np.arange(1, 12), rtol=1e-12)
    assert np.all(np.isnan(result.draws[0, 11:]))
    np.testing.assert_allclose(result.draws[1], -10 + 0.1 * np.arange(1, STEPS + 1), rtol=1e-12)


@pytest.mark.slow
def test_divergence_tells_the_step_size_of_its_step():
    result = PRACTICAL.run(step_size=lambda l: jnp.where(l < 10, H, 1e150 * (l + 1.0)))
    for found in result.divergences:
        assert 10 <= found.step <= 13
        assert found.step_size == 1e150 * (found.step + 1)


N, BAD_ROW = 200, 151


def gaussian(datum_term):
    """A Gaussian in one dimension, with a term for each datum."""
    return vr.Posterior(
        lambda x: -0.5 * x**2, lambda x, datum: -0.5 * (x - datum) ** 2 + datum_term(x, datum)
    )


def run_gaussian(datum_term, **options):
    data = np.ones(N)
    data[BAD_ROW] = 0.0
    options = {"step_size": 1e-3, "batch_size": 20, "num_steps": 60, "num_chains": 1} | options
    posterior = gaussian(datum_term)
    return vr.sample(KEY, posterior, data, 0.3, estimator=vr.minibatch(), progress=False, **options)


def test_the_row_that_makes_a_chain_non_finite_is_named(tmp_path):
    """The root has the value 0 and the gradient NaN where the datum is 0."""
    options = {"run_dir": tmp_path / "run"}
    result = run_gaussian(lambda x, datum: jnp.sqrt(datum * (1 + x**2)), **options)
    (found,) = result.divergences
    assert found.row == BAD_ROW
    assert f"not finite for data row {BAD_ROW}: look at that row" in str(found)
    again = run_gaussian(lambda x, datum: jnp.sqrt(datum * (1 + x**2)), **options)
    assert again.divergences == (found,)  # stored with the run


def test_no_row_is_named_when_the_step_size_is_to_blame():
    (found,) = run_gaussian(lambda x, datum: 0.0, step_size=10.0, num_steps=2000).divergences
    assert found.row is None
    assert "data row" not in str(found)
    assert math.isfinite(found.try_step_size)


def test_a_row_without_density_is_named_at_the_end(caplog):
    """The chain starts where all rows have a density, and leaves for where one has none."""

    def term(x, datum):
        far = jax.lax.stop_gradient(jnp.abs(x - 0.3)) > 1e-6
        return jnp.where(far & (datum == 0), -jnp.inf, 0.0)

    with caplog.at_level(logging.WARNING, logger="vrsgmcmc"):
        result = run_gaussian(term)
    assert not result.diverged.any()
    (record,) = caplog.records
    assert f"chain 0: loglik is -inf for data row {BAD_ROW} at its last position (1 of {N}" in (
        record.getMessage()
    )


def test_rows_are_looked_at_in_parts(monkeypatch):
    monkeypatch.setattr(rows, "ROWS_AT_ONCE", 30)
    data = np.ones(100)
    data[[41, 95, 99]] = 0.0
    posterior = gaussian(lambda x, datum: jnp.log(datum))
    found = rows.find_bad_rows(posterior, jnp.zeros(()), jnp.asarray(data), seconds=60)
    assert found == rows.BadRows(41, -math.inf, 3, 100)
    found = rows.find_bad_rows(posterior, jnp.zeros(()), jnp.asarray(data), seconds=0)
    assert found is None


def test_looking_at_many_chains_stays_in_time():
    assert list(densities.in_time(range(10**6), seconds=0)) == [0]
    assert list(densities.in_time(range(3), seconds=60)) == [0, 1, 2]
