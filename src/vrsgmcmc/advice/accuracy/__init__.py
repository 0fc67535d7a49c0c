"""How right is a result?"""

from .assess import assess
from .effective import effective
from .record import Accuracy

__all__ = ["Accuracy", "assess", "effective"]
