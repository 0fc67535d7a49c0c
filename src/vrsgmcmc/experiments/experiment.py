"""What a file of an experiment on a network declares."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from vrsgmcmc.core import Sampler
from vrsgmcmc.experiments.claims import network_claims
from vrsgmcmc.experiments.curves import Results
from vrsgmcmc.experiments.methods import METHODS
from vrsgmcmc.experiments.scores import EvaluationSet
from vrsgmcmc.experiments.segments import Task
from vrsgmcmc.experiments.settings import Settings
from vrsgmcmc.reports import Claim


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
    claims: Callable[[Results], list[Claim]] = network_claims
