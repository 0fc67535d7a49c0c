"""Integrators, one file each. A new one is a file here and its name in `__init__.pyi`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
