"""The network: its log-densities are the formulas of its docstring."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import stats

from vrsgmcmc.models import mlp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3))
PARAMS = mlp.MLP(
    weight_1=RNG.normal(size=(3, 4)),
    bias_1=RNG.normal(size=4),
    weight_2=RNG.normal(size=(4, 2)),
    bias_2=RNG.normal(size=2),
)


def by_hand(params):
    hidden = np.tanh(X @ params.weight_1 + params.bias_1)
    return hidden @ params.weight_2 + params.bias_2


def prior_by_hand(params, variance):
    return sum(
        stats.norm.logpdf(leaf, scale=variance**0.5).sum() for leaf in jax.tree.leaves(params)
    )


def test_a_classifier():
    posterior = mlp.classifier(2, prior_variance=3.0)
    logits = by_hand(PARAMS)
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(mlp.predict(PARAMS, X), probabilities, rtol=1e-12)
    for row, label in ((0, 0), (3, 1)):
        found = posterior.loglik(PARAMS, (X[row], label))
        np.testing.assert_allclose(found, np.log(probabilities[row, label]), rtol=1e-12)
    np.testing.assert_allclose(posterior.logprior(PARAMS), prior_by_hand(PARAMS, 3.0), rtol=1e-12)


def test_a_regressor():
    posterior = mlp.regressor(variance=0.25, prior_variance=2.0)
    params = replace(PARAMS, weight_2=PARAMS.weight_2[:, :1], bias_2=PARAMS.bias_2[:1])
    expected = stats.norm.logpdf(1.5, loc=by_hand(params)[2, 0], scale=0.5)
    np.testing.assert_allclose(posterior.loglik(params, (X[2], 1.5)), expected, rtol=1e-12)


def test_the_start_has_the_usual_scale_and_differs_from_chain_to_chain():
    initial = mlp.initial(400, 3, hidden=100)
    first, second = (initial(jax.random.key(seed)) for seed in (0, 1))
    for weight, rows in ((first.weight_1, 400), (first.weight_2, 100)):
        spread = float(np.std(weight)) * rows**0.5
        assert abs(spread - 1) < 4 / np.sqrt(2 * weight.size)
    assert not np.any(first.bias_1)
    assert not np.array_equal(first.weight_1, second.weight_1)
    assert mlp.initial(400, 3, hidden=100) is initial  # programs are cached on it
    assert mlp.classifier(3).loglik is mlp.classifier(3).loglik


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mlp.classifier(1), r"num_classes=1\).*at least 2"),
        (lambda: mlp.regressor(variance=0), "variance must be a finite number above zero"),
        (lambda: mlp.initial(0, 2), r"d=0\).*at least 1"),
        (lambda: mlp.initial(3, 2, hidden=0), r"hidden=0\).*at least 1"),
        (lambda: mlp.classifier(2).check((X, np.array([0, 1, 2, 0, 1]))), "labels must be in 0..1"),
        (lambda: mlp.regressor().check(X), "must be a tuple"),
        (lambda: mlp.classifier(3).loglik(PARAMS, (X[0], 0)), "must have 3 outputs.*got 2"),
    ],
)
def test_mistakes_are_told_in_words(call, message):
    with pytest.raises(ValueError, match=message):
        call()
