"""Theory as code: the noise of estimators, bounds and regimes, exact laws, predictions of a run."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
