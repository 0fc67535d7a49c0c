"""Starts that are refused: no finite density there, or the state of another run."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.bad_calls import (
    COMPILED,
    PLAIN,
    START,
    D,
    N,
    X,
    Y,
    loglik,
    logprior,
    only_three,
    sample,
    spoilt,
    with_loglik,
    with_logprior,
)

import vrsgmcmc as vr
from vrsgmcmc.core import Sampler
from vrsgmcmc.core.tree import full_like
from vrsgmcmc.run import set_up, step_sizes
from vrsgmcmc.run.checks import check_refreshed


def with_late_row(value):
    """A hundred rows, with a third column of ones that has another value in row 87."""
    column = np.ones(100)
    column[87] = value
    return np.tile(X, (5, 1))[:100], np.tile(Y, 5)[:100], column


# the log-density at the start cannot be known without computing it
AT_THE_START = {
    "outside the prior": (
        lambda: with_logprior(lambda w: jnp.log(w[0])),
        r"logprior is -inf at init.*[Ss]tart inside the prior's support",
    ),
    "loglik is NaN": (
        lambda: with_loglik(lambda w, datum: jnp.log(w[0] - 1) + datum[1]),
        r"loglik is nan for data row 0 at init.*[Ss]tart elsewhere",
    ),
    "a late row has no density, though its gradient is finite": (
        lambda: with_loglik(
            lambda w, datum: loglik(w, datum[:2]) + jnp.log(datum[2]), data=with_late_row(0.0)
        ),
        r"loglik is -inf for data row 87 at init \(1 of 100 rows are not finite\). Look at that row",
    ),
    "a late row is NaN": (
        lambda: with_loglik(
            lambda w, datum: loglik(w, datum[:2]) + jnp.log(datum[2]), data=with_late_row(-1.0)
        ),
        r"loglik is nan for data row 87 at init",
    ),
    "the gradient is not finite": (
        lambda: sample(
            init={"a": START, "b": np.zeros(2)},
            posterior=vr.Posterior(
                lambda p: logprior(p["a"]) - jnp.linalg.norm(p["b"]),
                lambda p, datum: loglik(p["a"], datum),
            ),
        ),
        r"gradient of logprior is not finite at init.*leaf b.*root or norm at 0",
    ),
    "one of the starts": (
        lambda: with_logprior(
            lambda w: jnp.log(w[0]), init=lambda key: jnp.abs(jax.random.normal(key, (D,))) - 0.5
        ),
        r"logprior is nan.*chain \d",
    ),
}


@pytest.mark.parametrize("name", AT_THE_START)
def test_a_start_without_a_finite_density_is_refused(name):
    call, message = AT_THE_START[name]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()


@dataclass
class Finished:
    """A state to continue from, as a run of two chains has it before its first refresh."""

    estimator: object
    integrator: object = vr.sgld()

    @property
    def state(self):
        kernel = vr.kernel(PLAIN, self.estimator, self.integrator, size=N, batch_size=4)
        keys = jax.random.split(jax.random.key(0), 2)
        return jax.vmap(lambda key: kernel.init(key, jnp.asarray(START)))(keys)


CONTINUED = {
    "another number of chains": (
        lambda: sample(init=Finished(vr.minibatch()).state, num_chains=3),
        r"2 chains, but num_chains=3.*must agree",
    ),
    "no axis of chains": (
        lambda: sample(
            init=vr.kernel(PLAIN, vr.minibatch(), vr.sgld(), size=N).init(
                jax.random.key(0), jnp.asarray(START)
            )
        ),
        r"without a chain axis.*num_chains=2",
    ),
    "another estimator": (
        lambda: sample(init=Finished(vr.minibatch()).state, estimator=vr.practical(8)),
        r"state that practical\(\) cannot continue.*memory is of another estimator",
    ),
    "another integrator": (
        lambda: sample(init=Finished(vr.minibatch()).state, integrator=vr.sghmc(1.0)),
        r"state that sghmc\(\) cannot continue.*another integrator",
    ),
    "another number of data": (
        lambda: sample(init=Finished(vr.saga()).state, estimator=vr.saga(), data=(X[:-4], Y[:-4])),
        r"24.*20",
    ),
    "saga without its table": (
        lambda: sample(init=Finished(vr.saga()).state, estimator=vr.saga()),
        r"saga\(\) cannot continue: it was never refreshed.*kernel\.refresh\(.*or start from its pos",
    ),
    "control_variate without its sum": (
        lambda: sample(
            init=Finished(vr.control_variate(START)).state, estimator=vr.control_variate(START)
        ),
        r"control_variate\(\) cannot continue: it was never refreshed.*kernel\.refresh\(",
    ),
    "parameters of another shape": (
        lambda: sample(init=Finished(vr.minibatch()).state, data=(X[:, :2], Y)),
        r"loglik\(params, datum\) failed.*parameters of shapes \(3,\)",
    ),
}


@pytest.mark.parametrize("name", CONTINUED)
def test_a_state_of_another_run_is_refused(name):
    call, message = CONTINUED[name]
    COMPILED.clear()
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()
    assert "jit(run)" not in COMPILED


def test_numbers_too_large_for_32_bits_are_refused():
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match=r"data leaf 1.*do not fit int32.*1099511627776"):
            sample(data=(X, np.full(N, 2**40)))
        with pytest.raises(ValueError, match=r"data leaf 0.*float32.*row 3"):
            sample(data=(spoilt([3], 1e300), Y))


def test_big_endian_arrays_are_converted():
    usual = sample(data=(X, Y), init=START)
    other = sample(data=(X.astype(">f8"), Y.astype(">i4")), init=START.astype(">f8"))
    np.testing.assert_array_equal(other.draws, usual.draws)


def test_parameters_in_16_bits_are_warned_of():
    with pytest.warns(UserWarning, match=r"16 bits \(leaf b\).*20 % wrong.*Use float32"):
        set_up(
            0,
            vr.Posterior(lambda p: logprior(p["a"]), lambda p, datum: loglik(p["a"], datum)),
            (X, Y),
            {"a": START, "b": jnp.zeros(2, jnp.bfloat16)},
            Sampler(vr.minibatch(), vr.sgld(), 1e-3, 4),
            num_steps=2,
            num_chains=1,
        )


def test_what_is_near_a_mistake_is_fine():
    """The other side of the table: none of these is refused."""
    vr.sgld(0.0)
    vr.sghmc(1, temperature=0)
    vr.splitting("BAOA", np.float32(1.0))
    vr.practical(np.int64(9), period=1)
    vr.observable(only_three, every=np.int32(2))
    unknown = Finished(vr.saga()).state
    check_refreshed(unknown._replace(memory=full_like(unknown.memory, 0.0)), vr.saga())
    check_refreshed(unknown._replace(step=jnp.array([0, 3])), vr.saga())  # one chain has diverged
    check_refreshed(unknown, vr.minibatch())
    fallen = step_sizes.in_dtype(
        np.array([1e-3, 1e-7, 0.0]), np.float16
    )  # a schedule that ends at 0
    assert fallen.dtype == np.float16
    assert (fallen > 0).tolist() == [True, True, False]
