"""The signature of `vr.sample`, names of other libraries for its arguments, and the package itself."""

import inspect
from importlib.metadata import version
from pathlib import Path

import vrsgmcmc as vr
from vrsgmcmc.run import keywords


def test_the_signature_is_that_of_the_function():
    names = list(inspect.signature(vr.sample).parameters)
    assert names[:5] == ["key", "posterior", "data", "init", "estimator"]
    assert "num_steps" in (vr.sample.__doc__ or "")


def test_no_name_elsewhere_is_one_of_ours():
    others = [name for names in keywords.OURS.values() for name in names]
    assert len(others) == len(set(others))
    assert not set(others) & set(inspect.signature(vr.sample).parameters)


def test_the_package_has_a_version_and_types():
    assert vr.__version__ == version("vrsgmcmc")
    assert Path(vr.__file__).with_name("py.typed").is_file()
