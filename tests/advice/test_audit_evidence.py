"""An audit compares the draws with its model, and says when the chain is elsewhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.advice.audit import auditor
from vrsgmcmc.advice.audit.evidence import Evidence, Extreme, find_contradiction, parameter_names

SIZE = 200
SCALES = np.array([1.0, 1e3])
rng = np.random.default_rng(0)
X = rng.normal(size=(SIZE, 2)) * SCALES
Y = X @ (np.array([2.0, -1.0]) / SCALES) + rng.normal(size=SIZE)
PRECISION = np.eye(2) + X.T @ X
MODE = np.linalg.solve(PRECISION, X.T @ Y)
POSTERIOR = vr.models.linear.posterior()


def run(init, step_size, data=(X, Y), num_steps=400, **options):
    return vr.sample(
        0,
        POSTERIOR,
        data,
        jnp.asarray(init),
        **{"estimator": vr.svrg(), "num_chains": 4, "progress": False} | options,
        step_size=step_size,
        num_steps=num_steps,
    )


def test_a_chain_that_has_not_arrived():
    """Steps that suit the feature of scale 1000 are too small for the other one."""
    audit = vr.audit(run(MODE + np.array([50.0, 0.0]), 0.1 / PRECISION[1, 1]))
    assert not audit.holds
    assert not audit.helps
    assert audit.evidence.distance.parameter == "x[0]"
    exact = 50 / np.sqrt(np.linalg.inv(PRECISION)[0, 0])
    assert audit.evidence.distance.value == pytest.approx(exact, rel=0.01)
    assert (
        "standard deviations away from the mode (of x[0]): the chain has not arrived"
        in audit.verdict
    )
    assert "do not hold" in audit.verdict
    assert "change to" not in audit.verdict
    assert "take a larger step size" not in audit.verdict
    assert str(audit).endswith(str(audit.evidence))


@pytest.mark.slow
def test_a_chain_that_noise_throws_far_out(monkeypatch):
    """Minibatches that hold one row of high leverage throw the chain out; the audit, which looks at
    a sample of the rows, did not see it."""
    monkeypatch.setattr(auditor, "MOST_ROWS", 100)
    x = rng.normal(size=(1000, 2))
    sample = np.random.default_rng(0).choice(1000, 100, replace=False)
    x[np.setdiff1d(np.arange(1000), sample)[0]] *= 20
    y = x @ [1.0, -1.0] + rng.normal(size=1000)
    precision = np.eye(2) + x.T @ x
    start = np.linalg.solve(precision, x.T @ y)
    options = {"estimator": vr.control_variate(jnp.asarray(start)), "batch_size": 5}
    result = run(start, 0.05 / 1000, (x, y), 5000, **options)
    audit = vr.audit(result)
    exact = np.diagonal(np.linalg.inv(precision))
    assert audit.inflation < 1  # by its model alone, nothing is wrong
    assert (np.var(np.asarray(result.draws), axis=(0, 1)) / exact).max() > 20
    assert not audit.holds
    assert audit.evidence.width.value > 20
    assert "times wider than the model at their mean says (variance of x[" in audit.verdict
    assert "do not hold. Take a smaller step size" in audit.verdict


def test_healthy_runs_hold():
    x = X / SCALES
    precision = np.eye(2) + x.T @ x
    start = np.linalg.solve(precision, x.T @ Y)
    result = run(start, 0.1 / np.linalg.eigvalsh(precision)[-1], (x, Y), 2000)
    audit = vr.audit(result)
    assert audit.holds
    distance, width, shift = audit.evidence
    assert distance.value < 0.5
    assert 0.5 < width.value < 2
    assert shift.value < 1
    observed = np.var(np.asarray(result.draws), axis=(0, 1)) / np.ravel(audit.variances)
    assert width.value == pytest.approx(max(observed, key=lambda ratio: abs(np.log(ratio))))
    first, second = (np.asarray(half).mean((0, 1)) for half in np.split(result.draws, 2, axis=1))
    assert shift.value == pytest.approx(
        np.max(abs(first - second) / np.sqrt(np.ravel(audit.variances)))
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(), None),
        (dict(width=Extreme(3.0, "w[0]")), None),
        (dict(width=Extreme(2e3, "w[1]")), "the draws are 2,000 times wider"),
        (dict(distance=Extreme(9e4, "b")), "the draws' mean is 90,000 standard deviations away"),
        (
            dict(shift=Extreme(7.0, "b")),
            "halves of the draws have means 7 standard deviations apart",
        ),
        (dict(width=Extreme(0.001, "b")), "1,000 times narrower than the model"),
        (dict(width=Extreme(0.0, "b")), "1e+30 times narrower"),
    ],
)
def test_what_contradicts(changes, message):
    evidence = Evidence(Extreme(0.1, "b"), Extreme(1.1, "b"), Extreme(0.2, "b"))._replace(**changes)
    text = find_contradiction(evidence)
    assert text is None if message is None else message in str(text)


def test_names_of_parameters():
    params = {"bias": jnp.zeros(()), "weight": jnp.zeros((2, 2))}
    names = ["bias", "weight[0, 0]", "weight[0, 1]", "weight[1, 0]", "weight[1, 1]"]
    assert parameter_names(params) == names


def test_directions_without_curvature_are_told():
    """Two equal columns, and no prior to tell them apart."""
    flat = vr.Posterior(lambda x: 0.0, POSTERIOR.loglik)
    x = np.stack([X[:, 0], X[:, 0]], 1)
    start = jnp.full(2, np.linalg.lstsq(x, Y)[0].mean())
    state = vr.kernel(flat, vr.minibatch(), vr.sgld(), size=SIZE).init(jax.random.key(0), start)
    options = {"estimator": vr.minibatch(), "integrator": vr.sgld(), "step_size": 1e-4}
    audit = vr.audit(flat, (x, Y), state, **options)
    assert audit.holds
    assert "The curvature of 1 of 2 directions is not resolved" in audit.verdict
