"""The networks on real data: averaged predictions as good as anyone should get from them.

    VRSGMCMC_DATA=... pytest -m slow -n 0 -rP tests/experiments/test_networks_floors.py

About a quarter of an hour on one core: 20 s for each run on MNIST, 30 s for each of the MLP on
CIFAR-10, 2 minutes for CNN-4, 7 for Penn Treebank, 2 for ResNet-20. One chain each, with the loaders
and the averages of the experiments; the MLP on CIFAR-10 on all training images, the others on those
that are not kept back for validation.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
import pytest

from vrsgmcmc import datasets
from vrsgmcmc.experiments import (
    Settings,
    cnn4_cifar10,
    lstm_ptb,
    mlp_cifar10,
    mlp_mnist,
    networks,
    resnet20_cifar10,
)
from vrsgmcmc.experiments.checkpoints import Checkpoints
from vrsgmcmc.experiments.experiment import Subject
from vrsgmcmc.experiments.images import centred
from vrsgmcmc.experiments.methods import METHODS, PAPER, SGLD
from vrsgmcmc.experiments.networks import Work
from vrsgmcmc.experiments.progress import ExperimentProgress

POINTS = 5  # segments; those after the first fifth of the steps count


class Floor(NamedTuple):
    """A run, and the score that it has to stay below: an error or, of a text, a perplexity."""

    load: Callable[[Settings], Subject]
    method: str
    step: float  # h N, or what the schedule is multiplied by
    passes: float
    predictions: int
    most: float


def all_of_cifar10(settings: Settings) -> Subject:
    """The MLP on all 50,000 training images, as its floors were found."""
    subject, (x, y) = mlp_cifar10.load(settings), datasets.cifar10(settings.data_dir)[:2]
    return subject._replace(task=subject.task._replace(data=(centred(x), y.astype(np.int32))))


FLOORS = {
    "MNIST, the paper's step": Floor(mlp_mnist.load, SGLD, 0.25, 10, 50, most=0.036),
    "MNIST, the best step": Floor(mlp_mnist.load, SGLD, 0.5, 10, 50, most=0.03),
    "CIFAR-10, SGLD": Floor(all_of_cifar10, SGLD, 0.01, 5, 25, most=0.57),
    "CIFAR-10, vrSG-MCMC": Floor(all_of_cifar10, PAPER, 0.01, 7.5, 37, most=0.585),  # the paper's 5
    "CNN-4": Floor(cnn4_cifar10.load, SGLD, 0.02, 3.5, 10, most=0.42),
    "Penn Treebank": Floor(lstm_ptb.EXPERIMENT.load, SGLD, 0.5, 1.5, 5, most=215),
    "ResNet-20": Floor(resnet20_cifar10.GROUP_NORM.load, SGLD, 1.0, 0.25, 3, most=0.75),
}


@pytest.mark.slow
@pytest.mark.parametrize("floor", FLOORS.values(), ids=FLOORS)
def test_the_average_prediction_is_below_its_floor(floor, data_dir):
    with jax.enable_x64(False):  # as users run it
        subject = networks.to_device(floor.load(Settings(data_dir=data_dir)))
        test = subject.evaluation["test"]
        work = Work(subject, METHODS[floor.method], ExperimentProgress([]), Checkpoints(None))
        trace = work.trace(
            1, [floor.step], floor.passes, POINTS, floor.predictions, evaluation={"test": test}
        )
    assert not trace.diverged.any()
    assert np.isfinite(trace.averages["test"]).all()
    _, measure = test.measures
    score = work.scores(trace, "test")[measure][-1, 0]
    print(f"{measure} {score:.4g}, to stay below {floor.most:g}")
    assert score < floor.most
