"""Penn Treebank and WikiText-2: running text, word by word.

Words are separated by blanks, and every line ends with one `<eos>`. The vocabulary is the words of the
training text in the order of their first appearance; the other parts contain no other words.

T. Mikolov's form of the Penn Treebank, as used by W. Zaremba, I. Sutskever, O. Vinyals, "Recurrent
Neural Network Regularization", 2014. S. Merity, C. Xiong, J. Bradbury, R. Socher, "Pointer Sentinel
Mixture Models", 2016.
"""

import os

import numpy as np

from .catalogue import CATALOGUE
from .checksums import content
from .locate import obtain
from .types import Tokens

END = "<eos>"


def penn_treebank(data_dir: str | os.PathLike[str] | None = None) -> Tokens:
    """929,589, 73,760 and 82,430 tokens of 10,000 words, int32.

    `data_dir`: a folder with a folder `ptb`; otherwise VRSGMCMC_DATA, the user's cache, or the net.
    """
    return load("ptb", data_dir)


def wikitext2(data_dir: str | os.PathLike[str] | None = None) -> Tokens:
    """2,088,628, 217,646 and 245,569 tokens of 33,278 words, int32.

    `data_dir`: a folder with a folder `wikitext-2`; otherwise VRSGMCMC_DATA, the cache, or the net.
    """
    return load("wikitext-2", data_dir)


def load(name: str, data_dir: str | os.PathLike[str] | None) -> Tokens:
    dataset = CATALOGUE[name]
    paths = obtain(dataset, data_dir)
    parts = (words(content(file, paths[file.name]), file.name) for file in dataset.files)
    return number_words(*parts)


def words(text: bytes, name: str = "text") -> list[str]:
    """The words of a text, with an `<eos>` at the end of each line."""
    try:
        lines = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 text: {error.reason} at byte {error.start:,}."
        ) from None
    return lines.removesuffix("\n").replace("\n", f" {END} ").split() + [END] * bool(lines)


def number_words(train: list[str], valid: list[str], test: list[str]) -> Tokens:
    """Replace each word by its index in the vocabulary of the training text."""
    indices = {word: index for index, word in enumerate(dict.fromkeys(train))}
    for part in (valid, test):
        if unknown := set(part) - indices.keys():
            raise ValueError(f"{min(unknown)!r} is not a word of the training text.")
    ids = (np.array([indices[word] for word in part], np.int32) for part in (train, valid, test))
    return Tokens(*ids, vocabulary=tuple(indices))
