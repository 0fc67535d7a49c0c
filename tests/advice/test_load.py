"""`vr.load`: a result from its directory, without the code that made it."""

import os
import shutil
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import small_runs

import vrsgmcmc as vr
from vrsgmcmc.advice.auto.decision import StoredDecision
from vrsgmcmc.run.store import RunError

LINEAR = eqx.nn.Linear(2, 1, key=jax.random.key(0))


class Pair(NamedTuple):
    slope: jax.Array
    layers: list


def loglik(params, datum):
    return -0.5 * sum(jnp.sum((leaf - datum[0]) ** 2) for leaf in jax.tree.leaves(params))


POSTERIOR = vr.Posterior(lambda params: jnp.zeros(()), loglik)
INIT = Pair(jnp.zeros(()), [LINEAR, {"a": jnp.ones(3)}])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def plain(folder):
    """A run whose parameters are one array."""
    return small_runs.run(folder / "plain")


@pytest.fixture(scope="module")
def modules(folder):
    """A run whose parameters have custom classes."""
    options = dict(step_size=0.01, num_steps=40, num_chains=2, burn_in=10, thin=2, progress=False)
    data = np.random.default_rng(0).normal(size=(20, 1))
    return vr.sample(
        1, POSTERIOR, data, INIT, estimator=vr.minibatch(), run_dir=folder / "modules", **options
    )


def test_a_run_is_loaded_as_it_was(plain, folder):
    loaded = vr.load(folder / "plain")
    np.testing.assert_array_equal(loaded.draws, plain.draws)
    np.testing.assert_array_equal(loaded.draw_steps, plain.draw_steps)
    np.testing.assert_array_equal(loaded.averages["square"], plain.averages["square"])
    assert (loaded.num_steps, loaded.evaluations) == (plain.num_steps, plain.evaluations)
    assert loaded.settings["num_chains"] == small_runs.CHAINS
    assert loaded.decision is None
    assert loaded.record is None
    assert loaded.summary().equals(plain.summary())
    assert "<table" in loaded._repr_html_()
    assert str(loaded).startswith("finished: 2 chains of 96 steps")
    np.testing.assert_array_equal(loaded.predict(lambda p, x: p), plain.predict(lambda p, x: p))


def test_draws_are_read_when_they_are_used(plain, folder, tmp_path):
    copy = shutil.copytree(folder / "plain", tmp_path / "copy")
    loaded = vr.load(copy)
    assert "draws" not in vars(loaded)
    loaded.predict_mean(lambda p, x: p)
    assert "draws" not in vars(loaded)


def test_custom_classes_are_dicts_and_lists_by_their_names(modules, folder):
    loaded = vr.load(os.fspath(folder / "modules"))
    draws = loaded.draws
    np.testing.assert_array_equal(draws["slope"], modules.draws.slope)
    weight = draws["layers"][0]["weight"]
    np.testing.assert_array_equal(weight, modules.draws.layers[0].weight)
    np.testing.assert_array_equal(draws["layers"][1]["a"], modules.draws.layers[1]["a"])
    assert set(loaded.summary().index) == set(modules.summary().index)
    mean = loaded.predict_mean(lambda p, x: p["layers"][0]["weight"] @ x, np.ones(2))
    np.testing.assert_allclose(mean, np.asarray(weight).sum(-1).mean((0, 1)), rtol=1e-6)


def test_like_gives_the_structure_of_the_model(modules, folder):
    loaded = vr.load(folder / "modules", like=INIT)
    assert jax.tree.structure(loaded.draws) == jax.tree.structure(INIT)
    jax.tree.map(np.testing.assert_array_equal, loaded.draws, modules.draws)
    values = loaded.predict(lambda p, x: p.layers[0](x), jnp.ones(2), most=5)
    assert values.shape == (4, 1)
    with pytest.raises(RunError, match=r"those of `like` {'x': \(4,\)}"):
        vr.load(folder / "modules", like=jnp.zeros(4))


@pytest.mark.parametrize("call", ["log_likelihood", "loo", "loo_subsample", "accuracy"])
def test_what_needs_the_model_says_what_to_do(plain, folder, call):
    loaded = vr.load(folder / "plain")
    with pytest.raises(ValueError, match=rf"{call} needs the model(.|\n)*run_dir=.*plain"):
        getattr(loaded, call)()
    with pytest.raises(ValueError, match="audit needs the model"):
        vr.audit(loaded)


def test_paths_that_are_no_runs_say_what_there_is(plain, modules, folder, tmp_path):
    with pytest.raises(RunError, match="there is no such directory"):
        vr.load(folder / "plane")
    with pytest.raises(RunError, match="this is a file"):
        vr.load(folder / "plain" / "commit.json")
    with pytest.raises(RunError, match=r"Runs in it: .*modules', .*plain'\."):
        vr.load(folder)
    with pytest.raises(RunError, match=r"A run directory has a commit\.json"):
        vr.load(tmp_path)


def test_a_job_of_the_command_line_is_its_chains(plain, folder, tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    (job / "job.json").write_text("{}")
    with pytest.raises(RunError, match=r"nothing of this job is sampled yet. Start it: vrsgmcmc"):
        vr.load(job)
    shutil.copytree(folder / "plain", job / "chains")
    np.testing.assert_array_equal(vr.load(job).draws, plain.draws)
    with pytest.raises(RunError, match=r"Runs in it: .*job'"):
        vr.load(tmp_path)


def test_a_damaged_decision_is_left_out(plain, folder, tmp_path, caplog):
    copy = shutil.copytree(folder / "plain", tmp_path / "copy")
    (copy / "decision.json").write_text('{"sampler": 1}')
    assert vr.load(copy).decision is None
    assert "the decision cannot be read" in caplog.text


@pytest.mark.slow
def test_the_decision_and_the_accuracy_come_back(tmp_path):
    data = np.random.default_rng(0).normal(0.7, 1.0, 1000)
    result = vr.sample(
        0,
        vr.models.gaussian.posterior(),
        data,
        jnp.zeros(()),
        run_dir=tmp_path / "run",
        progress=False,
    )
    loaded = vr.load(tmp_path / "run")
    assert isinstance(loaded.decision, StoredDecision)
    assert str(loaded.decision).split("\n")[1:-1] == str(result.decision).split("\n")[1:-1]
    assert loaded.record.verdict == result.record.verdict
    assert loaded.accuracy() is loaded.record
    for page in (result, loaded):
        assert result.record.verdict.split(":")[0] in page._repr_html_()
    for each in (result.decision, loaded.decision, result.record):
        assert each._repr_html_().startswith("<div>")
