"""The networks of the paper in PyTorch, and how long a gradient of each takes there.

    python benchmarks/torch_networks.py

Started by `networks.py`, in a process of its own: it reads a network's name and a number of steps from
each line of its input, takes so many gradients and steps x + h g, and answers with the seconds. The
networks are those of `vrsgmcmc.models`, written the usual way (images as [n, channels, h, w]).
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

BATCH, LENGTH = 10, 35


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        channels = [(3, 32), (32, 32), (32, 64), (64, 32)]
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in channels)
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        *pooled, last = self.convolutions
        for convolution in pooled:
            x = F.max_pool2d(F.relu(convolution(x)), 2)
        return self.head(F.dropout(F.relu(last(x)), 0.5).flatten(1))


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.stride, self.new = 1 if inputs == outputs else 2, outputs - inputs
        self.first = nn.Conv2d(inputs, outputs, 3, self.stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([norm(outputs), norm(outputs)])

    def forward(self, x):
        y = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        x = x[:, :, :: self.stride, :: self.stride]
        return F.relu(y + F.pad(x, (0, 0, 0, 0, self.new // 2, self.new // 2)))


class ResNet(nn.Module):
    def __init__(self, norm: Callable[[int], nn.Module]):
        super().__init__()
        widths = [16, *[16] * 3, *[32] * 3, *[64] * 3]
        self.start = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), norm(16), nn.ReLU())
        self.blocks = nn.Sequential(*(Block(a, b, norm) for a, b in itertools.pairwise(widths)))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.blocks(self.start(x)).mean((2, 3)))


class LSTM(nn.Module):
    def __init__(self, vocabulary: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 200)
        self.layers = nn.LSTM(200, 200, 2)
        self.head = nn.Linear(200, vocabulary)

    def forward(self, words):
        return self.head(self.layers(self.embedding(words))[0])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 100), nn.Sigmoid(), nn.Linear(100, 10))


def images() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))


def words(vocabulary: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, vocabulary, (LENGTH, BATCH)), torch.randint(
        0, vocabulary, (LENGTH, BATCH)
    )


NETWORKS = {
    "mlp": lambda: (mlp(), torch.randn(BATCH, 784), torch.randint(0, 10, (BATCH,))),
    "cnn4": lambda: (CNN(), *images()),
    "resnet20": lambda: (ResNet(lambda width: nn.GroupNorm(8, width)), *images()),
    "resnet20-batch-norm": lambda: (ResNet(nn.BatchNorm2d), *images()),
    "lstm-ptb": lambda: (LSTM(10_000), *words(10_000)),
    "lstm-wikitext2": lambda: (LSTM(33_278), *words(33_278)),
}


def contestant(name: str) -> Callable[[int], float]:
    """Seconds of a number of gradients and steps, after some steps of warm-up."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    network, x, y = NETWORKS[name]()
    weights = list(network.parameters())

    def step() -> None:
        logits = network(x)
        loss = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="sum")
        slopes = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight.sub_(slope, alpha=1e-9)

    def run(steps: int) -> float:
        began = clock()
        for _ in range(steps):
            step()
        return clock() - began

    run(3)
    return run


def main() -> None:
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print(torch.__version__, flush=True)
    known: dict[str, Callable[[int], float]] = {}
    for line in sys.stdin:
        name, steps = line.split()
        if name not in known:
            known[name] = contestant(name)
        print(known[name](int(steps)), flush=True)


if __name__ == "__main__":
    main()
