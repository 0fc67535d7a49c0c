"""A language model on Penn Treebank: Figure 4 of the paper. Its step is 0.5, gradients clipped at 5."""

from functools import partial

from . import networks
from .experiment import Experiment, Size
from .methods import DEEP
from .texts import texts

EXPERIMENT = Experiment(
    title="Penn Treebank: an LSTM with 2 x 200 cells",
    load=partial(texts, "ptb"),
    sizes={
        "smoke": Size(passes=4, tuning=2, seeds=1, points=4, every=0.5),
        "small": Size(passes=0.5, tuning=0.1, seeds=1, points=5, every=0.1),
        "paper": Size(passes=20, tuning=0.5, seeds=1, points=24, every=0.5),
    },
    step_sizes=(0.25, 0.5, 1.0),
    methods=DEEP,
)
run = partial(networks.run, EXPERIMENT)
