from .equinox import from_equinox as from_equinox
from .flax import from_flax as from_flax
from .haiku import from_haiku as from_haiku
from .networks import NetworkProblem as NetworkProblem
from .problem import Problem as Problem
