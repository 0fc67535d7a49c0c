from .blackjax import gradient_estimator as gradient_estimator
from .blackjax import to_blackjax as to_blackjax
from .equinox import from_equinox as from_equinox
from .flax import from_flax as from_flax
from .haiku import from_haiku as from_haiku
from .networks import NetworkProblem as NetworkProblem
from .optax import to_optax as to_optax
from .problem import Problem as Problem
