"""Data sets and the few preparations that they need, in NumPy.

`pima()` comes with the package. `mnist()`, `cifar10()`, `penn_treebank()` and `wikitext2()` are found
on this machine, or downloaded once into the user's cache (`finding`). Whatever is read is compared with
a known sha256 first (`sums`), and nothing is ever unpickled.

Names are imported when they are first asked for, so that the table of files alone costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
