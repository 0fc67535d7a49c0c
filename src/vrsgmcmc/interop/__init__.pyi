from .problem import Problem as Problem
from .table import table as table
