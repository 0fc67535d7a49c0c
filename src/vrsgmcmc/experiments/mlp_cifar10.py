"""A network with 100 sigmoid units on CIFAR-10: Figure 2 of the paper, lower half. Its step is 0.01."""

from functools import partial

from . import networks
from .experiment import Experiment, Size, Subject
from .images import centred, pictures
from .mlp_mnist import subject
from .settings import Settings


def load(settings: Settings) -> Subject:
    photographs = subject(pictures("cifar10", settings), centred)
    # one network fits the cache, several do not
    return photographs._replace(task=photographs.task._replace(chain_method="sequential"))


EXPERIMENT = Experiment(
    title="CIFAR-10: a network with 100 hidden units",
    load=load,
    sizes={
        "smoke": Size(passes=2, tuning=1, seeds=2, points=4, every=0.25),
        "small": Size(passes=5, tuning=2, seeds=3, points=12, every=0.1),
        "paper": Size(passes=100, tuning=5, seeds=5, points=40, every=0.5),
    },
    step_sizes=(0.003, 0.01, 0.03, 0.1, 0.3),
)
run = partial(networks.run, EXPERIMENT)
