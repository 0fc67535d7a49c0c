"""The paper's experiments, one file each, and the table of them.

A file of this folder, `mlp_mnist.py` for mlp-mnist, has `run(settings, checkpoints) -> Outcome`. It
is imported when it runs: the table alone imports nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
