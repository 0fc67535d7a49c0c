"""Texts for the experiments: an LSTM that reads segments of 35 words; its score is the perplexity.

Size `smoke` has a small network and an artificial text, so that it needs no files.
"""

import numpy as np

from vrsgmcmc import datasets
from vrsgmcmc.datasets import Tokens
from vrsgmcmc.models import lstm

from .experiment import Subject
from .scores import EvaluationSet
from .segments import Task
from .settings import Settings

CLIP = 5.0
EVALUATION_WORDS, TEST_WORDS = 20_000, 100_000  # from the beginning of each part
SMOKE_WORDS, SMOKE_VOCABULARY, SMOKE_LENGTH = 2_000, 12, 10


def texts(name: str, settings: Settings) -> Subject:
    """Penn Treebank or WikiText-2."""
    if settings.size == "smoke":
        return subject(artificial_text(), length=SMOKE_LENGTH, hidden=4, layers=1)
    load = {"ptb": datasets.penn_treebank, "wikitext2": datasets.wikitext2}[name]
    return subject(load(settings.data_dir))


def subject(text: Tokens, *, length: int = 35, hidden: int = 200, layers: int = 2) -> Subject:
    words = len(text.vocabulary)
    parts = {
        "validation": text.valid[:EVALUATION_WORDS],
        "test": text.test[:TEST_WORDS],
        "train": text.train[:EVALUATION_WORDS],
    }
    data = lstm.segments(text.train, length)
    initial = lstm.initial(words, hidden=hidden, layers=layers)
    task = Task(lstm.posterior(words), data, initial, chain_method="sequential", clip=CLIP)
    return Subject(task, {name: EvaluationSet(lstm.predict, part) for name, part in parts.items()})


def artificial_text() -> Tokens:
    """Words in a circle, most of them followed by the next one."""
    jumps = np.random.default_rng(0).choice([1, 2, 5], size=SMOKE_WORDS, p=[0.8, 0.1, 0.1])
    text = (np.cumsum(jumps) % SMOKE_VOCABULARY).astype(np.int32)
    vocabulary = tuple(map(str, range(SMOKE_VOCABULARY)))
    return Tokens(text, text[:200], text[-200:], vocabulary)
