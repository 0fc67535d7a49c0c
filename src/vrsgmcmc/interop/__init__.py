"""Doors: models and data of other libraries, one file each, imported only when it is asked for."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
