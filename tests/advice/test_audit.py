"""Audits: predictions against exact laws and real runs, verdicts, and messages."""

import dataclasses
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.core import Sampler
from vrsgmcmc.run.result import Divergence
from vrsgmcmc.theory import gaussian_mean, linear_regression, stationary

IID = "without_replacement"
ESTIMATORS = {
    "minibatch": (vr.minibatch(), IID, IID),
    "practical": (vr.practical(100, 10), IID, IID),
    "practical, shuffled anchors": (vr.practical(100, 10), IID, "shuffled"),
    "svrg": (vr.svrg(), IID, IID),
    "saga": (vr.saga(), IID, IID),
    "control_variate": (vr.control_variate(), IID, IID),
}


def near(inflation):
    """The tolerance of a prediction, for an inflation below 1."""
    return max(0.2 * inflation, 0.03)


class Target:
    """A posterior with its data, its mean and its variances."""

    def __init__(self, posterior, data, mean, variances, exact=None):
        self.posterior, self.data = posterior, jax.tree.map(jnp.asarray, data)
        self.mean, self.variances = jnp.asarray(mean), np.asarray(variances)
        self.exact = exact
        model = vr.theory.local(self.posterior, self.data, self.mean)
        self.largest, self.least = float(model.curvature.max()), float(model.curvature.min())

    def integrator(self, name):
        return vr.sgld() if name == "sgld" else vr.splitting(name, 4 * math.sqrt(self.least))

    def step_size(self, name, a):
        return a / self.largest if name == "sgld" else a / math.sqrt(self.largest)

    def run(self, estimator, name, a, *, num_steps, num_chains, burn_in=0, seed=0):
        method, order, anchor_order = ESTIMATORS[estimator]
        if estimator == "control_variate":
            method = vr.control_variate(self.mean)
        return vr.sample(
            seed,
            self.posterior,
            self.data,
            self.mean,
            estimator=method,
            integrator=self.integrator(name),
            step_size=self.step_size(name, a),
            order=order,
            anchor_order=anchor_order,
            num_steps=num_steps,
            num_chains=num_chains,
            burn_in=burn_in,
            keep="averages",
            observables={"first": first, "square": vr.observable(square, data=self.mean)},
            progress=False,
        )

    def measure(self, result):
        """The mean inflation over the parameters, and its standard error."""
        away = np.asarray(result.averages["first"] - self.mean[None])
        each = np.asarray(result.averages["square"]) - 2 * away * away.mean(0) + away.mean(0) ** 2
        each = np.mean((each / self.variances).reshape(len(each), -1), -1)
        return each.mean() - 1, each.std(ddof=1) / math.sqrt(len(each))


def first(x):
    return x


def square(x, center):
    return jnp.square(x - center)


def make_gaussian():
    values = np.random.default_rng(0).normal(size=1000)
    values = (values - values.mean()) / values.std(ddof=1) * math.sqrt(0.95) + 1.0
    problem = gaussian_mean(values)
    mean, covariance = problem.posterior()
    posterior = vr.models.gaussian.posterior()
    return Target(posterior, values[:, None], mean, covariance[0], problem)


def make_linear():
    rng = np.random.default_rng(4)
    features = rng.normal(size=(400, 4)) * np.geomspace(1, 0.4, 4)
    targets = features @ rng.normal(size=4) + rng.normal(size=400)
    problem = linear_regression(features, targets)
    mean, covariance = problem.posterior()
    posterior = vr.models.linear.posterior()
    return Target(posterior, (features, targets), mean, np.diagonal(covariance), problem)


def make_pima(draws=20_000):
    """Means and variances by importance sampling around the mode, in NumPy."""
    x, y = vr.datasets.pima()
    x = vr.datasets.with_intercept(vr.datasets.standardise(x)[0])
    signed = np.where(y[:, None] == 1, x, -x)
    mode = np.zeros(9)
    for _ in range(20):  # Newton's method
        p = 1 / (1 + np.exp(signed @ mode))
        precision = np.eye(9) + (signed * (p * (1 - p))[:, None]).T @ signed
        mode = mode + np.linalg.solve(precision, signed.T @ p - mode)
    rng, degrees = np.random.default_rng(1), 20
    z = rng.normal(size=(draws // 2, 9)) / np.sqrt(
        rng.chisquare(degrees, (draws // 2, 1)) / degrees
    )
    z = np.concatenate([z, -z])
    points = mode + z @ np.linalg.inv(np.linalg.cholesky(precision))
    height = np.concatenate(
        [
            -np.logaddexp(0, -part @ signed.T).sum(1) - 0.5 * np.sum(part**2, 1)
            for part in np.split(points, 20)
        ]
    )
    height += (degrees + 9) / 2 * np.log1p(np.sum(z**2, 1) / degrees)
    weight = np.exp(height - height.max())
    weight /= weight.sum()
    assert 1 / np.sum(weight**2) > 0.7 * draws
    mean = weight @ points
    variances = weight @ (points - mean) ** 2
    return Target(vr.models.logistic.posterior(), (x, y), mean, variances)


@pytest.fixture(scope="module")
def gaussian():
    return make_gaussian()


@pytest.fixture(scope="module")
def linear():
    return make_linear()


@pytest.fixture(scope="module")
def pima():
    return make_pima()


@pytest.fixture(scope="module")
def gaussian_result(gaussian):
    """A real run, at h (N+1) = 0.02."""
    return gaussian.run("practical", "sgld", 0.02, num_steps=2000, num_chains=128, burn_in=200)


def start(target, estimator=None):
    """A state at the posterior mean, without chains, from `vr.kernel`."""
    kernel = vr.kernel(target.posterior, estimator or vr.minibatch(), vr.sgld(), size=1000)
    return kernel.init(jax.random.key(0), target.mean)


def audit_state(target, state, which, name="sgld", a=0.01, **changes):
    method, order, anchor_order = ESTIMATORS[which]
    settings: dict[str, Any] = dict(
        estimator=method,
        integrator=target.integrator(name),
        step_size=target.step_size(name, a),
        order=order,
        anchor_order=anchor_order,
    )
    return vr.audit(target.posterior, target.data, state, **(settings | changes))


def exact_inflation(target, estimator, name, a, batch_size=10):
    method, order, anchor_order = ESTIMATORS.get(estimator, (vr.full(), IID, IID))
    law = stationary(
        target.exact,
        method,
        target.integrator(name),
        step_size=target.step_size(name, a),
        batch_size=batch_size,
        order=order,
        anchor_order=anchor_order,
    )
    return float(np.mean(np.diagonal(law.covariance) / target.variances - 1))


# ------------------------------------------------------------------------------- predictions


@pytest.mark.parametrize(
    ("estimator", "name", "scaled"),
    [
        ("minibatch", "sgld", (0.002, 0.5)),
        ("practical", "sgld", (0.002, 0.05, 0.5)),
        ("practical, shuffled anchors", "sgld", (0.01, 0.2)),
        ("practical, shuffled anchors", "BAOAB", (0.1,)),
        ("control_variate", "BAOAB", (0.5,)),
    ],
)
def test_gaussian_predictions(gaussian, gaussian_result, estimator, name, scaled):
    for a in scaled:
        audit = audit_state(gaussian, gaussian_result.state, estimator, name, a)
        exact = exact_inflation(gaussian, estimator, name, a)
        plain = exact_inflation(gaussian, "minibatch", name, a, audit.plain_batch_size)
        full = exact_inflation(gaussian, "full", name, a)
        assert audit.inflation == pytest.approx(exact, rel=1e-5, abs=1e-5)
        assert audit.plain_inflation == pytest.approx(plain, rel=1e-5, abs=1e-5)
        assert audit.full_inflation == pytest.approx(full, rel=1e-5, abs=1e-5)
        assert np.ravel(audit.variances)[0] * 1001 - 1 == pytest.approx(exact, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", ["sgld", "BAOAB"])
@pytest.mark.parametrize("estimator", ["minibatch", "practical", "svrg", "control_variate"])
def test_linear_predictions(linear, estimator, name):
    for a in (0.02, 0.1, 0.3):
        audit = audit_state(linear, start(linear), estimator, name, a)
        exact = exact_inflation(linear, estimator, name, a)
        assert abs(audit.inflation - exact) < max(0.05 * exact, 0.002)


def test_gaussian_run(gaussian, gaussian_result):
    compare(gaussian, gaussian_result, precise=0.025)


MEASURED = [  # estimator, integrator, h lambda_max or h sqrt(lambda_max), steps
    ("practical, shuffled anchors", "sgld", 0.1, 1500),
    ("svrg", "BAOAB", 0.3, 1200),
]


@pytest.mark.parametrize(("estimator", "name", "a", "num_steps"), MEASURED)
def test_pima_run(pima, estimator, name, a, num_steps):
    compare(pima, pima.run(estimator, name, a, num_steps=num_steps, num_chains=96, burn_in=300))


def compare(target, result, precise=0.01):
    """The audit of a run agrees with the run, and with the audit of its state."""
    inflation, error = target.measure(result)
    audit = vr.audit(result)
    assert error < precise * (1 + inflation)
    assert inflation < 1
    assert abs(audit.inflation - inflation) < near(inflation)
    again = vr.audit(
        target.posterior,
        target.data,
        result.state,
        estimator=result.context.sampler.estimator,
        integrator=result.context.sampler.integrator,
        step_size=result.context.sampler.step_size,
        batch_size=result.context.sampler.batch_size,
        order=result.context.sampler.order,
        anchor_order=result.context.sampler.anchor_order,
    )
    assert again.verdict == audit.verdict
    assert again.inflation == pytest.approx(audit.inflation, rel=1e-12)


TABLE = [  # h lambda_max (sgld) and h sqrt(lambda_max) (BAOAB) that keep the inflation below 1
    ("gaussian", "minibatch", (0.005, 0.015), (0.01, 0.03)),
    ("gaussian", "practical", (0.005, 0.015), (0.01, 0.03)),
    ("gaussian", "practical, shuffled anchors", (0.01, 0.03), (0.03, 0.06)),
    ("gaussian", "svrg", (0.1, 0.5), (0.1, 0.5)),
    ("gaussian", "saga", (0.05, 0.2), (0.1, 0.3)),
    ("gaussian", "control_variate", (0.1, 0.5), (0.1, 0.5)),
    ("linear", "minibatch", (0.02, 0.05), (0.03, 0.1)),
    ("linear", "practical", (0.02, 0.05), (0.03, 0.1)),
    ("linear", "practical, shuffled anchors", (0.02, 0.1), (0.05, 0.15)),
    ("linear", "svrg", (0.1, 0.4), (0.1, 0.5)),
    ("linear", "saga", (0.1, 0.4), (0.1, 0.5)),
    ("linear", "control_variate", (0.1, 0.5), (0.1, 0.5)),
    ("pima", "minibatch", (0.02, 0.05), (0.03, 0.1)),
    ("pima", "practical", (0.02, 0.05), (0.03, 0.1)),
    ("pima", "practical, shuffled anchors", (0.02, 0.1), (0.05, 0.15)),
    ("pima", "svrg", (0.1, 0.4), (0.1, 0.5)),
    ("pima", "saga", (0.1, 0.4), (0.1, 0.5)),
    ("pima", "control_variate", (0.1, 0.5), (0.1, 0.5)),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sgld", "BAOAB"])
@pytest.mark.parametrize(("target", "estimator", "sgld", "kinetic"), TABLE)
def test_measured_table(request, target, estimator, sgld, kinetic, name):
    """Every target, estimator and integrator, by real runs of 256 chains from the mean."""
    target = request.getfixturevalue(target)
    for a in sgld if name == "sgld" else kinetic:
        rate = a if name == "sgld" else a / 4 * math.sqrt(target.least / target.largest)
        rate *= target.least / target.largest if name == "sgld" else 1
        # the variance of the mean over d variances, relative: 2 / (rate num_steps 256 d) or so
        num_steps = int(np.clip(250 / (rate * target.mean.size), 1500, 60_000))
        result = target.run(
            estimator, name, a, num_steps=num_steps, num_chains=256, burn_in=num_steps // 6
        )
        compare(target, result)


# ----------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("estimator", "a", "gain"),
    [
        ("practical", 0.002, False),
        ("practical", 0.01, False),
        ("practical", 0.05, False),
        ("practical", 0.2, False),
        ("practical", 0.5, True),
        ("practical, shuffled anchors", 0.002, True),
        ("practical, shuffled anchors", 0.01, True),
        ("practical, shuffled anchors", 0.5, True),
        ("svrg", 0.01, True),
        ("svrg", 0.5, True),
        ("saga", 0.01, True),
        ("saga", 0.5, True),
        ("control_variate", 0.01, True),
        ("control_variate", 0.5, True),
    ],
)
def test_verdict_flips_where_it_should(gaussian, gaussian_result, estimator, a, gain):
    audit = audit_state(gaussian, gaussian_result.state, estimator, "sgld", a)
    assert audit.helps is gain
    assert audit.verdict.startswith("gain: " if gain else "no gain: ")
    assert audit.verdict.count(".") == len(re.findall(r"\d\.\d", audit.verdict)) + 1  # one sentence
    name = estimator.split(",")[0]
    assert f"{name} makes posterior variances {audit.inflation:.1%} too wide" in audit.verdict
    text = f"plain minibatches of {audit.plain_batch_size} at the same cost {audit.plain_inflation:.1%}"
    assert text in audit.verdict
    assert audit.plain_batch_size == {"svrg": 30, "practical": 30, "saga": 10}.get(name, 20)


def test_verdict_names_the_change(gaussian, gaussian_result):
    """The option with the least noise times cost, if it is a third better."""
    state = gaussian_result.state
    for estimator, a in (("practical", 0.01), ("practical", 0.2), ("minibatch", 0.2)):
        audit = audit_state(gaussian, state, estimator, "sgld", a)
        best = min(audit.options, key=lambda option: option.noise * option.cost)
        assert f"change to {best.change} ({best.inflation:.1%} at " in audit.verdict
    changes = {option.change for option in audit.options}
    assert changes == {
        "plain minibatches",
        "half the step size",
        "svrg()",
        "saga()",
        "order='shuffled'",
    }
    audit = audit_state(gaussian, state, "practical", "sgld", 0.01)
    changes = {option.change: option for option in audit.options}
    assert {"anchor_order='shuffled'", "anchor_size=400", "period=5"} < changes.keys()
    assert changes["anchor_order='shuffled'"].cost == pytest.approx(audit.cost)
    assert changes["anchor_size=400"].cost == pytest.approx(60)
    assert changes["period=5"].cost == pytest.approx(40)
    assert changes["anchor_order='shuffled'"].inflation == pytest.approx(
        exact_inflation(gaussian, "practical, shuffled anchors", "sgld", 0.01), rel=1e-5
    )
    assert "keep it" in audit_state(gaussian, state, "svrg", "sgld", 0.01).verdict
    wide = audit_state(gaussian, state, "svrg", "sgld", 0.9)
    assert "take a smaller step size: 82% is a lot" in wide.verdict


def test_noise_that_nobody_sees(gaussian, gaussian_result):
    audit = audit_state(gaussian, gaussian_result.state, "practical", "sgld", 1e-5)
    assert not audit.helps
    assert "no gain: at this step size gradient noise is not seen" in audit.verdict
    assert "take a larger step size or plain minibatches" in audit.verdict


def test_runs_that_reduce_nothing(gaussian, gaussian_result):
    plain = audit_state(gaussian, gaussian_result.state, "minibatch", "sgld", 0.01)
    assert not plain.helps
    assert plain.verdict.startswith("no gain: plain minibatches reduce nothing, and make posterior")
    assert plain.plain_inflation == plain.inflation
    full = audit_state(gaussian, gaussian_result.state, "minibatch", a=0.3, estimator=vr.full())
    assert full.verdict.startswith(
        "no gain: the full gradient has no noise to reduce; its step size"
    )
    assert full.inflation == pytest.approx(1 / (1 - 0.3 / 2) - 1, rel=1e-9)
    assert full.full_inflation == full.inflation
    assert full.cost == 1000


def test_unstable_steps(gaussian, gaussian_result, tmp_path):
    """h (N+1) = 2 is the limit of stability of all options."""
    audit = audit_state(gaussian, gaussian_result.state, "svrg", "sgld", 2.5)
    assert not audit.helps
    assert audit.inflation == audit.plain_inflation == audit.full_inflation == np.inf
    text = "no gain: with svrg variances grow without limit at this step size; change to half the"
    assert audit.verdict.startswith(text)
    figure = audit.plot(tmp_path / "audit.png")
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["svrg: no limit", "minibatches of 30: no limit", "full gradient: no limit"]
    far = audit_state(gaussian, gaussian_result.state, "svrg", "sgld", 25.0)
    assert far.verdict.endswith("at this step size; take a smaller one.")


def test_audit_of_a_result(gaussian, gaussian_result):
    audit = vr.audit(gaussian_result)
    again = audit_state(gaussian, gaussian_result.state, "practical", "sgld", 0.02)
    assert audit == dataclasses.replace(again, variances=audit.variances)
    assert audit.estimator == "practical"
    assert audit.cost == 30
    assert audit.evaluations == (3 + 1) * 1000  # the local model, and a gradient
    (block,) = audit.blocks
    noise = 1000 * 900 / 100 * 0.95  # N (N-n1)/n1 S2, constant for 10 steps; differences cancel
    h = gaussian.step_size("sgld", 0.02)
    assert block.ratio == pytest.approx(h / 2 * noise, rel=1e-9)
    assert block.at_rest == pytest.approx(10 * h / 2 * noise, rel=1e-9)
    assert block.plain == pytest.approx(h / 2 * 1000 * 970 / 30 * 0.95, rel=1e-9)
    assert block.inflation == audit.inflation
    assert audit.drift == 0


def test_cost_per_step(gaussian):
    def cost(estimator):
        return Sampler(estimator, vr.sgld(), 0.1, 10, IID, IID).cost_per_step(1000)

    assert cost(vr.full()) == 1000
    assert cost(vr.minibatch()) == 10
    assert cost(vr.practical(100, 10)) == 30
    assert cost(vr.svrg()) == 30
    assert cost(vr.svrg(50)) == 40
    assert cost(vr.saga()) == 10
    assert cost(vr.control_variate(gaussian.mean)) == 20


def test_sgnht_is_measured(gaussian_result):
    """At the state of a real run, whose anchor is a real one."""
    sampler = dataclasses.replace(
        gaussian_result.context.sampler, integrator=vr.sgnht(50.0), step_size=0.001
    )
    context = gaussian_result.context._replace(sampler=sampler)
    audit = vr.audit(dataclasses.replace(gaussian_result, context=context))
    (block,) = audit.blocks
    noise = 1000 * 900 / 100 * 0.95
    assert block.ratio == pytest.approx(0.001 / (2 * 50.0) * noise, rel=1e-6)
    assert block.at_rest == pytest.approx(10 * block.ratio, rel=1e-6)
    assert audit.variances is None
    assert audit.verdict.endswith("at most: the thermostat takes up noise as it adapts.")


# ------------------------------------------------------------------------------------ messages


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (dict(integrator=vr.psgld()), ValueError, "noise that psgld.. injects is not known here"),
        (
            dict(integrator=vr.ito(lambda x, g: g(x), lambda x: 1.0)),
            ValueError,
            "noise that ito.. injects is not known here; audit a run of sgld, sghmc, splitting or",
        ),
        (
            dict(integrator=vr.sgld(0.0)),
            ValueError,
            "at temperature 0, or without friction, no noise",
        ),
        (dict(integrator=vr.splitting("BAOAB", 2.0, 0.0)), ValueError, "no noise is injected"),
        (
            dict(integrator=vr.sgnht(1.0), estimator=vr.saga()),
            ValueError,
            "audit: saga.. on more than 512 parameters, or with sgnht, is not known",
        ),
        (dict(step_size=0.0), ValueError, r"audit\(step_size=0.0\): step_size must be positive"),
        (
            dict(batch_size=0),
            ValueError,
            r"audit\(batch_size=0\): batch_size must be a whole number",
        ),
        (dict(batch_size=1001), ValueError, "batch_size"),
        (dict(order="random"), ValueError, r"audit\(order='random'\): order must be one of"),
        (dict(anchor_order="shufled"), ValueError, "Did you mean 'shuffled'"),
        (dict(estimator=None), TypeError, "needs all of these; or pass a result alone"),
        (dict(integrator=None), TypeError, "needs all of these"),
        (dict(step_size=None), TypeError, "needs all of these"),
        (dict(estimator="practical"), TypeError, "estimator"),
        (dict(integrator=vr.minibatch()), TypeError, "integrator"),
    ],
)
def test_bad_arguments(gaussian, gaussian_result, changes, error, message):
    with pytest.raises(error, match=message):
        audit_state(gaussian, gaussian_result.state, "practical", **changes)


def test_bad_sources(gaussian, gaussian_result):
    settings: dict[str, Any] = dict(estimator=vr.minibatch(), integrator=vr.sgld(), step_size=0.001)
    with pytest.raises(TypeError, match="takes nothing else: a result knows its data"):
        vr.audit(gaussian_result, gaussian.data)
    with pytest.raises(TypeError, match=r"state must be a vr\.State, got dict"):
        vr.audit(gaussian.posterior, gaussian.data, {"position": 0.0}, **settings)
    with pytest.raises(TypeError, match="posterior"):
        vr.audit("posterior", gaussian.data, gaussian_result.state, **settings)
    with pytest.raises(TypeError, match="needs all of these; or pass a result alone"):
        vr.audit(gaussian.posterior)
    lost = gaussian_result.state._replace(position=jnp.full((128, 1), jnp.nan))
    with pytest.raises(ValueError, match="the position is not finite"):
        vr.audit(gaussian.posterior, gaussian.data, lost, **settings)
    state = start(gaussian, vr.svrg())
    settings |= dict(estimator=vr.svrg(), integrator=vr.sgnht(5.0))
    with pytest.raises(ValueError, match=r"the state's anchor is not known yet: kernel\.refresh"):
        vr.audit(gaussian.posterior, gaussian.data, state, **settings)


def test_diverged_chains(gaussian_result):
    """An audit omits chains that became non-finite; without any other it raises."""
    position = gaussian_result.state.position.at[1].set(jnp.nan)
    state = gaussian_result.state._replace(position=position)
    one = dataclasses.replace(gaussian_result, state=state, diverged=np.arange(128) == 1)
    assert vr.audit(one).inflation == pytest.approx(vr.audit(gaussian_result).inflation)
    gone = dataclasses.replace(
        one,
        diverged=np.ones(128, bool),
        divergences=tuple(Divergence(c, 7, 1e30, 0.5, 0.05) for c in range(128)),
    )
    with pytest.raises(ValueError, match=r"every chain became non-finite\. chain 0 .* 0\.05"):
        vr.audit(gone)
