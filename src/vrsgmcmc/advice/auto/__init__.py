"""The sampler that the library chooses by itself."""

from .budget import parse_budget
from .decide import decide
from .decision import Decision, describe
from .request import AUTO, ESS, MEMORY, METRICS, Request, make_request

__all__ = [
    "AUTO",
    "ESS",
    "MEMORY",
    "METRICS",
    "Decision",
    "Request",
    "decide",
    "describe",
    "make_request",
    "parse_budget",
]
