"""Bad commands of every kind: exit code 2, a message, no traceback, and nothing left behind.

    pytest -m slow tests/cli/test_bad_commands.py -n 0 -s      prints the counts

`test_mistakes.py` has the mistakes that users make most; these were made to break something.
"""
# ruff: noqa: E501, SIM905 - one line for each command

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from support.command_line import run_command

HEAD = "import jax, jax.numpy as jnp, numpy as np, vrsgmcmc as vr\nfrom vrsgmcmc.models import logistic\n"


def model(
    loglik="logistic.posterior().loglik(w, item)",
    prior="-0.5 * w @ w",
    init="logistic.initial(x.shape[1])",
    predict="logistic.predict",
    first="pass",
):
    """The source of a model in which one part is replaced."""
    return HEAD + (
        f"def build(x, y):\n    {first}\n    def loglik(w, item):\n        return {loglik}\n"
        f"    return vr.Posterior(lambda w: {prior}, loglik), {init}, {predict}\n"
    )


MODELS = {
    'll_name': (model(loglik='undefined'), 'loglik(params, datum) failed for a datum of '),
    'll_zero': (model(loglik='1 / 0'), 'loglik(params, datum) failed for a datum of '),
    'll_none': (model(loglik='None'), 'loglik(params, datum) must return one number'),
    'll_text': (model(loglik="'likely'"), 'loglik(params, datum) failed for a datum of '),
    'll_vector': (model(loglik='w'), 'loglik(params, datum) must return one number'),
    'll_nan': (model(loglik='jnp.nan * w[0]'), 'loglik is nan for data row 0 at init (its gr'),
    'll_inf': (model(loglik='-jnp.inf + 0 * w[0]'), 'loglik is -inf for data row 0 at init. Start'),
    'll_int': (model(loglik='1'), 'loglik(params, datum) must return a floating'),
    'll_bool': (model(loglik='w[0] > 0'), 'loglik(params, datum) must return a floating'),
    'll_complex': (model(loglik='w[0] * 1j'), 'loglik(params, datum) must return a floating'),
    'll_branch': (model(loglik='w[0] if w[0] > 0 else 0.0'), ''),
    'll_exit': (model(loglik='exit(7)'), 'the model ended the program with exit(7).'),
    'll_numpy': (model(loglik='np.sum(np.asarray(w))'), ''),
    'll_float': (model(loglik='float(w[0])'), ''),
    'll_recursion': (model(loglik='loglik(w, item)'), 'loglik(params, datum) failed for a datum of '),
    'll_key': (model(loglik="item['x']"), 'loglik(params, datum) failed for a datum of '),
    'll_shape': (model(loglik='jnp.ones(99) @ w'), 'loglik(params, datum) failed for a datum of '),
    'll_memory': (model(loglik="(_ for _ in ()).throw(MemoryError('much'))"), 'loglik(params, datum) failed for a datum of '),
    'll_assert': (model(loglik='(_ for _ in ()).throw(AssertionError())'), 'loglik(params, datum) failed for a datum of '),
    'll_stop': (model(loglik='next(iter(()))'), 'loglik(params, datum) failed for a datum of '),
    'pr_none': (model(prior='None'), 'logprior(params) must return one number, got'),
    'pr_zero': (model(prior='1 / 0'), 'logprior(params) failed for a datum of shape'),
    'pr_vector': (model(prior='w'), 'logprior(params) must return one number, got'),
    'pr_nan': (model(prior='jnp.nan * w[0]'), 'logprior is nan at init. Start inside the pr'),
    'in_none': (model(init='None'), 'init holds no parameters. Pass an array or a'),
    'in_text': (model(init="'start'"), 'init: leaf x is str, not an array of numbers'),
    'in_empty': (model(init='{}'), 'init holds no parameters. Pass an array or a'),
    'in_nan': (model(init='jnp.full(2, jnp.nan)'), 'init: leaf x holds NaN or infinite values.'),
    'in_int': (model(init='jnp.zeros(2, int)'), 'init: leaf x has dtype int'),
    'in_objects': (model(init='np.array([None, 1])'), 'init: leaf x is ndarray, not an array of num'),
    'in_raise': (model(init='lambda key: 1 / 0'), 'in_raise.py: init(key) failed: line 7: ZeroD'),
    'in_noargs': (model(init='lambda: 1'), 'in_noargs.py: init(key) failed: TypeError: b'),
    'in_fnone': (model(init='lambda key: None'), 'in_fnone.py: predict(params, x) failed: Type'),
    'in_fnan': (model(init='lambda key: jnp.full(2, jnp.nan)'), 'init(key): leaf x holds NaN or infinite valu'),
    'in_numpyrandom': (model(init='lambda key: np.asarray(key)'), ''),
    'in_huge': (model(init='jax.ShapeDtypeStruct((10,), float)'), 'init: leaf x is ShapeDtypeStruct, not an arr'),
    'in_fexit': (model(init='lambda key: exit(3)'), 'in_fexit.py: init(key) failed: line 7: it en'),
    'p_number': (model(predict='5'), 'p_number.py: predict must be a function of ('),
    'p_raise': (model(predict='lambda w, x: 1 / 0'), 'p_raise.py: predict(params, x) failed: line '),
    'p_none': (model(predict='lambda w, x: None'), 'p_none.py: predict(params, x) must return [n'),
    'p_text': (model(predict="lambda w, x: 'yes'"), 'p_text.py: predict(params, x) failed: TypeEr'),
    'p_shape': (model(predict='lambda w, x: jnp.ones((3, 3))'), 'p_shape.py: predict(params, x) must return ['),
    'p_scalar': (model(predict='lambda w, x: jnp.ones(())'), 'p_scalar.py: predict(params, x) must return '),
    'p_exit': (model(predict='lambda w, x: exit(4)'), 'p_exit.py: predict(params, x) failed: line 7'),
    'p_args': (model(predict='lambda w: w'), 'p_args.py: predict(params, x) failed: TypeEr'),
    'p_complex': (model(predict='lambda w, x: jnp.full(len(x), 0.5 + 1j)'), 'p_complex.py: predict(params, x) must return'),
    'b_exit': (model(first='exit(9)'), 'b_exit.py: build(x, y) failed: line 4: it en'),
    'b_exit0': (model(first='exit()'), 'b_exit0.py: build(x, y) failed: line 4: it e'),
    'b_base': (model(first="raise BaseException('odd')"), 'b_base.py: build(x, y) failed: line 4: BaseE'),
    'b_generator': (model(first='raise GeneratorExit'), 'b_generator.py: build(x, y) failed: line 4: '),
    'b_recursion': (model(first='build(x, y)'), 'b_recursion.py: build(x, y) failed: line 4: '),
    'b_none': (HEAD + 'def build(x, y):\n    return None\n', 'b_none.py: build(x, y) must return (posterio'),
    'b_four': (HEAD + 'def build(x, y):\n    return 1, 2, 3, 4\n', 'b_four.py: build(x, y) must return (posterio'),
    'b_args': (HEAD + 'def build(x):\n    return x\n', 'b_args.py: build(x, y) failed: TypeError: bu'),
    'b_class': (HEAD + 'class build:\n    def __init__(self, x, y):\n        pass\n', 'model: build(x, y) must return (posterior, i'),
    'b_partial': (HEAD + 'import functools\nbuild = functools.partial(lambda x, y: 3)\n', 'model: partial(x, y) must return (posterior,'),
    'b_callable': (HEAD + 'class B:\n    def __call__(self, x, y):\n        return 3\nbuild = B()\n', 'model: B(x, y) must return (posterior, init)'),
    'b_async': (HEAD + 'async def build(x, y):\n    return 1\n', ''),
    'b_lambda': (HEAD + 'build = lambda x, y: 1 / 0\n', 'b_lambda.py: <lambda>(x, y) failed: line 3: '),
    'b_escape': (model(first="raise ValueError('\\x1b[2J gone')"), 'b_escape.py: build(x, y) failed: line 4: Val'),
    'b_long': (model(first="raise ValueError('a' * 100000)"), ''),
    'b_badstr': (HEAD + 'class E(Exception):\n    def __str__(self):\n        return 1 / 0\ndef build(x, y):\n    raise E\n', 'b_badstr.py: build(x, y) failed: line 7: vrs'),
    'b_os': (model(first="open('nowhere/at/all')"), 'b_os.py: build(x, y) failed: line 4: FileNot'),
    'm_exit': ('import sys\nsys.exit(3)\n', 'm_exit.py: could not be loaded: line 2: it e'),
    'm_exit_text': ("raise SystemExit('bye')\n", 'm_exit_text.py: could not be loaded: line 1:'),
    'm_os': ("open('nowhere')\n", 'm_os.py: could not be loaded: line 1: FileNo'),
    'm_import': ('import nowhere_at_all\n', 'm_import.py: could not be loaded: line 1: Mo'),
    'm_encoding': (b'# -*- coding: klingon -*-\n', 'm_encoding.py could not be loaded: line 0: u'),
    'm_latin': (b"x = '\xff'\n", 'm_latin.py could not be loaded: line 1: (uni'),
    'm_nested': ('(' * 300 + ')' * 300 + '\n', 'm_nested.py could not be loaded: line 1: too'),
    'm_empty': ('', '--model m_empty.py:build: the file has no '),
    'm_indent': ('def build(x, y):\n\treturn 1\n        return 2\n', 'm_indent.py could not be loaded: line 3: inc'),
    'm_annot': (HEAD + 'def build(x, y):\n    x[0, 0] = 1e30\n    return 1\n', 'm_annot.py: build(x, y) must return (posteri'),
}  # fmt: skip

FILES = {
    'good.csv': 'age,dose,group,outcome\n' + ''.join(f"{30 + i},{i % 3},{'abc'[i % 3]},{i % 2}\n" for i in range(40)),
    'fine.py': model(),
    **{f'{name}.py': source for name, (source, _) in MODELS.items()},
    'folder.toml': '',
    'run.toml': 'data = "good.csv"\ntarget = "outcome"\nmodel = "logistic"\nstep_size = 0.01\n',
    'list.toml': 'data = ["good.csv"]\ntarget = "outcome"\nmodel = "logistic"\n',
    'table.toml': '[data]\npath = "good.csv"\n',
    'date.toml': 'data = "good.csv"\ntarget = "outcome"\nmodel = "logistic"\nseed = 2020-01-01\n',
    'textseed.toml': 'data = "good.csv"\ntarget = "outcome"\nmodel = "logistic"\nseed = "1"\n',
    'boolstep.toml': 'data = "good.csv"\ntarget = "outcome"\nmodel = "logistic"\nstep_size = true\n',
    'infstep.toml': 'data = "good.csv"\ntarget = "outcome"\nmodel = "logistic"\nstep_size = inf\n',
    'feat.toml': 'data = "good.csv"\ntarget = "outcome"\nmodel = "logistic"\nfeatures = "age"\n',
    'featnum.toml': 'data = "good.csv"\ntarget = "outcome"\nmodel = "logistic"\nfeatures = [1, 2]\n',
    'itself.toml': 'data = "itself.toml"\ntarget = "outcome"\nmodel = "logistic"\n',
    'latin.toml': b'target = "\xff"\n',
    'bom.toml': b'\xef\xbb\xbfdata = "good.csv"\ntarget = "nothing"\nmodel = "logistic"\n',
    'huge.csv': 'a,y\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n1e39,0\n2,1\n',
    'const.csv': 'a,y\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n1,0\n1,1\n',
    'dup.csv': 'a,a,y\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n1,2,0\n2,1,1\n',
    'blank.csv': '\n\n\n',
    'head.csv': 'a,y\n',
    'onlyy.csv': 'y\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n',
    'quote.csv': 'a,y\n"1,0\n2,1\n',
    'all_na.csv': 'a,y\n,\n,\n,\n,\n,\n,\n,\n,\n,\n,\n,\n,\n,\n,\n,\n,\n,\n,\n,\n,\n',
    'fake.npy': b'\x93NUMPY',
    'text.npz': b'hello',
    'fake.npz': b'PK\x05\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00',
}  # fmt: skip

SAMPLE = "sample good.csv --target outcome --features age dose --step-size 0.01 --num-steps 40 --num-chains 2".split()
LOGISTIC = "sample good.csv --target outcome --model logistic --features age dose --step-size 0.01 --num-steps 40 --num-chains 2".split()

COMMANDS = {
    'toml list': ('sample list.toml'.split(), "data: must be text, got ['good.csv']."),
    'toml table': ('sample table.toml'.split(), 'target is not given: it is the column to pre'),
    'toml date': ('sample date.toml'.split(), 'seed: must be a whole number, got datetime.d'),
    'toml textseed': ('sample textseed.toml'.split(), "seed: must be a whole number, got '1'."),
    'toml boolstep': ('sample boolstep.toml'.split(), 'step_size: must be a finite number, got True'),
    'toml infstep': ('sample infstep.toml'.split(), 'step_size: must be a finite number, got inf.'),
    'toml feat': ('sample feat.toml'.split(), "features: must be a list of names, got 'age'"),
    'toml featnum': ('sample featnum.toml'.split(), 'features: must be text, got [1, 2].'),
    'toml itself': ('sample itself.toml'.split(), 'itself.toml: a table is a file that ends in '),
    'toml latin': ('sample latin.toml'.split(), 'latin.toml is not UTF-8 (byte 10). Save it a'),
    'toml bom': ('sample bom.toml'.split(), 'bom.toml: this is no TOML: Invalid statement'),
    'csv dup': ('sample dup.csv --target y --model logistic'.split(), "dup.csv: two columns have the name 'a'. Rena"),
    'csv blank': ('sample blank.csv --target y --model logistic'.split(), 'blank.csv is empty: its first line must name'),
    'csv head': ('sample head.csv --target y --model logistic'.split(), 'head.csv has no rows of data.'),
    'csv onlyy': ('sample onlyy.csv --target y --model logistic'.split(), "onlyy.csv has no column to predict 'y' from."),
    'csv quote': ('sample quote.csv --target y --model logistic'.split(), 'quote.csv is no CSV: unexpected end of data.'),
    'csv all_na': ('sample all_na.csv --target y --model logistic'.split(), 'from. Left out, since no cell of them has a v'),
    'csv const': ('check const.csv --target y --model logistic'.split(), 'every column is constant, so there is nothin'),
    'fake npy': ('sample fake.npy --target 1 --model logistic'.split(), 'fake.npy cannot be read: EOF: reading magic '),
    'text npz': ('sample text.npz --target y --model logistic'.split(), 'text.npz cannot be read: File is not a zip f'),
    'empty npz': ('sample fake.npz --target y --model logistic'.split(), "fake.npz has no column 'y'. Its columns are:"),
    'folder': ('sample folder --target y --model logistic'.split(), 'folder: a table is a file that ends in .csv,'),
    'dash': ('sample - --target y --model logistic'.split(), '-: a table is a file that ends in .csv, .tsv'),
    'empty name': (['sample', '', '--target', 'y', '--model', 'logistic'], '.: a table is a file that ends in .csv, .tsv'),
    'empty target': (['sample', 'good.csv', '--model', 'logistic', '--target', ''], "target: needs at least 1 character, got ''."),
    'out long': ([*LOGISTIC, '--out', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'], ''),
    'out empty': ([*LOGISTIC, '--out', ''], '--out . is not empty and not a run: it holds'),
    'out proc': ([*LOGISTIC, '--out', '/proc/nothing'], '/proc/nothing: No such file or directory'),
    'out dev': ([*LOGISTIC, '--out', '/dev/null'], '--out /dev/null: this is a file. Name a dire'),
    'out below missing file': ([*LOGISTIC, '--out', 'good.csv/deeper/x'], ''),
    'seed negative': ([*LOGISTIC, '--seed=-1'], 'seed: must be greater than or equal to 0, go'),
    'seed huge': ([*LOGISTIC, '--seed', '99999999999999999999'], 'seed: must be less than 4294967296, got 9999'),
    'seed float': ([*LOGISTIC, '--seed', '1.0'], 'seed: must be a whole number, got 1.0.'),
    'hidden 0': ([*LOGISTIC, '--hidden', '0'], 'hidden: must be greater than or equal to 1, '),
    'set empty': ([*LOGISTIC, '--set', ''], '--set : write --set KEY=VALUE.'),
    'set eq': ([*LOGISTIC, '--set', '=3'], '--set =3: write --set KEY=VALUE.'),
    'set list': ([*LOGISTIC, '--set', 'thin=[1]'], 'thin: must be a whole number, got [1].'),
    'set table': ([*LOGISTIC, '--set', 'thin={a=1}'], "thin: must be a whole number, got {'a': 1}."),
    'set data': ([*LOGISTIC, '--set', 'data=x.csv'], '--set data: the data are good.csv already. N'),
    'set newline': ([*LOGISTIC, '--set', 'thin=1\nseed=2'], "thin: must be a whole number, got '1\\nseed=2"),
    'features none': ('sample good.csv --target outcome --model logistic --features'.split(), 'argument --features: expected at least one a'),
    'features twice': ('sample good.csv --target outcome --model logistic --features age age'.split(), "features: 'age' is given twice. Keep one of "),
    'features target': ('sample good.csv --target outcome --model logistic --features age outcome'.split(), "target 'outcome' is also in features. Leave "),
    'features grup': ('sample good.csv --target outcome --model logistic --features grup'.split(), "has no column 'grup'. Did you mean 'group'?"),
    'levels': ([*LOGISTIC, '--levels', 'none'], "levels: must be one of drop_first, all, got '"),
    'estimator': ([*LOGISTIC, '--estimator', 'sgaa'], 'estimator: must be one of practical, minibat'),
    'ito': ([*LOGISTIC, '--integrator', 'ito'], 'integrator: must be one of sgld, leimkuhler_m'),
    'period of saga': ([*LOGISTIC, '--estimator', 'saga', '--period', '3'], 'period belongs to estimator practical or svr'),
    'friction neg': ([*LOGISTIC, '--integrator', 'sghmc', '--friction=-1'], 'friction: must be greater than 0, got -1.'),
    'word empty': ([*LOGISTIC, '--integrator', 'splitting', '--friction', '1', '--word', ''], "word: needs at least 1 character, got ''."),
    'word lower': ([*LOGISTIC, '--integrator', 'splitting', '--friction', '1', '--word', 'baoab'], "splitting(word='baoab'): a word consists of "),
    'temp nan': ([*LOGISTIC, '--temperature', 'nan'], 'temperature: must be a finite number, got na'),
    'clip inf': ([*LOGISTIC, '--clip', 'inf'], 'clip: must be a finite number, got inf.'),
    'steps huge': ('sample good.csv --target outcome --model logistic --features age dose --step-size 0.01 --num-steps 999999999999999999999999999999'.split(), 'num_steps: must be less than or equal to 107'),
    'thin 0': ([*LOGISTIC, '--thin', '0'], 'thin: must be greater than or equal to 1, go'),
    'burn neg': ([*LOGISTIC, '--burn-in=-1'], 'burn_in: must be greater than or equal to 0,'),
    'chains huge': ('sample good.csv --target outcome --model logistic --features age dose --step-size 0.01 --num-steps 40 --num-chains 5000'.split(), 'num_chains: must be less than or equal to 40'),
    'chain method': ([*LOGISTIC, '--chain-method', 'pmap'], 'chain_method: must be one of vmap, sequentia'),
    'prior 0': ([*LOGISTIC, '--prior', 'normal(0, 0)'], "prior='normal(0, 0)': normal takes 2 numbers (me"),
    'prior variance': ([*LOGISTIC, '--prior-variance', '0'], 'prior_variance is a key of earlier versions. '),
    'test fraction 0': ([*LOGISTIC, '--test-fraction', '0'], 'test_fraction: must be greater than 0, got 0'),
    'test fraction tiny': ([*LOGISTIC, '--test-fraction', '1e-9'], 'test_fraction = 1e-09 of 40 rows puts 0 in t'),
    'missing': ([*LOGISTIC, '--missing', 'guess'], "missing: must be one of drop, impute, refuse,"),
    'no intercept with value': ([*LOGISTIC, '--no-intercept=yes'], 'argument --no-intercept: ignored explicit ar'),
    'budget and step': ([*LOGISTIC, '--budget', '60 s'], 'budget is for a run whose step_size is not gi'),
    'ess and step': ([*LOGISTIC, '--ess', '60'], 'ess is for a run whose step_size is not give'),
    'ess 0': ('sample good.csv --target outcome --model logistic --features age --ess 0'.split(), 'ess: must be greater than 0, got 0.'),
    'key without its method': ('sample good.csv --target outcome --model logistic --features age --period 5'.split(), 'period belongs to estimator practical or svr'),
    'metric': ([*LOGISTIC, '--metric', 'euclid'], 'metric: must be one of hessian, low_rank, di'),
    'budget 0': ('plan good.csv --target outcome --model logistic --features age --budget 0'.split(), "sample(budget='0'): write a number of evaluati"),
    'budget neg': (['plan', 'good.csv', '--target', 'outcome', '--model', 'logistic', '--features', 'age', '--budget=-5 s'], "sample(budget='-5 s'): write a number of evalu"),
    'budget nan': (['plan', 'good.csv', '--target', 'outcome', '--model', 'logistic', '--features', 'age', '--budget', 'nan passes'], "sample(budget='nan passes'): write a number of"),
    'budget inf': (['plan', 'good.csv', '--target', 'outcome', '--model', 'logistic', '--features', 'age', '--budget', 'inf s'], "sample(budget='inf s'): write a number of eval"),
    'budget unit': (['plan', 'good.csv', '--target', 'outcome', '--model', 'logistic', '--features', 'age', '--budget', '5 parsecs'], "sample(budget='5 parsecs'): write a number of "),
    'plan nothing': ('plan'.split(), 'the following arguments are required: FILE. '),
    'plan a run': ('plan run'.split(), 'target is not given: it is the column to pre'),
    'plan own': ('plan good.csv --target outcome --features age dose --model ll_zero.py:build'.split(), 'loglik(params, datum) failed for a datum of '),
    'plan p_none': ('plan good.csv --target outcome --features age dose --model ll_nan.py:build'.split(), 'loglik is nan for data row 0 at init (its gr'),
    'plan vector': ('plan good.csv --target outcome --features age dose --model ll_vector.py:build'.split(), 'loglik(params, datum) must return one number'),
    'check nothing': ('check'.split(), 'the following arguments are required: FILE. '),
    'check a run': ('check run'.split(), 'target is not given: it is the column to pre'),
    'check ll_text': (['check', *SAMPLE[1:], '--model', 'll_text.py:build'], ''),
    'check ll_nan': (['check', *SAMPLE[1:], '--model', 'll_nan.py:build'], 'the log posterior or its gradient is not fin'),
    'check ll_exit': (['check', *SAMPLE[1:], '--model', 'll_exit.py:build'], 'the model ended the program with exit(7).'),
    'check ll_key': (['check', *SAMPLE[1:], '--model', 'll_key.py:build'], 'tuple indices must be integers or slices, no'),
    'check in_none': (['check', *SAMPLE[1:], '--model', 'in_none.py:build'], 'init holds no parameters. Pass an array or a'),
    'check in_text': (['check', *SAMPLE[1:], '--model', 'in_text.py:build'], 'init: leaf x is str, not an array of numbers'),
    'check in_nan': (['check', *SAMPLE[1:], '--model', 'in_nan.py:build'], 'init: leaf x holds NaN or infinite values.'),
    'check in_int': (['check', *SAMPLE[1:], '--model', 'in_int.py:build'], 'init: leaf x has dtype int'),
    'check in_fnan': (['check', *SAMPLE[1:], '--model', 'in_fnan.py:build'], 'the log posterior or its gradient is not fin'),
    'check p_raise': (['check', *SAMPLE[1:], '--model', 'p_raise.py:build'], 'p_raise.py: predict(params, x) failed: line '),
    'check out file': (['check', *LOGISTIC[1:], '--out', 'good.csv'], '--out good.csv: this is a file. Name a direc'),
    'resume nothing': ('resume'.split(), 'the following arguments are required: RUN. S'),
    'resume two': ('resume run own'.split(), "one word too many: 'own'. See vrsgmcmc resum"),
    'resume file': ('resume good.csv'.split(), 'good.csv: no such directory.'),
    'resume empty': (['resume', ''], '.: no run: it has no job.json.'),
    'resume folder': ('resume folder'.split(), 'folder: no run: it has no job.json.'),
    'resume flag': ('resume run --seed 1'.split(), "unknown option '--seed'. See vrsgmcmc resume"),
    'resume own without model': ('resume own'.split(), ''),
    'resume wrong model': ('resume run --model fine.py:build'.split(), '--model: the model of run is logistic. Leave'),
    'resume no function': ('resume own --model fine.py:nothing'.split(), '--model fine.py:nothing: the file has no func'),
    'resume no file': ('resume own --model no.py:build'.split(), '--model no.py:build: there is no such file.'),
    'resume no colon': ('resume own --model fine.py'.split(), '--model fine.py: write FILE.py:FUNCTION, suc'),
    'resume other': ('resume own --model ll_zero.py:build'.split(), 'loglik(params, datum) failed for a datum of '),
    'resume in other': ('resume own --model in_text.py:build'.split(), 'init: leaf x is str, not an array of numbers'),
    'resume longer': ('resume run/chains'.split(), 'run/chains is a run of the library, and its '),
    'resume exit': ('resume own --model b_exit.py:build'.split(), 'b_exit.py: build(x, y) failed: line 4: it en'),
    'summary nothing': ('summary'.split(), 'the following arguments are required: RUN. S'),
    'summary file': ('summary good.csv'.split(), "'good.csv' is not a run directory: it has no"),
    'summary folder': ('summary folder'.split(), "'folder' is not a run directory: it has no c"),
    'summary model': ('summary run --model x'.split(), "unknown option '--model'. Did you mean --hel"),
    'summary two': ('summary run own'.split(), "one word too many: 'own'. See vrsgmcmc summa"),
    'summary empty': (['summary', ''], "'.' is not a run directory: it has no commit"),
    'report file': ('report good.csv'.split(), "'good.csv' is not a run directory: it has no"),
    'report two one bad': ('report run none'.split(), "'none' is not a run directory: it has no com"),
    'report out file': ('report run --out good.csv'.split(), '--out good.csv: this is a file. Name a folde'),
    'report out below file': ('report run --out good.csv/x'.split(), ''),
    'report model two': ('report run own --model fine.py:build'.split(), '--model is for the report of one run, in its'),
    'report own no model': ('report own'.split(), ''),
    'report model out': ('report run --out x --model fine.py:build'.split(), '--model is for the report of one run, in its'),
    'report out proc': ('report run --out /proc/x'.split(), '/proc/x: No such file or directory'),
    'report bad predict': ('report own --model p_raise.py:build'.split(), 'p_raise.py: predict(params, x) failed: line '),
    'audit nothing': ('audit'.split(), 'the following arguments are required: RUN. S'),
    'audit file': ('audit good.csv'.split(), 'good.csv: no such directory.'),
    'audit chains': ('audit run/chains'.split(), 'run/chains is a run of the library, and its '),
    'audit own': ('audit own'.split(), ''),
    'audit model': ('audit run --model fine.py:build'.split(), '--model: the model of run is logistic. Leave'),
    'audit b_none': ('audit own --model b_none.py:build'.split(), 'b_none.py: build(x, y) must return (posterio'),
    'verify nothing': ('verify'.split(), 'the following arguments are required: RUN. S'),
    'verify file': ('verify good.csv'.split(), 'good.csv is not a run directory. Name one th'),
    'verify folder': ('verify folder'.split(), 'folder is not a run directory. Name one that'),
    'verify option': ('verify run --fix'.split(), "unknown option '--fix'. See vrsgmcmc verify "),
    'data nothing': ('data'.split(), 'the following arguments are required: list|g'),
    'data action': ('data fetch'.split(), "argument list|get|verify: invalid choice: 'f"),
    'data name': ('data list mnits'.split(), "unknown data set 'mnits'. Did you mean mnist"),
    'data pima': ('data get pima'.split(), 'pima comes with the package: vrsgmcmc.datase'),
    'data get nothing': ('data get'.split(), 'get what? Name data sets: mnist, cifar10, pt'),
    'data dir file': ('data get ptb --data-dir good.csv'.split(), 'good.csv/ptb cannot take the file: Not a dir'),
    'data verify none': ('data verify nothing'.split(), "unknown data set 'nothing'. See vrsgmcmc dat"),
    'data verify missing': ('data verify diamonds --data-dir folder'.split(), "unknown data set 'diamonds'. See vrsgmcmc da"),
    'data option': ('data list --all'.split(), "unknown option '--all'. See vrsgmcmc data --"),
    'rep passes text': ('reproduce pima --passes lots'.split(), "argument --passes: invalid number value: 'lo"),
    'rep passes nan': ('reproduce pima --size smoke --passes nan'.split(), '--passes must be a positive number, got nan.'),
    'rep passes neg': ('reproduce pima --size smoke --passes=-1'.split(), '--passes must be a positive number, got -1.0'),
    'rep passes inf': ('reproduce pima --size smoke --passes inf'.split(), '--passes must be a positive number, got inf.'),
    'rep passes 0': ('reproduce pima --size smoke --passes 0'.split(), '--passes must be a positive number, got 0.0.'),
    'rep seeds neg': ('reproduce pima --size smoke --seeds=-1'.split(), '--seeds must be at least 1, got -1.'),
    'rep methods two': ('reproduce pima gaussian --methods vrsg'.split(), '--methods vrsg: experiments have methods of '),
    'rep out folder of run': ('reproduce pima --size smoke --out run'.split(), '--out run: this folder is not empty, and wha'),
    'rep out empty': (['reproduce', 'pima', '--size', 'smoke', '--out', ''], '--out .: this folder is not empty, and what '),
    'rep methods none': ('reproduce pima --methods'.split(), 'argument --methods: expected at least one ar'),
    'empty command': ([''], "unknown command ''. See vrsgmcmc --help."),
}  # fmt: skip
BAD = {
    name: ([*SAMPLE, "--model", f"{name}.py:build"], row[1]) for name, row in MODELS.items()
} | COMMANDS


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys, without_figures):
    """A folder with the files and two finished runs; what the program reports as a bug goes there too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, content in FILES.items():
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    Path("folder").mkdir()
    assert run_command([*LOGISTIC, "--out", "run"], capsys)[0] == 4  # too short
    assert run_command([*SAMPLE, "--model", "fine.py:build", "--out", "own"], capsys)[0] == 4
    shutil.rmtree("__pycache__", ignore_errors=True)
    return tmp_path


def files_below(folder):
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


def attack(names, folder, capsys):
    """Try commands one after another; every one is as promised, or all problems are listed."""
    counts, problems, before = Counter(), [], files_below(folder)
    for name in names:
        words, message = BAD[name]
        code, _, err = run_command(words, capsys)
        left = files_below(folder) - before
        fine = code == 2 and message in err and "should not happen" not in err and not left
        if not fine:
            problems.append((name, code, err[-300:], left))
        before |= left
        counts[words[0], fine] += 1
    with capsys.disabled():
        for command in sorted({command for command, _ in counts}):
            good = counts[command, True]
            print(
                f"\n{command or 'empty'}: {good + counts[command, False]} tried, {good} as promised",
                end="",
            )
    assert problems == []


def test_some_bad_commands(folder, capsys):
    attack(random.Random(0).sample(sorted(BAD), 12), folder, capsys)


@pytest.mark.slow
def test_all_bad_commands(folder, capsys):
    assert len(BAD) >= 100
    attack(BAD, folder, capsys)
