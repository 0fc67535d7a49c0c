from . import diagnostics as diagnostics
from .audit import Audit as Audit
from .audit import audit as audit
from .plan import Plan as Plan
from .plan import plan as plan
