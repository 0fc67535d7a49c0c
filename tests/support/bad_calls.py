"""Calls of `vr.sample` on a small linear regression, with one argument changed."""

import jax
import jax.numpy as jnp
import numpy as np

import vrsgmcmc as vr

N, D = 24, 3
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, D))
Y = (_rng.random(N) < 0.5).astype(np.int32)
START = np.zeros(D)

COMPILED = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **about: (
        COMPILED.append(about.get("fun_name")) if "backend_compile" in name else None
    )
)


def logprior(w):
    return -0.5 * jnp.sum(w**2)


def loglik(w, datum):
    x, y = datum
    return -0.5 * (y - x @ w) ** 2


PLAIN = vr.Posterior(logprior, loglik)
LOGISTIC = vr.models.logistic.posterior()


def sample(key=0, posterior=None, data=(X, Y), init=START, **options):
    if posterior is None:  # a new one each time, of which nothing has been compiled
        posterior = vr.Posterior(logprior, lambda w, datum: loglik(w, datum))
    given = {
        "estimator": vr.minibatch(),
        "batch_size": 4,
        "num_steps": 20,
        "num_chains": 2,
        "step_size": 1e-3,
        "progress": False,
    }
    return vr.sample(key, posterior, data, init, **given | options)


def with_loglik(function, **options):
    return sample(posterior=vr.Posterior(logprior, function), **options)


def with_logprior(function, **options):
    return sample(posterior=vr.Posterior(function, loglik), **options)


def with_augment(function, **options):
    return sample(posterior=vr.Posterior(logprior, loglik, function), **options)


def spoilt(rows, value=np.nan, of=X):
    """A copy of the data with bad values in some rows."""
    bad = np.array(of)
    bad[rows, 1] = value
    return bad


def only_three(w):
    assert w.shape == (3,)
    return jnp.sum(w)
