"""Configurations: files, --set and flags say the same things, and mistakes are told in words."""

import inspect
from dataclasses import fields
from pathlib import Path

import pytest

from vrsgmcmc.cli import configuration, methods
from vrsgmcmc.cli.configuration import read_sets, read_toml, read_value, validate
from vrsgmcmc.cli.keys import MODELS, OLD_KEYS, PRIORS, Config
from vrsgmcmc.core import ESTIMATORS, INTEGRATORS
from vrsgmcmc.core.order import ORDERS
from vrsgmcmc.models import table
from vrsgmcmc.models.table.priors import FORMS

LEAST = {"data": "a.csv", "target": "y", "model": "logistic"}


def test_the_least_configuration_is_two_keys():
    assert validate({"data": "a.csv", "target": "y"}).model is None
    assert validate({"data": "a.csv", "formula": "y ~ x"}).target is None
    config = validate(LEAST)
    assert (config.data, config.target, config.model) == (Path("a.csv"), "y", "logistic")
    assert (config.num_chains, config.seed, config.step_size) == (4, 0, None)


def test_the_choices_are_those_of_the_library():
    assert set(methods.choices("estimator")) == set(ESTIMATORS)
    assert set(methods.choices("integrator")) == set(INTEGRATORS) - {"ito"}  # which takes functions
    for name in ("order", "anchor_order"):
        assert set(methods.choices(name)) == set(ORDERS)
    assert methods.choices("step_size") == ()


def test_the_names_are_those_of_the_models_and_priors():
    assert set(MODELS) == {*table.FAMILIES, "mlp"}
    assert PRIORS == FORMS
    assert not OLD_KEYS.keys() & {each.name for each in fields(Config)}


@pytest.mark.parametrize("kind", methods.METHODS)
def test_the_parameters_of_methods_are_read_without_an_import(kind):
    for name in methods.choices(kind):
        takes = inspect.signature(methods.METHODS[kind][name]).parameters
        expected = {
            each: (takes[each].annotation is int, takes[each].default is inspect.Parameter.empty)
            for each in takes
            if each != "order"
        }
        got = {
            each: (p.type == "int", p.required)
            for each, p in methods.parameters(kind, name).items()
        }
        assert got == expected


def test_every_key_is_explained():
    for each in fields(Config):
        assert len(each.metadata["help"]) > 10, each.name


REFUSED = {
    "unknown key": ({"stepsize": 1.0}, "unknown key 'stepsize'. Did you mean step_size?"),
    "unknown, like nothing": ({"qqqq": 1}, "unknown key 'qqqq'. The keys are: data, target, model"),
    "no target": ({"target": None}, "target is not given: it is the column to predict"),
    "model": ({"model": "logstic"}, "got 'logstic'. Did you mean logistic?"),
    "code in a configuration": ({"model": "m.py:f"}, "Your own is named on the command line"),
    "step 0": ({"step_size": 0.0}, "step_size: must be greater than 0, got 0.0."),
    "step negative": ({"step_size": -1.0}, "step_size: must be greater than 0, got -1.0."),
    "step NaN": ({"step_size": float("nan")}, "step_size: must be a finite number, got nan."),
    "step infinite": ({"step_size": float("inf")}, "step_size: must be a finite number, got inf."),
    "step as text": ({"step_size": "fast"}, "step_size: must be a finite number, got 'fast'."),
    "step as truth": ({"step_size": True}, "step_size: must be a finite number, got True."),
    "chains 0": ({"num_chains": 0}, "num_chains: must be greater than or equal to 1, got 0."),
    "chains 1.5": ({"num_chains": 1.5}, "num_chains: must be a whole number, got 1.5."),
    "chains as text": ({"num_chains": "4"}, "num_chains: must be a whole number, got '4'."),
    "chains as truth": ({"num_chains": True}, "num_chains: must be a whole number, got True."),
    "seed": ({"seed": -1}, "seed: must be greater than or equal to 0, got -1."),
    "seed too large": ({"seed": 2**40}, "seed: must be less than"),
    "order": ({"order": "shufled"}, "(did you mean shuffled?), got 'shufled'."),
    "estimator": ({"estimator": "svgr"}, "(did you mean svrg?), got 'svgr'."),
    "missing": (
        {"missing": "ignore"},
        "missing: must be one of drop, impute, refuse, got 'ignore'.",
    ),
    "levels": ({"levels": "most"}, "levels: must be one of drop_first, all, got 'most'."),
    "formula and features": (
        {"formula": "y ~ a", "features": ["a"]},
        "a formula names its columns: give formula or features, not both.",
    ),
    "a prior of another name": (
        {"prior": "norml(0, 1)"},
        "prior: must be one of weak, normal(0, 1), student_t(4, 0, 1), laplace(1), flat, got "
        "'norml(0, 1)'. Did you mean normal?",
    ),
    "a prior of a network": ({"model": "mlp", "prior": "flat"}, "mlp has N(0, 1) on every weight"),
    "a task that the model says": (
        {"task": "classification"},
        "task: model logistic says what its target is. Leave task out",
    ),
    "a task without a model": (
        {"model": None, "task": "regression"},
        "task is for mlp and your own",
    ),
    "codes of missing cells": ({"na": ["-9", "-9"]}, "na: '-9' is given twice."),
    "features": ({"features": "age"}, "features: must be a list of names, got 'age'."),
    "features of numbers": ({"features": [1]}, "features: must be text, got [1]."),
    "features twice": ({"features": ["a", "a"]}, "features: 'a' is given twice."),
    "target in features": ({"features": ["y"]}, "target 'y' is also in features."),
    "test fraction": ({"test_fraction": 1.0}, "test_fraction: must be less than 1, got 1.0."),
    "an old prior": (
        {"prior_variance": 4.0},
        "prior_variance is a key of earlier versions. Write a prior by name: prior_variance = 4 is "
        "--prior 'normal(0, 2)'.",
    ),
    "an old noise": ({"noise_variance": 1.0}, "noise_variance is a key of earlier versions. The"),
    "an old switch": (
        {"intercept": False},
        "intercept is a key of earlier versions. Every model has",
    ),
    "a table for a number": ({"hidden": {}}, "hidden: must be a whole number, got {}."),
    "path of a number": ({"data": 5}, "data: must be text, got 5."),
    "empty target": ({"target": ""}, "target: needs at least 1 character, got ''."),
    "no estimator": (
        {"period": 5},
        "period belongs to estimator practical or svrg, and no estimator",
    ),
    "no integrator": (
        {"temperature": 1.0},
        "and no integrator is given. Give it too, or leave temp",
    ),
    "budget and step": (
        {"step_size": 1.0, "budget": "9 s"},
        "budget is for a run whose step_size is",
    ),
    "ess and step": (
        {"step_size": 1.0, "ess": 9.0},
        "ess is for a run whose step_size is not given",
    ),
    "anchor of another": (
        {"step_size": 1.0, "estimator": "svrg", "anchor_size": 9},
        "anchor_size belongs to estimator practical, and the estimator is svrg.",
    ),
    "friction of sgld": (
        {"step_size": 1.0, "friction": 1.0},
        "friction belongs to integrator sghmc or sgnht or splitting, and the integrator is sgld.",
    ),
    "no friction": (
        {"step_size": 1.0, "integrator": "sghmc"},
        "integrator sghmc needs a friction, such as friction = 1.0.",
    ),
    "temperature": (
        {"step_size": 1.0, "temperature": -1.0},
        "temperature: must be greater than or equal to 0, got -1.0.",
    ),
    "long value": ({"seed": "9" * 500}, "got '" + "9" * 76 + "...."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_told_in_words(name):
    change, message = REFUSED[name]
    with pytest.raises(ValueError) as error:  # noqa: PT011
        validate({**LEAST, **change})
    assert message in str(error.value)


def test_a_file_is_read_and_its_paths_are_beside_it(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('data = "a.csv"\ntarget = "y"\nmodel = "linear"\nout = "r"\nstep_size = 1e-3\n')
    config = validate(read_toml(file))
    assert (config.data, config.out) == (tmp_path / "a.csv", tmp_path / "r")
    assert config.step_size == 1e-3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"seed = 1\nseed = 2\n", "a key is given twice"),
        (b"seed = \n", "this is no TOML"),
        (b"seed: 1\n", "A line looks like: num_chains = 4"),
        (b"\xff\xfe", "is not UTF-8 (byte 0)"),
        (
            b"model = 'my.py:build'",
            "names code, and a configuration cannot: leave it out and say --model",
        ),
        (b"a = " + b"[" * 5000, "no TOML"),
        (b"#" * (2**20 + 1), "larger than 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(content, message, tmp_path):
    file = tmp_path / "run.toml"
    file.write_bytes(content)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read_toml(file)
    assert message in str(error.value) or "nested too deep" in str(error.value)


def test_values_on_the_command_line_are_written_as_in_toml():
    words = [
        "step_size=1e-3",
        "seed=7",
        "budget=60 s",
        'features=["a", "b"]',
        "order=shuffled",
    ]
    assert read_sets(words) == {
        "step_size": 1e-3,
        "seed": 7,
        "budget": "60 s",
        "features": ["a", "b"],
        "order": "shuffled",
    }
    assert read_value("target", "8") == "8"  # a column may have a number for a name
    assert read_value("target", '"8"') == "8"
    assert read_value("seed", "1\nhidden = 3") == "1\nhidden = 3"  # one value is one value


@pytest.mark.parametrize("words", [["seed"], ["=3"], ["seed=1", "seed=2"]])
def test_a_malformed_setting_is_refused(words):
    with pytest.raises(ValueError, match="--set"):
        read_sets(words)


def test_a_record_has_no_path_and_no_code():
    config = validate(
        {**LEAST, "data": "/home/me/a.csv", "model": "/home/me/m.py:f"}, own_model=True
    )
    record = configuration.to_json(config)
    assert (record["data"], record["model"], record["out"]) == ("a.csv", "own", None)
    assert "/home" not in str(record)
    again = {name: value for name, value in record.items() if value is not None}
    assert configuration.to_json(validate(again, own_model=True)) == record
