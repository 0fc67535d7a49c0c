"""Forecasts of a run on any model, by a Gaussian model of the posterior around one point."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
