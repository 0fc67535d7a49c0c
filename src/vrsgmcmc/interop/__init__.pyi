from .blackjax import gradient_estimator as gradient_estimator
from .blackjax import to_blackjax as to_blackjax
from .optax import to_optax as to_optax
from .problem import Problem as Problem
from .table import table as table
