"""A network with 100 sigmoid units on MNIST: Figure 2 of the paper, upper half. Its step is 0.25."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vrsgmcmc import datasets
from vrsgmcmc.models import mlp

from . import networks
from .experiment import Experiment, Size, Subject
from .images import Pictures, evaluation_sets, flat, pictures
from .scores import EvaluationSet
from .segments import Task
from .settings import Settings

OTHER = 2000


def load(settings: Settings) -> Subject:
    parts = pictures("mnist", settings)
    digits = subject(parts, flat)
    others = EvaluationSet(predict, flat(other_images(parts, settings)))
    return digits._replace(evaluation={**digits.evaluation, "CIFAR-10 in grey": others})


def subject(parts: Pictures, read: Callable[[np.ndarray], np.ndarray]) -> Subject:
    train = read(parts.train.x), parts.train.y
    start = mlp.initial(train[0].shape[1], 10, hidden=100)
    task = Task(mlp.classifier(10, activation="sigmoid"), train, start)
    return Subject(task, evaluation_sets(parts, predict, read))


def predict(params: Any, x: Any) -> Any:
    return mlp.predict(params, x, activation="sigmoid")


def other_images(parts: Pictures, settings: Settings) -> np.ndarray:
    """Photographs in grey, cut to 28 x 28, for which predictions should be uncertain."""
    if settings.size == "smoke":
        return parts.test.x[::-1]
    x = datasets.cifar10(settings.data_dir).x_test[:OTHER, 2:30, 2:30]
    return x.mean(-1, keepdims=True).round().astype(np.uint8)


EXPERIMENT = Experiment(
    title="MNIST: a network with 100 hidden units",
    load=load,
    sizes={
        "smoke": Size(passes=2, tuning=1, seeds=2, points=4, every=0.25),
        "small": Size(passes=10, tuning=2, seeds=3, points=16, every=0.1),
        "paper": Size(passes=100, tuning=10, seeds=5, points=40, every=0.5),
    },
    step_sizes=(0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
)
run = partial(networks.run, EXPERIMENT)
