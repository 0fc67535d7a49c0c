from .problem import Problem as Problem
