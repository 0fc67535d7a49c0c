"""Which sampler for this posterior and this budget?"""

from .planner import LARGEST, Plan, parse_budget, plan

__all__ = ["LARGEST", "Plan", "parse_budget", "plan"]
