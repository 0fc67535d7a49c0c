"""Four convolutions on CIFAR-10: Figure 3 of the paper, upper half. It tunes its step."""

from functools import partial

import numpy as np

from vrsgmcmc.models import cnn

from . import networks
from .experiment import Experiment, Size, Subject
from .images import evaluation_sets, pictures
from .methods import DEEP
from .segments import Task
from .settings import Settings

EVALUATION_IMAGES = 2000
SMOKE_WIDTHS = (2, 2, 2, 2)


def load(settings: Settings) -> Subject:
    parts = pictures("cifar10", settings)
    initial = cnn.initial(10, widths=SMOKE_WIDTHS if settings.size == "smoke" else cnn.WIDTHS)
    task = Task(cnn.posterior(10), tuple(parts.train), initial, chain_method="sequential")
    return Subject(task, evaluation_sets(parts, cnn.predict, np.asarray, EVALUATION_IMAGES))


EXPERIMENT = Experiment(
    title="CIFAR-10: CNN-4",
    load=load,
    sizes={
        "smoke": Size(passes=1, tuning=0.5, seeds=1, points=3, every=0.5),
        "small": Size(passes=2, tuning=0.25, seeds=1, points=8, every=0.25),
        "paper": Size(passes=100, tuning=2, seeds=3, points=30, every=0.5),
    },
    step_sizes=(0.005, 0.01, 0.02, 0.05, 0.1),
    methods=DEEP,
)
run = partial(networks.run, EXPERIMENT)
