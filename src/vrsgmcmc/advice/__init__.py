"""What to run, and whether it was good: `audit`, `plan`, `diagnostics`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
