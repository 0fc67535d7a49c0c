"""What a run gives back: ArviZ's tree, the table, attributes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.run.result import Divergence

N, CHAINS, STEPS, BURN_IN, THIN = 12, 4, 90, 10, 2
DRAWS = (STEPS - BURN_IN) // THIN
X = np.random.default_rng(2).normal(size=(N, 3))
START = {"bias": jnp.zeros(()), "layer": {"weight": jnp.zeros((2, 3))}}


def logprior(params):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def loglik(params, x):
    return -0.5 * jnp.sum((x - params["layer"]["weight"][0] - params["bias"]) ** 2)


POSTERIOR = vr.Posterior(logprior, loglik)


def run(**options):
    given = {
        "estimator": vr.practical(6, 5),
        "integrator": vr.sghmc(2.0, temperature=0.5),
        "step_size": 0.05,
        "batch_size": 2,
        "num_steps": STEPS,
        "num_chains": CHAINS,
        "burn_in": BURN_IN,
        "thin": THIN,
        "observables": {"bias": bias},
        "progress": False,
    }
    return vr.sample(3, POSTERIOR, X, START, **given | options)


def bias(params):
    return params["bias"]


@pytest.fixture(scope="module")
def result():
    return run()


def test_draws_are_a_pytree_like_the_parameters(result):
    assert jax.tree.structure(result.draws) == jax.tree.structure(START)
    assert result.draws["bias"].shape == (CHAINS, DRAWS)
    assert result.draws["layer"]["weight"].shape == (CHAINS, DRAWS, 2, 3)
    assert result.averages["bias"].shape == (CHAINS,)
    assert not result.diverged.any()
    assert result.divergences == ()
    assert not result.interrupted
    assert result.seconds > 0
    assert result.num_steps == STEPS


def test_arviz_tree(result):
    tree = result.to_arviz()
    posterior = tree["posterior"]
    assert set(posterior.data_vars) == {"bias", "layer.weight"}
    assert posterior["bias"].dims == ("chain", "draw")
    assert posterior["layer.weight"].dims[:2] == ("chain", "draw")
    assert dict(posterior.sizes)["chain"] == CHAINS
    assert dict(posterior.sizes)["draw"] == DRAWS
    np.testing.assert_array_equal(posterior["layer.weight"], result.draws["layer"]["weight"])
    np.testing.assert_array_equal(posterior["bias"], result.draws["bias"])
    steps = tree["sample_stats"]["step"]
    assert steps.dims == ("chain", "draw")
    for row in steps.values:
        np.testing.assert_array_equal(row, np.arange(BURN_IN + THIN, STEPS + 1, THIN))


def test_summaries_are_computed_in_float64(result):
    """100,000 draws around 1000 in float32: a sum in float32 loses the standard deviation."""
    draws = 1000 + np.random.default_rng(0).normal(size=(1, 100_000)).astype(np.float32)
    many = replace(result.with_draws({"a": draws}), diverged=np.zeros(1, bool))
    many = replace(many, draw_steps=np.arange(draws.size))
    assert many.to_arviz()["posterior"]["a"].dtype == np.float64
    table = many.summary(kind="stats")
    np.testing.assert_allclose(table["sd"], draws.std(dtype=np.float64), rtol=1e-4)
    np.testing.assert_allclose(table["mean"], draws.mean(dtype=np.float64), rtol=1e-7)


def test_any_name_of_a_parameter_has_a_variable(result):
    """xarray keeps "/" for groups; chain and draw are its dimensions."""
    one = result.draws["bias"]
    named = result.with_draws({"a/b": one, "a_b": one + 1, "chain": one + 2, "draw": one + 3})
    posterior = named.to_arviz()["posterior"]
    assert list(posterior.data_vars) == ["a_b", "a_b_2", "chain_2", "draw_2"]
    np.testing.assert_array_equal(posterior["a_b_2"], one + 1)
    assert list(named.summary(kind="stats").index) == ["a_b", "a_b_2", "chain_2", "draw_2"]


def test_attributes_tell_settings_cost_and_versions(result):
    attributes = result.to_arviz().attrs
    for name, text in {
        "estimator": "Practical(anchor_size=6, period=5, average=1)",
        "integrator": "SGHMC(friction=2.0, temperature=0.5)",
        "step_size": "0.05",
        "batch_size": "2",
        "num_steps": str(STEPS),
        "num_chains": str(CHAINS),
        "burn_in": str(BURN_IN),
        "thin": str(THIN),
        "order": "without_replacement",
        "anchor_order": "without_replacement",
        "weights": "step_size",
        "clip": "None",
        "chain_method": "vmap",
        "data_size": str(N),
    }.items():
        assert attributes[name] == text
    assert attributes["evaluations"] == CHAINS * (2 * 2 * STEPS + 6 * STEPS // 5)
    assert attributes["data_passes"] == attributes["evaluations"] / (N * CHAINS)
    assert attributes["num_steps_done"] == STEPS
    assert attributes["note"] == "all chains"
    assert f"jax {jax.__version__}" in attributes["versions"]
    assert "vrsgmcmc 0." in attributes["versions"]


def test_attributes_can_be_written(result, tmp_path):
    """Files hold numbers, text and lists of numbers, and nothing else."""
    for value in result.to_arviz().attrs.values():
        assert isinstance(value, str | int | float | list)
        assert not isinstance(value, list) or all(isinstance(entry, int) for entry in value)


def test_summary_table(result):
    table = result.summary()
    assert list(table.index[:1]) == ["bias"]
    assert len(table) == 7
    assert {"mean", "sd", "ess_bulk", "ess_tail", "r_hat"} <= set(table.columns)
    assert table.attrs["note"] == "all chains"
    bias, weight = result.draws["bias"].reshape(-1, 1), result.draws["layer"]["weight"]
    draws = np.concatenate([bias, weight.reshape(-1, 6)], axis=1)
    np.testing.assert_allclose(table["mean"], draws.mean(0), rtol=1e-6)
    np.testing.assert_allclose(table["sd"], draws.std(0, ddof=1), rtol=1e-12)
    assert np.all(table["ess_bulk"] > 1)
    assert np.all(table["ess_bulk"] < 3 * CHAINS * DRAWS)
    assert np.all(np.isfinite(table["r_hat"]))


def test_summary_takes_the_options_of_arviz(result):
    table = result.summary(var_names=["bias"], kind="stats")
    assert list(table.index) == ["bias"]
    assert "mean" in table
    assert "r_hat" not in table
    assert table["sd"].item() == pytest.approx(result.draws["bias"].std(ddof=1), rel=1e-12)
    assert "sd" not in result.summary(kind="diagnostics")
    assert result.summary(var_names=["bias"], round_to=2)["sd"].item() == round(
        table["sd"].item(), 2
    )
    one = result.summary(filter_vars="like", var_names=["wei"], coords={"chain": [1]})
    weight = result.draws["layer"]["weight"][1].reshape(-1, 6)
    np.testing.assert_allclose(one["sd"], weight.std(0, ddof=1), rtol=1e-12)


def test_r_hat_sees_chains_that_disagree(result):
    shift = 5.0 * np.arange(CHAINS)
    apart = jax.tree.map(
        lambda leaf: leaf + shift.reshape(-1, *(1,) * (leaf.ndim - 1)), result.draws
    )
    table = result.with_draws(apart).summary()
    assert np.all(table["r_hat"] > 1.5)


def test_a_chain_left_out_is_said_so(result):
    diverged = np.array([False, False, True, False])
    found = Divergence(chain=2, step=30, norm=1e300, step_size=0.05, try_step_size=0.01)
    broken = replace(result, diverged=diverged, divergences=(found,))
    tree = broken.to_arviz()
    np.testing.assert_array_equal(tree["posterior"].chain, [0, 1, 3])
    np.testing.assert_array_equal(tree["posterior"]["bias"], result.draws["bias"][~diverged])
    assert tree.attrs["diverged_chains"] == [2]
    assert "[2]" in broken.summary().attrs["note"]


def test_without_draws_there_is_no_table(result):
    averages = result.with_draws(None)  # as keep="averages" leaves them
    for table in (averages.to_arviz, averages.summary):
        with pytest.raises(ValueError, match=r'keep="averages".*result\.averages'):
            table()


def test_a_bare_array_is_called_x():
    one = vr.sample(
        0,
        vr.models.gaussian.posterior(),
        X[:, 0],
        0.0,
        estimator=vr.full(),
        num_steps=20,
        num_chains=1,
        step_size=1e-2,
        progress=False,
    )
    tree = one.to_arviz()
    assert tree["posterior"]["x"].dims == ("chain", "draw")
    assert tree["posterior"]["x"].shape == (1, 20)
    table = one.summary()
    assert list(table.index) == ["x"]
    np.testing.assert_allclose(table["mean"], one.draws.mean(), rtol=1e-6)
