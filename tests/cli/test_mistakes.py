"""Bad input: each mistake has a message, exit code 2, and leaves no trace on disk."""
# ruff: noqa: E501 - one line for each mistake

import pytest
from support.command_line import EVIL, run_command

GOOD = "age,dose,group,outcome\n" + "".join(
    f"{30 + i},{i % 3},{'abc'[i % 3]},{i % 2}\n" for i in range(40)
)

FILES = {
    "good.csv": GOOD,
    "ragged.csv": "a,y\n1,2\n1\n",
    "empty.csv": "",
    "words.csv": "a,y\nx,1\n",
    "holes.csv": "a,y\n,1\n" + "".join(f"{i},{i % 2}\n" for i in range(30)),
    "counts.csv": "a,y\n"
    + "".join(f"{i},{(0, 1, 0, 2, 0, 1, 0, 3 + (i > 35))[i % 8]}\n" for i in range(40)),
    "binary.csv": b"\x00\xff\xfe",
    "numbers.csv": "1,2\n3,4\n",
    "one.csv": "a,y\n" + "".join(f"{i},1\n" for i in range(30)),
    "tiny.csv": "a,y\n1,0\n2,1\n",
    "table.xlsx": "",
    "broken.npz": b"PK",
    "good.toml": 'data = "good.csv"\ntarget = "outcome"\nmodel = "logistic"\nfeatures = ["age", "dose"]\n',
    "typo.toml": 'data = "good.csv"\ntarget = "outcome"\nmodle = "logistic"\n',
    "twice.toml": "seed = 1\nseed = 2\n",
    "nothing.toml": "",
    "broken.toml": "seed == 1\n",
    "code.toml": 'data = "good.csv"\ntarget = "outcome"\nmodel = "evil.py:build"\n',
    "evil.py": EVIL,
    "syntax.py": "def build(x, y)\n    pass\n",
    "raises.py": "def build(x, y):\n    return 1 / 0\n",
    "number.py": "build = 5\n",
    "starts.py": "import vrsgmcmc as vr\ndef build(x, y):\n    p = vr.models.logistic.posterior()\n"
    "    return p, lambda key: undefined\n",
    "predicts.py": "import jax.numpy as jnp\nimport vrsgmcmc as vr\ndef build(x, y):\n"
    "    p, w = vr.models.logistic.posterior(), jnp.zeros(x.shape[1])\n"
    "    return p, lambda key: w, lambda w, x: jnp.where(x[:, 0] == x[0, 0], jnp.nan, 0.5)\n",
    "logits.py": "import jax.numpy as jnp\nimport vrsgmcmc as vr\ndef build(x, y):\n"
    "    p, w = vr.models.logistic.posterior(), jnp.ones(x.shape[1])\n"
    "    return p, w, lambda w, x: 9 + x @ w\n",
    "returns.py": "def build(x, y):\n    return x\n",
}

SAMPLE = ["sample", "good.csv", "--target", "outcome", "--features", "age", "dose"]

LOGISTIC = [*SAMPLE, "--model", "logistic", "--step-size", "0.01"]

BAD = {
    "command": (["reproduc"], "unknown command 'reproduc'. Did you mean reproduce?"),
    "command like nothing": (["walk"], "unknown command 'walk'. See vrsgmcmc --help."),
    "option": (["--verion"], "unknown option '--verion'."),
    "no experiment": (["reproduce"], "reproduce what? Name an experiment: gaussian, pima"),
    "experiment": (["reproduce", "pimma"], "unknown experiment 'pimma'. Did you mean pima?"),
    "size": (["reproduce", "pima", "--size", "huge"], "invalid choice: 'huge'"),
    "seeds": (["reproduce", "pima", "--seeds", "many"], "invalid whole number value: 'many'"),
    "seeds 0": (["reproduce", "pima", "--seeds", "0"], "--seeds must be at least 1, got 0."),
    "option of reproduce": (["reproduce", "pima", "--seed", "1"], "'--seed'. Did you mean --seeds?"),
    "option without value": (["reproduce", "pima", "--out"], "argument --out: expected one argument"),
    "out is a file": (["reproduce", "pima", "--out", "good.csv"], "this is a file. Name a folder"),
    "out below a file": (["reproduce", "pima", "--out", "good.csv/x"], "--out good.csv/x: Not a directory"),
    "no file": (["sample"], "the following arguments are required: FILE"),
    "file is missing": (["sample", "none.csv", "--target", "y", "--model", "logistic"], "none.csv: no such file"),
    "config is missing": (["sample", "none.toml"], "none.toml: no such file."),
    "kind of file": (["sample", "table.xlsx", "--target", "y", "--model", "mlp"], "ends in .csv, .tsv, .txt"),
    "no target": (["sample", "good.csv", "--model", "logistic"], "target is not given: it is the column"),
    "target": ([*SAMPLE[:2], "--target", "outcom", "--model", "mlp"], "Did you mean 'outcome'?"),
    "feature": ([*SAMPLE, "--features", "agee", "--model", "mlp"], "no column 'agee'. Did you mean 'age'?"),
    "model": ([*SAMPLE, "--model", "logistik"], "got 'logistik'. Did you mean logistic?"),
    "flag": ([*LOGISTIC, "--num-chain", "3"], "unknown option '--num-chain'. Did you mean --num-chains?"),
    "flag twice": ([*LOGISTIC, "--step-size", "0.02"], "--step-size is given twice."),
    "flag and set": ([*LOGISTIC, "--set", "step_size=1"], "--set step_size and --step-size are both given."),
    "set twice": ([*LOGISTIC, "--set", "seed=1", "--set", "seed=2"], "--set seed is given twice."),
    "set without value": ([*LOGISTIC, "--set", "seed"], "write --set KEY=VALUE"),
    "set unknown": ([*LOGISTIC, "--set", "chains=3"], "unknown key 'chains'."),
    "one word more": ([*LOGISTIC, "--seed", "1", "again"], "one word too many: 'again'."),
    "step": ([*SAMPLE, "--model", "logistic", "--step-size", "fast"], "step_size: must be a finite number"),
    "step 0": ([*SAMPLE, "--model", "logistic", "--step-size", "0"], "step_size: must be greater than 0"),
    "step negative": ([*SAMPLE, "--model", "logistic", "--step-size=-1"], "greater than 0, got -1"),
    "step nan": ([*SAMPLE, "--model", "logistic", "--step-size", "nan"], "must be a finite number, got nan"),
    "chains": ([*LOGISTIC, "--num-chains", "0"], "num_chains: must be greater than or equal to 1, got 0."),
    "steps": ([*LOGISTIC, "--num-steps", "1.5"], "num_steps: must be a whole number, got 1.5."),
    "burn-in": ([*LOGISTIC, "--num-steps", "9", "--burn-in", "9"], "sample(burn_in=9): num_steps=9 includes"),
    "thin": ([*LOGISTIC, "--num-steps", "9", "--thin", "100"], "sample(thin=100): only 8 steps follow burn_in"),
    "batch": ([*LOGISTIC, "--batch-size", "500"], "batch_size=500"),
    "n2 >= n1": ([*LOGISTIC, "--batch-size", "9", "--anchor-size", "9"], "anchor_size"),
    "n1 > N": ([*LOGISTIC, "--anchor-size", "500"], "anchor_size=500"),
    "temperature": ([*LOGISTIC, "--temperature=-1"], "temperature: must be greater than or equal to 0"),
    "friction": ([*LOGISTIC, "--integrator", "sghmc"], "integrator sghmc needs a friction"),
    "word": ([*LOGISTIC, "--integrator", "splitting", "--friction", "1", "--word", "XYZ"], "word"),
    "order": ([*LOGISTIC, "--order", "random"], "order: must be one of with_replacement"),
    "clip": ([*LOGISTIC, "--clip", "0"], "clip: must be greater than 0"),
    "a key without its method": ([*SAMPLE, "--model", "mlp", "--period", "5"], "no estimator is given. Give it"),
    "budget": ([*SAMPLE, "--model", "logistic", "--budget", "some"], "sample(budget='some'): write a number"),
    "test fraction": ([*LOGISTIC, "--test-fraction", "1"], "test_fraction: must be less than 1"),
    "task": ([*LOGISTIC, "--task", "regression"], "model logistic says what its target is"),
    "ragged": (["sample", "ragged.csv", "--target", "y", "--model", "mlp"], "line 3 has 1 cells"),
    "empty": (["sample", "empty.csv", "--target", "y", "--model", "mlp"], "empty.csv is empty"),
    "words": (["sample", "words.csv", "--target", "y", "--model", "mlp"], "target 'y' is 1 in every row"),
    "holes": (["sample", "holes.csv", "--target", "y", "--missing", "refuse"], "1 in column 'a' (first in line 2)"),
    "not text": (["sample", "binary.csv", "--target", "y", "--model", "mlp"], "Save it in UTF-8"),
    "no header": (["sample", "numbers.csv", "--target", "y", "--model", "mlp"], "the first line holds numbers"),
    "one class": (["sample", "one.csv", "--target", "y", "--model", "logistic"], "target 'y' is 1 in every row"),
    "two rows": (["sample", "tiny.csv", "--target", "y", "--model", "logistic"], "leaves both some rows"),
    "three classes": (["sample", "good.csv", "--target", "group", "--model", "logistic"], "has 3 classes, and logistic has two. Use softmax."),
    "text for a number": (["sample", "good.csv", "--target", "group", "--model", "linear"], "has classes such as 'a', and linear needs"),
    "ordinal of two": (["sample", "good.csv", "--target", "outcome", "--model", "ordinal"], "has two classes, and ordinal is for three"),
    "network of counts": (["sample", "counts.csv", "--target", "y", "--model", "mlp"], "'y' is a count, and mlp is for classes or numbers. Say --task"),
    "counts of text": (["sample", "good.csv", "--target", "group", "--model", "poisson"], "and poisson needs numbers. Use softmax."),
    "formula": (["sample", "good.csv", "--formula", "outcome ~ aeg"], "good.csv has no column 'aeg'. Did you mean 'age'?"),
    "formula of code": (["sample", "good.csv", "--formula", "outcome ~ open(age)"], "'open' is no function of formulas"),
    "formula without a target": (["sample", "good.csv", "--formula", "age + dose"], "the formula has no target"),
    "two targets": (["sample", "good.csv", "--formula", "outcome ~ age", "--target", "dose"], "Say one."),
    "groups of a network": (["sample", "good.csv", "--formula", "outcome ~ age + (1 | group)", "--model", "mlp"], "mlp has no group effects"),
    "prior": ([*SAMPLE, "--prior", "weka"], "prior: must be one of weak, normal(0, 1)"),
    "numbers of a prior": ([*SAMPLE, "--prior", "normal(0)"], "normal takes 2 numbers (mean, sd)"),
    "an old key": ([*SAMPLE, "--prior-variance", "2"], "Write a prior by name"),
    "an old switch": ([*SAMPLE, "--no-intercept"], "intercept is a key of earlier versions."),
    "predict nothing": (["predict"], "the following arguments are required: RUN, NEW"),
    "predict without a table": (["predict", "run", "none.csv"], "none.csv: no such file"),
    "predict into a directory": (["predict", "run", "good.csv", "--out", "./"], "predictions are a CSV file"),
    "predict into no directory": (["predict", "run", "good.csv", "--out", "no/p.csv"], "there is no directory no. Make it first."),
    "predict with no run": (["predict", "run", "good.csv"], "run: no such directory."),
    "broken arrays": (["sample", "broken.npz", "--target", "y", "--model", "mlp"], "broken.npz cannot be read"),
    "key of a config": (["sample", "typo.toml"], "unknown key 'modle'. Did you mean model?"),
    "key twice": (["sample", "twice.toml"], "a key is given twice"),
    "empty config": (["sample", "nothing.toml"], "data is not given"),
    "broken config": (["sample", "broken.toml"], "this is no TOML"),
    "code in a config": (["sample", "code.toml"], "names code, and a configuration cannot"),
    "code in a setting": ([*SAMPLE, "--set", "model=evil.py:build"], "code is named by the flag alone"),
    "no such model file": ([*SAMPLE, "--model", "none.py:build"], "none.py:build: there is no such file"),
    "no such function": ([*SAMPLE, "--model", "evil.py:other"], "the file has no function other"),
    "no Python file": ([*SAMPLE, "--model", "good.csv:build"], "write FILE.py:FUNCTION"),
    "a model that does not parse": ([*SAMPLE, "--model", "syntax.py:build"], "could not be loaded: line 1"),
    "a model that fails": ([*SAMPLE, "--model", "raises.py:build"], "line 2: ZeroDivisionError"),
    "a start that fails": ([*SAMPLE, "--model", "starts.py:build"], "init(key) failed: line 4: NameError"),
    "a model that is a number": ([*SAMPLE, "--model", "number.py:build"], "has no function build"),
    "a model that returns data": ([*SAMPLE, "--model", "returns.py:build"], "must return (posterior, init)"),
    "predictions that are NaN": (
        [*SAMPLE, "--model", "predicts.py:build"],
        "must return probabilities, from 0 to 1; at the start it returns nan for x = [",
    ),
    "logits for probabilities": ([*SAMPLE, "--model", "logits.py:build"], "must return probabilities, from"),
    "out is not empty": ([*LOGISTIC, "--out", "."], "--out . is not empty and not a run: it holds"),
    "out of sample is a file": ([*LOGISTIC, "--out", "good.csv"], "--out good.csv: this is a file."),
    "resume nothing": (["resume", "none"], "none: no such directory."),
    "resume no run": (["resume", "."], ".: no run: it has no job.json."),
    "verify no run": (["verify", "none"], "none is not a run directory."),
    "summary of no run": (["summary", "."], "'.' is not a run directory: it has no commit.json."),
    "report of no run": (["report", "none"], "'none' is not a run directory"),
    "report of nothing": (["report"], "the following arguments are required: RUN"),
    "audit of no run": (["audit", "none"], "none: no such directory."),
    "plan with a step": (["plan", *LOGISTIC[1:]], "step_size is given, so there is nothing to plan."),
    "check typo": (["check", "typo.toml"], "unknown key 'modle'."),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with files, good and bad, where the command runs."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_answered_in_words_and_with_code_2(name, folder, capsys):
    arguments, message = BAD[name]
    code, out, err = run_command(arguments, capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert err.rsplit("vrsgmcmc: ", 1)[1].strip()
    left = {file.name for file in folder.iterdir()} - set(FILES) - {"__pycache__"}
    assert left <= ({"evil.txt"} if name == "no such function" else set())


def test_there_are_at_least_sixty():
    assert len(BAD) >= 60
