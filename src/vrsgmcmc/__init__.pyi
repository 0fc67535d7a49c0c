from . import datasets as datasets
from . import diagnostics as diagnostics
from . import models as models
from . import sklearn as sklearn
from . import store as store
from . import theory as theory
from .advice import Accuracy as Accuracy
from .advice import Audit as Audit
from .advice import Plan as Plan
from .advice import audit as audit
from .advice import load as load
from .advice import plan as plan
from .advice import sample as sample
from .core import ESTIMATORS as ESTIMATORS
from .core import INTEGRATORS as INTEGRATORS
from .core import Batch as Batch
from .core import Info as Info
from .core import Posterior as Posterior
from .core import State as State
from .core import kernel as kernel
from .core import observable as observable
from .core.estimators import *
from .core.integrators import *
from .interop import Problem as Problem
from .interop import from_equinox as from_equinox
from .interop import from_flax as from_flax
from .interop import from_haiku as from_haiku
from .interop import from_numpyro as from_numpyro
from .interop import gradient_estimator as gradient_estimator
from .interop import table as table
from .interop import to_blackjax as to_blackjax
from .interop import to_optax as to_optax
from .models import glm as glm
from .models import likelihoods as likelihoods
from .run import Result as Result
from .run import nuts as nuts

__version__: str
