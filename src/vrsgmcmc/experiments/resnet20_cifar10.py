"""ResNet-20 on CIFAR-10: Figure 3 of the paper, lower half, with h_l = 1 / (10 + 1.8e-3 l).

Twice: with group-norm, where a datum is an image, and with batch-norm, where a datum is a fixed group
of ten images.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vrsgmcmc.core import Sampler
from vrsgmcmc.core.estimators import minibatch, practical
from vrsgmcmc.core.integrators import sgld
from vrsgmcmc.models import resnet

from . import networks
from .checkpoints import Checkpoints
from .cnn4_cifar10 import EVALUATION_IMAGES
from .combined_page import join
from .experiment import Experiment, Size, Subject
from .images import Pictures, evaluation_sets, pictures
from .methods import DEEP, EQUAL, PAPER, SGLD
from .segments import Task
from .settings import Outcome, Settings

GROUP, STATISTICS = 10, 100  # images in a group; groups that give test images their means
IN_GROUPS = {
    SGLD: Sampler(minibatch(), sgld(), batch_size=1),
    EQUAL: Sampler(minibatch(), sgld(), batch_size=3),
    PAPER: Sampler(practical(10, 10), sgld(), batch_size=1),
}


def run(settings: Settings, checkpoints: Checkpoints) -> Outcome:
    parts = {norm: networks.run(each, settings, checkpoints) for norm, each in EXPERIMENTS.items()}
    return join("CIFAR-10: ResNet-20", "norm", parts)


def schedule(step: Any) -> Any:
    return 1 / (10 + 1.8e-3 * step)


def load(arrange: Callable[[Pictures, Any], Subject], norm: str, settings: Settings) -> Subject:
    size = {"width": 2, "blocks": 1} if settings.size == "smoke" else {}
    return arrange(pictures("cifar10", settings), resnet.initial(10, norm=norm, **size))


def one_by_one(parts: Pictures, initial: Any) -> Subject:
    data = tuple(parts.train)
    task = Task(resnet.posterior(10), data, initial, chain_method="sequential", schedule=schedule)
    return Subject(task, evaluation_sets(parts, resnet.predict, np.asarray, EVALUATION_IMAGES))


def in_groups(parts: Pictures, initial: Any) -> Subject:
    x, y = resnet.groups(*parts.train, size=GROUP)

    def with_statistics(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return images, x[:STATISTICS]

    posterior = resnet.posterior(10, norm="batch_norm")
    task = Task(posterior, (x, y), initial, chain_method="sequential", schedule=schedule)
    rows = evaluation_sets(parts, predict_by_statistics, with_statistics, EVALUATION_IMAGES)
    return Subject(task, rows, images_per_datum=GROUP)


def predict_by_statistics(net: Any, data: Any) -> Any:
    images, training = data
    return resnet.predict(net, images, resnet.statistics(net, training))


GROUP_NORM = Experiment(
    title="CIFAR-10: ResNet-20 with group-norm",
    load=partial(load, one_by_one, "group_norm"),
    sizes={
        "smoke": Size(passes=1, tuning=0.5, seeds=1, points=3, every=0.5),
        "small": Size(passes=0.5, tuning=0.1, seeds=1, points=5, every=0.1),
        "paper": Size(passes=50, tuning=0.25, seeds=1, points=30, every=0.5),
    },
    step_sizes=(0.3, 1.0, 3.0),  # times 1 / (10 + 1.8e-3 l)
    methods=DEEP,
)
EXPERIMENTS = {
    "group-norm": GROUP_NORM,
    "batch-norm": GROUP_NORM._replace(
        title="CIFAR-10: ResNet-20 with batch-norm in groups of ten",
        load=partial(load, in_groups, "batch_norm"),
        methods=IN_GROUPS,
    ),
}
