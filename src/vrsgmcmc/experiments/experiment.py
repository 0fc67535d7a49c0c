"""What a file of an experiment on a network declares."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from vrsgmcmc.core import Sampler
from vrsgmcmc.reports import Claim

from .claims import method_claims
from .curves import Results
from .methods import METHODS
from .scores import EvaluationSet
from .segments import Task
from .settings import Settings


class Subject(NamedTuple):
    """A network with its data, and the rows that it predicts: validation, test, train, and others."""

    task: Task
    evaluation: Mapping[str, EvaluationSet]
    images_per_datum: int = 1

    @property
    def size(self) -> int:
        return self.task.size


class Size(NamedTuple):
    passes: float
    tuning: float  # passes of every step size of the grid
    seeds: int
    points: int
    every: float  # passes between two predictions


class Experiment(NamedTuple):
    title: str
    load: Callable[[Settings], Subject]
    sizes: Mapping[str, Size]
    step_sizes: Sequence[float]  # h N: on the mean log-likelihood; the paper's is one of them
    methods: Mapping[str, Sampler] = METHODS
    claims: Callable[[Results], list[Claim]] = method_claims
