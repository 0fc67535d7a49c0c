"""Audits of large models, which measure the noise at a state; text and figure of an audit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.advice.audit.effects import subsample_size

CLASSES, FEATURES, ROWS = 10, 59, 300  # 600 parameters


class Softmax:
    """600 parameters, and a state that is a little away from its anchor."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.data = (
            jnp.asarray(rng.normal(size=(ROWS, FEATURES))),
            jnp.asarray(rng.integers(CLASSES, size=ROWS)),
        )
        self.posterior = vr.models.softmax.posterior(CLASSES)
        zero = vr.models.softmax.initial(FEATURES, CLASSES)
        self.point, self.anchor = (
            jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) * 0.05), zero)
            for _ in range(2)
        )

    def audit(self, estimator, **orders):
        kernel = vr.kernel(self.posterior, estimator, vr.sgld(), size=ROWS)
        state = kernel.init(jax.random.key(0), self.point)
        if estimator.name in ("practical", "svrg"):
            state = state._replace(memory=state.memory._replace(anchor=self.anchor))
        elif estimator.name == "control_variate":
            state = state._replace(memory=state.memory._replace(center=self.anchor))
        settings: dict[str, Any] = dict(estimator=estimator, integrator=vr.sgld(), step_size=1e-3)
        return vr.audit(self.posterior, self.data, state, **settings, **orders)


@pytest.fixture(scope="module")
def softmax():
    return Softmax()


@pytest.fixture(scope="module")
def softmax_audit(softmax):
    return softmax.audit(vr.practical(60, 10))


def spreads(values):
    return np.sum((values - values.mean(0)) ** 2) / (len(values) - 1)


def softmax_gradients(params, data):
    """Per-datum gradients in NumPy: bias [N, K], weight [N, d K]."""
    x, y = map(np.asarray, data)
    logits = x @ np.asarray(params["weight"]) + np.asarray(params["bias"])
    p = np.exp(logits - logits.max(1, keepdims=True))
    error = np.eye(CLASSES)[y] - p / p.sum(1, keepdims=True)
    return {"bias": error, "weight": (x[:, :, None] * error[:, None]).reshape(len(x), -1)}


@pytest.mark.parametrize("estimator", ["practical", "svrg", "control_variate", "minibatch"])
def test_large_models_are_measured(softmax, softmax_audit, estimator):
    alpha, beta = (softmax_gradients(x, softmax.data) for x in (softmax.point, softmax.anchor))
    f2, f1 = ROWS * (ROWS - 10) / 10, ROWS * (ROWS - 60) / 60
    cost = {"practical": 26, "svrg": 30, "control_variate": 20, "minibatch": 10}[estimator]
    f = ROWS * (ROWS - cost) / cost
    audit = softmax_audit
    if estimator != "practical":
        audit = softmax.audit(vr.ESTIMATORS[estimator]())
    assert [block.name for block in audit.blocks] == ["bias", "weight"]
    total = 0.0
    for block in audit.blocks:
        a, b = alpha[block.name], beta[block.name]
        difference = f2 * spreads(a - b)
        noise, rest = {
            "practical": (difference + f1 * spreads(b), difference + 10 * f1 * spreads(b)),
            "minibatch": (f2 * spreads(a), f2 * spreads(a)),
        }.get(estimator, (difference, difference))
        unit = 1e-3 / 2 / block.parameters
        assert block.parameters == a.shape[1]
        assert block.ratio == pytest.approx(unit * noise, rel=1e-6)
        assert block.at_rest == pytest.approx(unit * rest, rel=1e-6)
        assert block.inflation == block.at_rest
        assert block.plain == pytest.approx(unit * f * spreads(a), rel=1e-6)
        total += 1e-3 / 2 / 600 * rest
    assert audit.inflation == pytest.approx(total, rel=1e-6)
    assert audit.full_inflation == 0
    assert audit.variances is None
    assert audit.helps is (estimator in ("svrg", "control_variate"))
    assert audit.evaluations == (4 if estimator == "minibatch" else 6) * ROWS  # of both samplers
    if estimator != "minibatch":
        both = sum(spreads(alpha[name] - beta[name]) for name in alpha)
        assert audit.drift == pytest.approx(both / sum(map(spreads, alpha.values())), rel=1e-6)


def test_shuffled_anchors_of_large_models(softmax, softmax_audit):
    """60 divides 300: the errors of a sweep cancel at rest; the noise of one step stays."""
    shuffled = softmax.audit(vr.practical(60, 10), order="shuffled", anchor_order="shuffled")
    for one, other in zip(shuffled.blocks, softmax_audit.blocks, strict=True):
        assert one.ratio == pytest.approx(other.ratio, rel=1e-9)
        assert one.at_rest == pytest.approx(0, abs=1e-12)


# -------------------------------------------------------------------------------- words, pictures


def test_words(softmax_audit):
    lines = str(softmax_audit).splitlines()
    assert lines[0].startswith("no gain: practical makes posterior variances")
    assert lines[2].split() == ["block", "parameters", "ratio", "at", "rest", "plain", "inflation"]
    assert [line.split()[:2] for line in lines[3:]] == [["bias", "10"], ["weight", "590"]]
    assert len({len(line) for line in lines[2:]}) == 1


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_plot(softmax_audit, tmp_path, kind):
    audit = softmax_audit
    path = tmp_path / f"audit.{kind}"
    figure = audit.plot(path)
    begins = {"png": b"\x89PNG", "svg": b"<?xml"}[kind]
    assert path.read_bytes().startswith(begins)
    left, right = figure.axes
    widths = [bar.get_width() for bar in left.patches]
    assert widths == pytest.approx([100 * v for v in (audit.inflation, audit.plain_inflation, 0)])
    assert [label.get_text() for label in right.get_yticklabels()] == ["bias", "weight"]
    bars = [bar.get_width() for bar in right.patches]
    lengths = [b.at_rest for b in audit.blocks] + [b.plain for b in audit.blocks]
    assert bars == pytest.approx(lengths)
    assert figure.get_suptitle().replace("\n", " ") == audit.verdict
    assert audit.plot() is not None


@pytest.mark.parametrize(
    ("shape", "parameters", "rows"),
    [
        ((100, 5), 10, 100),
        ((60_000, 784), 79_510, 4096),
        ((45_000, 32, 32, 3), 269_722, 4096),
        ((4_500, 10, 32, 32, 3), 269_722, 546),  # groups of images
        ((59_000, 35), 13_986_078, 307),
        ((59_000, 35), 1_000_000_000, 256),
    ],
)
def test_an_audit_looks_at_fewer_rows_where_they_are_dear(shape, parameters, rows):
    data = np.broadcast_to(0, shape), np.broadcast_to(0, shape[:1])
    assert subsample_size(data, shape[0], parameters) == rows
