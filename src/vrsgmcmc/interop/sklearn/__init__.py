"""Estimators of scikit-learn that sample: regressions and small networks with whole posteriors."""

from importlib.util import find_spec

import lazy_loader

if find_spec("sklearn") is None:
    raise ModuleNotFoundError(
        "vrsgmcmc.sklearn needs scikit-learn: pip install 'vrsgmcmc[sklearn]'", name="sklearn"
    )

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
