"""One step of one chain, as pure functions: no file, no terminal, no method by name.

`__init__.pyi` lists what this room offers; each name is imported when it is first asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
