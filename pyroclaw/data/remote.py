"""Public addresses and checksums of the data sets, and where each file belongs in torchvision's layout.

MNIST, Fashion-MNIST, Omniglot and CIFAR-100 are taken from where torchvision takes them, by the checksums that
torchvision knows; notMNIST is the archive notMNIST_small of its author.
"""

from dataclasses import dataclass
from pathlib import Path

from pyroclaw.data.download import DownloadError, fetch, reachable
from pyroclaw.data.local import LAYOUT, Log


@dataclass(frozen=True)
class Remote:
    """One public file: its addresses, its place under the folder that receives it, and its MD5 checksum."""

    addresses: tuple[str, ...]
    place: str
    md5: str


NOTMNIST = Remote(
    ("http://yaroslavvb.com/upload/notMNIST/notMNIST_small.tar.gz",),
    "notMNIST_small.tar.gz",
    "c9890a473a9769fda4bdf314aaf500dd",
)


def files(name: str) -> list[Remote]:
    """The files that make up data set `name`."""
    from torchvision import datasets  # imported here: slow, and needed only where something is to be fetched

    if name == "notmnist":
        return [NOTMNIST]
    if name == "cifar100":
        cifar = datasets.CIFAR100
        return [Remote((cifar.url,), cifar.filename, cifar.tgz_md5)]
    if name == "omniglot":
        glot = datasets.Omniglot
        return [
            Remote((f"{glot.download_url_prefix}/{part}.zip",), f"{glot.folder}/{part}.zip", md5)
            for part, md5 in glot.zips_md5.items()
        ]
    mnist = datasets.MNIST if name == "mnist" else datasets.FashionMNIST
    return [
        Remote(tuple(mirror + file for mirror in mnist.mirrors), f"{LAYOUT[name]}/{file}", md5)
        for file, md5 in mnist.resources
    ]


def download(name: str, folder: Path, log: Log) -> None:
    """Fetch every file of data set `name` into `folder`; `DownloadError` where one cannot be had."""
    for file in files(name):
        addresses = reachable(file.addresses)
        if not addresses:
            raise DownloadError(f"no answer from {', '.join(address.split('/')[2] for address in file.addresses)}")
        log(f"{name}: downloading {addresses[0]}")
        fetch(addresses, folder / file.place, file.md5, log)
