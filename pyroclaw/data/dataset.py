"""One data set in memory, and the removal of its pixel-identical images."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

PER_IMAGE = ("font", "alphabet", "drawer", "official_test")  # extras with one entry an image
TABLES = ("class_names", "alphabet_names", "font_names", "licences")  # extras with one entry a class, alphabet or font


@dataclass(frozen=True)
class DataSet:
    """Images and labels of one data set, as read: not scaled, not split.

    `images` is uint8 [n, H, W] or [n, H, W, 3]; `labels` is int64 [n]. For Omniglot a label is the character within
    its alphabet, and `extras["alphabet"]` says which alphabet. `source` is the one line that every result records,
    and a stand-in carries its own name, never that of the set it stands in for.
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    source: str
    standin: bool = False
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: np.ndarray) -> DataSet:
        """The images at `index`, with their labels and the extras that go by image."""
        extras = {key: value[index] if key in PER_IMAGE else value for key, value in self.extras.items()}
        return replace(self, images=self.images[index], labels=self.labels[index], extras=extras)


def without_duplicates(data: DataSet) -> DataSet:
    """Of pixel-identical images only the first stays, whatever their labels: no image can then leak between parts.

    Images are compared by a 128-bit hash of their bytes, so the chance that two different images among 10^6 are
    taken for one is below 10^-26.
    """
    first: dict[bytes, int] = {}
    for index, image in enumerate(np.ascontiguousarray(data.images)):
        first.setdefault(hashlib.blake2b(image, digest_size=16).digest(), index)
    if len(first) == len(data):
        return data
    return data.take(np.fromiter(first.values(), np.int64, len(first)))
