"""How many data an anchor needs: Figure 5 of the paper, the CIFAR-10 network of Figure 2. Step 0.01."""

from functools import partial

from vrsgmcmc.core import Sampler
from vrsgmcmc.core.estimators import minibatch, practical
from vrsgmcmc.core.integrators import sgld

from . import networks
from .claims import anchor_claims
from .experiment import Experiment, Size
from .methods import ANCHORED
from .mlp_cifar10 import load

BATCHES = (10, 30, 220)  # the paper's, and what a step costs with the smallest and largest anchor
ANCHORS = (100, 200, 300, 400, 500, 600, 700, 1000, 2000)


EXPERIMENT = Experiment(
    title="CIFAR-10: the size of the anchor",
    load=load,
    sizes={
        "smoke": Size(passes=2, tuning=0, seeds=2, points=4, every=0.5),
        "small": Size(passes=5, tuning=0, seeds=1, points=8, every=0.25),
        "paper": Size(passes=100, tuning=0, seeds=3, points=40, every=0.5),
    },
    step_sizes=(0.01,),
    methods={f"SGLD, n = {n}": Sampler(minibatch(), sgld(), batch_size=n) for n in BATCHES}
    | {f"{ANCHORED}{n}": Sampler(practical(n, 10), sgld()) for n in ANCHORS},
    claims=anchor_claims,
)
run = partial(networks.run, EXPERIMENT)
