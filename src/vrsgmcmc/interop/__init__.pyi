from .numpyro import NumPyroProblem as NumPyroProblem
from .numpyro import from_numpyro as from_numpyro
from .problem import Problem as Problem
