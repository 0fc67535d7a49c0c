"""Bad input: every mistake is answered with what was wrong, what was got, and what to do.

Each row of the table is a call and a pattern that its message must match. Nothing may be compiled
before: who has made a mistake should not wait for it.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from support.bad_calls import (
    COMPILED,
    LOGISTIC,
    PLAIN,
    START,
    D,
    N,
    X,
    Y,
    loglik,
    only_three,
    sample,
    spoilt,
    with_augment,
    with_loglik,
    with_logprior,
)

import vrsgmcmc as vr

OLD_KEY = np.array([0, 7], np.uint32)
DataLoader = type("DataLoader", (), {"__module__": "torch.utils.data", "__iter__": iter})
WORDS = r"Words that work: BAOAB"

# what a call must say, whatever it checks first: nothing of this needs a compiled program
REFUSED = {
    # keys
    "key: text": (lambda: sample(key="seed"), TypeError, r"key.*jax\.random\.key\(seed\).*'seed'"),
    "key: none": (lambda: sample(key=None), TypeError, r"key.*jax\.random\.key\(seed\).*None"),
    "key: fraction": (lambda: sample(key=1.5), TypeError, r"key must be.*whole number.*1\.5"),
    "key: bool": (lambda: sample(key=True), TypeError, r"key must be.*True"),
    "key: huge": (
        lambda: sample(key=2**70),
        (TypeError, ValueError),
        r"key.*1180591620717411303424",
    ),
    "key: old style": (
        lambda: sample(key=OLD_KEY),
        TypeError,
        r"old-style uint32 key.*jax\.random\.key\(seed\).*wrap_key_data",
    ),
    "key: several": (
        lambda: sample(key=jax.random.split(jax.random.key(0), 3)),
        ValueError,
        r"one key.*shape \(3,\).*chains get keys of their own",
    ),
    # what is sampled, and how
    "posterior: a function": (
        lambda: sample(posterior=loglik),
        TypeError,
        r"posterior must be a vr\.Posterior\(logprior, loglik\), got function",
    ),
    "estimator: a name": (
        lambda: sample(estimator="practical"),
        TypeError,
        r"estimator.*vr\.practical\(\).*got 'practical'",
    ),
    "estimator: not called": (
        lambda: sample(estimator=vr.practical),
        TypeError,
        r"estimator.*the function itself; call it: practical\(\)",
    ),
    "estimator: an integrator": (
        lambda: sample(estimator=vr.sgld()),
        TypeError,
        r"estimator must be.*got SGLD",
    ),
    "integrator: a name": (
        lambda: sample(integrator="sgld"),
        TypeError,
        r"integrator.*vr\.sgld\(\).*got 'sgld'",
    ),
    "integrator: not called": (
        lambda: sample(integrator=vr.sgld),
        TypeError,
        r"integrator.*the function itself; call it: sgld\(\)",
    ),
    "integrator: an estimator": (
        lambda: sample(integrator=vr.saga()),
        TypeError,
        r"integrator must be.*got SAGA",
    ),
    # sizes
    "num_steps: 0": (lambda: sample(num_steps=0), ValueError, r"num_steps=0\).*at least 1"),
    "num_steps: a float": (lambda: sample(num_steps=1e4), ValueError, r"10000\.0.*whole number"),
    "num_steps: a bool": (lambda: sample(num_steps=True), ValueError, r"num_steps=True.*whole"),
    "num_steps: too many": (
        lambda: sample(num_steps=2**31, keep="averages"),
        ValueError,
        r"num_steps=2147483648.*at most.*init=result\.state",
    ),
    "num_chains: 0": (lambda: sample(num_chains=0), ValueError, r"num_chains=0\).*at least 1"),
    "num_chains: too many": (
        lambda: sample(num_chains=2**30),
        ValueError,
        r"num_chains=1073741824\): at most 1048576 chains",
    ),
    "num_chains: more than the memory": (
        lambda: sample(
            posterior=vr.Posterior(lambda w: w[0], lambda w, datum: w[0] * datum[1]),
            num_chains=2**20,
            init=np.zeros(2**17),
        ),
        MemoryError,
        r"1048576 chains of 1,048,576 bytes.*Use fewer chains",
    ),
    "init: more than the memory": (
        lambda: sample(init=lambda key: jnp.zeros((2**50,))),
        MemoryError,
        r"the start, init\(key\), needs",
    ),
    "thin: 0": (lambda: sample(thin=0), ValueError, r"thin=0\).*at least 1"),
    "thin: longer than the run": (
        lambda: sample(thin=21),
        ValueError,
        r"thin=21.*20 steps",
    ),
    "burn_in: negative": (lambda: sample(burn_in=-1), ValueError, r"burn_in=-1\).*at least 0"),
    "burn_in: everything": (
        lambda: sample(burn_in=20),
        ValueError,
        r"burn_in=20.*num_steps=20 includes burn_in.*[Tt]ake more steps",
    ),
    "batch_size: 0": (lambda: sample(batch_size=0), ValueError, r"batch_size=0\).*at least 1"),
    "batch_size: more than the data": (
        lambda: sample(batch_size=25),
        ValueError,
        r"batch_size=25.*larger than the data.*24 rows",
    ),
    "anchor: more than the data": (
        lambda: sample(estimator=vr.practical(25)),
        ValueError,
        r"anchor_size=25.*24 rows.*svrg\(\)",
    ),
    "anchor: no more than the batch": (
        lambda: sample(estimator=vr.practical(4)),
        ValueError,
        r"anchor_size=4.*batch_size=4.*n1 > n2.*larger anchor_size",
    ),
    "anchor: 0": (lambda: vr.practical(0), ValueError, r"practical\(anchor_size=0\).*at least 1"),
    "period: 0": (lambda: vr.practical(period=0), ValueError, r"period=0\).*at least 1"),
    "average: 0": (lambda: vr.practical(average=0), ValueError, r"average=0\).*at least 1"),
    "svrg period: a float": (lambda: vr.svrg(1.5), ValueError, r"svrg\(period=1\.5\).*whole"),
    "kernel: no data": (
        lambda: vr.kernel(PLAIN, vr.saga(), vr.sgld(), size=0),
        ValueError,
        r"kernel\(size=0\).*at least 1",
    ),
    "kernel: empty batches": (
        lambda: vr.kernel(PLAIN, vr.svrg(), vr.sgld(), size=5, batch_size=0),
        ValueError,
        r"kernel\(batch_size=0\).*at least 1",
    ),
    "kernel: negative clip": (
        lambda: vr.kernel(PLAIN, vr.svrg(), vr.sgld(), size=5, clip=-1.0),
        ValueError,
        r"kernel\(clip=-1\.0\).*positive",
    ),
    # names of arguments elsewhere
    "num_samples": (
        lambda: sample(num_samples=9),
        TypeError,
        r"sample\(num_samples=\.\.\.\): there is no argument 'num_samples'\. Here it is num_steps",
    ),
    "num_warmup": (lambda: sample(num_warmup=9), TypeError, r"'num_warmup'\. Here it is burn_in"),
    "step": (lambda: sample(step=0.1), TypeError, r"'step'\. Here it is step_size\."),
    "seed": (lambda: sample(seed=1), TypeError, r"'seed'\. Here it is key, the first argument"),
    "num_chain": (lambda: sample(num_chain=1), TypeError, r"Did you mean num_chains\?"),
    "unknown": (lambda: sample(qqqq=1), TypeError, r"no argument 'qqqq'\. help\(vr\.sample\)"),
    # choices
    "order": (
        lambda: sample(order="shufled"),
        ValueError,
        r"order='shufled'.*'symmetric'.*Did you mean 'shuffled'\?",
    ),
    "anchor_order": (
        lambda: sample(anchor_order="symetric"),
        ValueError,
        r"anchor_order='symetric'.*Did you mean 'symmetric'\?",
    ),
    "weights": (lambda: sample(weights="equals"), ValueError, r"'equals'.*Did you mean 'equal'\?"),
    "chain_method": (
        lambda: sample(chain_method="pmap"),
        ValueError,
        r"chain_method='pmap'.*'vmap', 'sequential'",
    ),
    "keep": (lambda: sample(keep="all"), ValueError, r"keep='all'.*'draws', 'averages'"),
    "clip: 0": (lambda: sample(clip=0), ValueError, r"clip=0\).*positive"),
    "clip: NaN": (lambda: sample(clip=np.nan), ValueError, r"clip=nan.*finite"),
    # step sizes
    "step: 0": (lambda: sample(step_size=0), ValueError, r"step_size=0.*positive.*0\.1 / N"),
    "step: negative": (lambda: sample(step_size=-1e-3), ValueError, r"-0\.001.*positive"),
    "step: NaN": (lambda: sample(step_size=np.nan), ValueError, r"nan.*positive and finite"),
    "step: infinite": (lambda: sample(step_size=np.inf), ValueError, r"inf.*positive and finite"),
    "step: text": (lambda: sample(step_size="big"), TypeError, r"step_size.*schedule.*'big'"),
    "step: text of a number": (
        lambda: sample(step_size="0.001"),
        TypeError,
        r"step_size.*schedule.*'0\.001'",
    ),
    "step: true": (lambda: sample(step_size=True), TypeError, r"step_size must be.*got True"),
    "step: NumPy's true": (
        lambda: sample(step_size=[np.True_, np.True_]),
        TypeError,
        r"step_size must be a number",
    ),
    "step: infinite in float32": (
        lambda: sample(step_size=1e39, init=START.astype(np.float32)),
        ValueError,
        r"step_size: 1e\+39 is infinite in float32.*largest number is 3\.4e\+38",
    ),
    "step: one is zero": (lambda: sample(step_size=[1e-3, 0]), ValueError, r"positive and finite"),
    "step: too many": (
        lambda: sample(step_size=np.full(3, 1e-3)),
        ValueError,
        r"shape \(3,\).*\(2,\), one for each chain",
    ),
    "schedule: negative": (
        lambda: sample(step_size=lambda l: 1e-3 * (5 - l)),
        ValueError,
        r"schedule gives -0\.001 at step 6.*not negative",
    ),
    "schedule: NaN": (
        lambda: sample(step_size=lambda l: jnp.where(l < 10, 1e-3, jnp.nan)),
        ValueError,
        r"schedule gives nan at step 10",
    ),
    "schedule: zero everywhere": (
        lambda: sample(step_size=lambda l: 0.0 * l),
        ValueError,
        r"schedule is 0 at every step.*not move",
    ),
    "schedule: a vector": (
        lambda: sample(step_size=lambda l: 1e-3 * jnp.ones(2)),
        ValueError,
        r"schedule\(l\) must return one number.*\(2,\)",
    ),
    "schedule: nothing": (
        lambda: sample(step_size=lambda l: None),
        (TypeError, ValueError),
        r"schedule\(l\) must return one number.*None",
    ),
    "schedule: no argument": (
        lambda: sample(step_size=lambda: 1e-3),
        (TypeError, ValueError),
        r"step_size.*schedule\(l\)",
    ),
    "step: 0 in float16": (
        lambda: sample(step_size=1e-8, init=START.astype(np.float16)),
        ValueError,
        r"step_size: 1e-08 is 0 in float16.*smallest positive number is 6e-08.*Use float32 param",
    ),
    "step: of one chain 0 in float32": (
        lambda: sample(step_size=[1e-3, 1e-60], init=START.astype(np.float32)),
        ValueError,
        r"step_size: 1e-60 is 0 in float32.*Use float64 param",
    ),
    "schedule: falls to 0 in float16": (
        lambda: sample(step_size=lambda l: 1e-3 * 0.1**l, init=START.astype(np.float16)),
        ValueError,
        r"step_size: 1e-08 is 0 in float16.*may also be exactly 0",
    ),
    # integrators
    "temperature: negative": (lambda: vr.sgld(-1.0), ValueError, r"temperature=-1\.0.*0 or more"),
    "temperature: true": (lambda: vr.sgld(True), ValueError, r"temperature=True.*finite number"),
    "temperature: NumPy's true": (lambda: vr.sgld(np.True_), ValueError, r"True.*finite number"),
    "temperature: JAX's true": (lambda: vr.sgld(jnp.array(True)), ValueError, r"finite number"),
    "temperature: 10**400": (lambda: vr.sgld(10**400), ValueError, r"finite number"),
    "num_steps: JAX's true": (lambda: sample(num_steps=jnp.array(True)), ValueError, r"whole"),
    "variance: true": (
        lambda: vr.models.linear.posterior(variance=True),
        ValueError,
        r"variance must be a finite number above zero, got True",
    ),
    "temperature: NaN": (lambda: vr.sgld(np.nan), ValueError, r"temperature=nan.*finite"),
    "temperature: text": (lambda: vr.sgld("hot"), ValueError, r"'hot'.*finite number"),
    "friction: 0": (lambda: vr.sghmc(0.0), ValueError, r"sghmc\(friction=0\.0\).*positive"),
    "friction: negative": (lambda: vr.sgnht(-1.0), ValueError, r"sgnht\(friction=-1\.0\).*posit"),
    "decay: 1": (lambda: vr.psgld(decay=1.0), ValueError, r"decay=1\.0.*below 1"),
    "eps: 0": (lambda: vr.psgld(eps=0), ValueError, r"eps=0\).*positive"),
    "word: two gradients": (
        lambda: vr.splitting("ABABO", 1.0),
        ValueError,
        rf"'ABABO'.*needs 2 gradients.*{WORDS}",
    ),
    "word: unknown letter": (lambda: vr.splitting("BAXAB", 1.0), ValueError, rf"'BAXAB'.*{WORDS}"),
    "word: U beside A": (lambda: vr.splitting("UBA", 1.0), ValueError, rf"'UBA'.*beside.*{WORDS}"),
    "word: no O": (lambda: vr.splitting("BAB", 1.0), ValueError, rf"'BAB'.*O is missing.*{WORDS}"),
    "drift: a number": (
        lambda: vr.ito(1.0, lambda x: 1.0),
        ValueError,
        r"ito\(drift=1\.0\).*function of x",
    ),
    "auxiliary: a number": (
        lambda: vr.ito(lambda x, g: g, lambda x: 1.0, auxiliary=3),
        ValueError,
        r"auxiliary=3\).*function of \(key, params\)",
    ),
    # data
    "data: none": (lambda: sample(data=None), ValueError, r"data holds no arrays"),
    "data: empty": (lambda: sample(data=(X[:0], Y[:0])), ValueError, r"data is empty.*0 rows"),
    "data: a scalar": (
        lambda: sample(data=(X, 1.0)),
        ValueError,
        r"data leaf 1 is a scalar.*leading axis N",
    ),
    "data: a list of rows": (
        lambda: sample(data=[[1.0, 2.0], [3.0, 4.0]]),
        ValueError,
        r"data leaf 0\.0 is a scalar.*leading axis N.*pass numpy\.asarray\(data\)",
    ),
    "data: a DataFrame": (
        lambda: sample(data=pandas.DataFrame(X)),
        TypeError,
        r"data leaf x is a pandas DataFrame.*df\.to_numpy\(\).*for name in df\}\. vr\.table\(df",
    ),
    "data: a Series": (
        lambda: sample(data=(X, pandas.Series(Y))),
        TypeError,
        r"data leaf 1 is a pandas Series.*to_numpy\(\)",
    ),
    "data: a loader of PyTorch": (
        lambda: sample(data=DataLoader()),
        TypeError,
        r"data leaf x is a torch DataLoader.*pass all data as arrays",
    ),
    "data: a generator": (
        lambda: sample(data=(row for row in X)),
        TypeError,
        r"data leaf x is generator.*pass all data as arrays",
    ),
    "data: longdouble": (
        lambda: sample(data={"x": X.astype(np.longdouble), "y": Y}),
        TypeError,
        r"data leaf x has dtype float128.*astype\(numpy\.float64\)",
    ),
    "data: complex longdouble": (
        lambda: sample(data={"x": X.astype(np.clongdouble), "y": Y}),
        TypeError,
        r"data leaf x has dtype complex256.*astype\(numpy\.complex128\)",
    ),
    "data: NaN, big-endian": (
        lambda: sample(data={"x": spoilt([5]).astype(">f8"), "y": Y}),
        ValueError,
        r"data leaf x holds 1 value.*first in row 5",
    ),
    "data: unequal": (
        lambda: sample(data={"x": X, "y": Y[:-1]}),
        ValueError,
        r"same number of rows; got x: 24, y: 23",
    ),
    "data: NaN": (
        lambda: sample(data={"x": spoilt([5, 7]), "y": Y}),
        ValueError,
        r"data leaf x holds 2 values.*NaN or infinite.*first in row 5.*[Rr]emove or impute",
    ),
    "data: infinite": (
        lambda: sample(data=(jnp.asarray(spoilt([3], np.inf)), Y)),
        ValueError,
        r"data leaf 0 holds 1 value.*first in row 3",
    ),
    "data: NaN in bfloat16, far behind": (
        lambda: sample(data=jnp.asarray(spoilt([99], of=np.zeros((100, 2))), jnp.bfloat16)),
        ValueError,
        r"data leaf x holds 1 value.*first in row 99",
    ),
    "data: text": (
        lambda: sample(data=(X, np.array(["a"] * N))),
        TypeError,
        r"data leaf 1 has dtype <U1.*[Ee]ncode it as numbers",
    ),
    "data: objects": (
        lambda: sample(data=(X, np.array([None] * N))),
        TypeError,
        r"data leaf 1 has dtype object.*[Ee]ncode it as numbers",
    ),
    "data: dates": (
        lambda: sample(data=(X, np.zeros(N, "datetime64[s]"))),
        TypeError,
        r"data leaf 1 has dtype datetime64.*[Ee]ncode it as numbers",
    ),
    "data: a structured array": (
        lambda: sample(data=np.zeros(N, [("age", float), ("sex", int)])),
        TypeError,
        r"data leaf x has dtype.*[Ee]ncode it as numbers",
    ),
    "labels: -1 and 1": (
        lambda: sample(posterior=LOGISTIC, data=(X, 2 * Y - 1)),
        ValueError,
        r"labels must be in 0\.\.1.*the first is -1 in row 1.*such as -1 and 1",
    ),
    "labels: floats": (
        lambda: sample(posterior=LOGISTIC, data=(X, Y * 1.0)),
        ValueError,
        r"labels must be integers, got dtype float64.*astype\(int\)",
    ),
    "data: x and y exchanged": (
        lambda: sample(posterior=LOGISTIC, data=(Y, X)),
        ValueError,
        r"logistic: x must have shape \[N, d\], got \(24,\)",
    ),
    # parameters
    "init: none": (lambda: sample(init=None), ValueError, r"init holds no parameters"),
    "init: integers": (
        lambda: sample(init={"w": np.zeros(D, int)}),
        TypeError,
        r"leaf w has dtype int64.*must be floating.*jnp\.asarray\(x, float\)",
    ),
    "init: complex": (
        lambda: sample(init=np.zeros(D, complex)),
        TypeError,
        r"complex128.*floating",
    ),
    "init: text": (lambda: sample(init="zeros"), TypeError, r"init: leaf x is str.*array"),
    "init: NaN": (
        lambda: sample(init={"w": np.array([0.0, np.nan, 0.0])}),
        ValueError,
        r"init: leaf w holds NaN or infinite values",
    ),
    "init: longdouble": (
        lambda: sample(init={"w": START.astype(np.longdouble)}),
        TypeError,
        r"init: leaf w has dtype float128.*astype\(numpy\.float64\)",
    ),
    "init: an Equinox module": (
        lambda: sample(init=eqx.nn.MLP(D, 1, 2, 1, key=jax.random.key(0))),
        TypeError,
        r"init: leaf activation is custom_jvp, not.*numbers\. An Equinox.*eqx\.partition\(model, "
        r"eqx\.is_inexact_array\).*eqx\.combine",
    ),
    "init: another shape": (
        lambda: sample(init=np.zeros(4)),
        ValueError,
        r"loglik\(params, datum\) failed.*datum of shapes \(\(3,\), \(\)\).*parameters.*\(4,\)",
    ),
    "init(key): integers": (
        lambda: sample(init=lambda key: jnp.zeros(D, int)),
        TypeError,
        r"init\(key\): leaf x has dtype int64.*must be floating",
    ),
    "init(key): no argument": (
        lambda: sample(init=lambda: START),
        (TypeError, ValueError),
        r"init\(key\)",
    ),
    # log-densities
    "loglik: a vector": (
        lambda: with_loglik(lambda w, datum: -((datum[0] - w) ** 2)),
        ValueError,
        r"loglik\(params, datum\) must return one number, got shapes \(3,\).*jnp\.sum",
    ),
    "loglik: an integer": (
        lambda: with_loglik(lambda w, datum: datum[1]),
        TypeError,
        r"loglik.*floating number, got dtype int32",
    ),
    "loglik: nothing": (
        lambda: with_loglik(lambda w, datum: None),
        ValueError,
        r"loglik.*must return one number, got shapes None",
    ),
    "loglik: fails": (
        lambda: with_loglik(lambda w, datum: jnp.sum(datum[2])),
        ValueError,
        r"loglik\(params, datum\) failed.*IndexError.*ONE datum",
    ),
    "logprior: a vector": (
        lambda: with_logprior(lambda w: -(w**2)),
        ValueError,
        r"logprior\(params\) must return one number, got shapes \(3,\)",
    ),
    "logprior: missing": (
        lambda: with_logprior(None),
        (TypeError, ValueError),
        r"logprior.*None",
    ),
    "augment: fails": (
        lambda: with_augment(lambda key, datum: datum[5]),
        ValueError,
        r"augment\(key, item\) failed.*IndexError",
    ),
    "augment: a number": (
        lambda: with_augment(0.5),
        (TypeError, ValueError),
        r"augment.*0\.5",
    ),
    "augment with control_variate": (
        lambda: with_augment(lambda key, datum: datum, estimator=vr.control_variate(START)),
        ValueError,
        r"control_variate\(\) cannot be used with augment.*Use practical\(\) or svrg\(\)",
    ),
    # centres
    "center: NaN": (
        lambda: vr.control_variate({"w": np.array([np.nan])}),
        ValueError,
        r"centre is not finite in leaf w",
    ),
    "center: text": (
        lambda: vr.control_variate("map"),
        (TypeError, ValueError),
        r"control_variate.*centre.*(str|'map')",
    ),
    "center: another shape": (
        lambda: sample(estimator=vr.control_variate(np.zeros(4))),
        ValueError,
        r"centre has shapes \(4,\), the parameters \(3,\)",
    ),
    "center: another structure": (
        lambda: sample(estimator=vr.control_variate({"w": START})),
        ValueError,
        r"centre has shapes \{'w': \(3,\)\}, the parameters \(3,\)",
    ),
    # observables
    "observables: a list": (
        lambda: sample(observables=[only_three]),
        (TypeError, ValueError),
        r"observables must be a dict.*list",
    ),
    "observables: a function": (
        lambda: sample(observables=only_three),
        (TypeError, ValueError),
        r"observables must be a dict.*function",
    ),
    "observable: a number": (
        lambda: sample(observables={"first": 3}),
        (TypeError, ValueError),
        r"observable.*3.*function of the parameters",
    ),
    "observable: fails": (
        lambda: sample(observables={"good": only_three, "bad": lambda w: w["weight"]}),
        ValueError,
        r"observable 'bad' failed",
    ),
    "observable: text": (
        lambda: sample(observables={"bad": lambda w: "text"}),
        (TypeError, ValueError),
        r"observable 'bad'",
    ),
    "observable: never": (
        lambda: sample(observables={"late": vr.observable(only_three, every=11)}, burn_in=10),
        ValueError,
        r"observable 'late'.*every 11 steps, but only 10 steps follow burn_in",
    ),
    "observable: every 0": (
        lambda: vr.observable(only_three, every=0),
        ValueError,
        r"every=0\).*at least 1",
    ),
    "run_dir: a file": (
        lambda: sample(run_dir=__file__),
        ValueError,
        r"run_dir=.* is a file\. Name",
    ),
    "run_dir: not a run": (
        lambda: sample(run_dir=Path(__file__).parent),
        ValueError,
        r"run_dir=.* is not empty and not a run.*Name a new directory",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_in_plain_words_before_anything_is_compiled(name):
    call, kind, message = REFUSED[name]
    COMPILED.clear()
    with pytest.raises(kind, match=f"(?s){message}"):
        call()
    programs = {"jit(run)", "jit(_try)", "jit(_climb)"}  # chains, the look at the start, the search
    assert not programs & set(COMPILED)
