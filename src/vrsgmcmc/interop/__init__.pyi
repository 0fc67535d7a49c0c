from . import sklearn as sklearn
from .problem import Problem as Problem
