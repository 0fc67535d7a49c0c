"""Data sets, a user's own table (`tables`), and transforms of tables, in NumPy.

`pima()` comes with the package. `mnist()`, `cifar10()`, `penn_treebank()` and `wikitext2()` read files
on this machine, or download them once into the user's cache (`locate`). Every file is compared with its
published sha256 before it is parsed (`checksums`), and nothing is unpickled.

Names are imported on first use, so that the catalogue alone loads without NumPy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
