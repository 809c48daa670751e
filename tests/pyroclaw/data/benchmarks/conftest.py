"""Small data sets of the true shapes, with random pixels."""

import numpy as np
import pytest

from pyroclaw.data.dataset import DataSet


def synthetic(name: str) -> DataSet:
    """Twelve or more images a class; the classes of notMNIST have unequal numbers, a class of CIFAR-100 lacks one."""
    rng = np.random.default_rng(3)
    extras = {}
    if name == "omniglot":
        alphabet = np.repeat(np.arange(50), rng.integers(2, 6, 50) * 20)
        first = np.searchsorted(alphabet, alphabet)
        labels = (np.arange(len(alphabet)) - first) // 20
        extras = {"alphabet": alphabet, "alphabet_names": np.array([f"Alphabet_{a}" for a in range(50)])}
    elif name == "cifar100":
        labels = np.repeat(np.arange(100), 12)[:-1]
    else:
        sizes = rng.integers(30, 50, 10) if name == "notmnist" else np.full(10, 33)
        labels = np.repeat(np.arange(10), sizes)
        if name == "notmnist":
            extras = {"font": rng.integers(0, 60, len(labels))}
    shape = (32, 32, 3) if name == "cifar100" else (28, 28)
    images = rng.integers(0, 256, (len(labels), *shape), dtype=np.uint8)
    return DataSet(name, images, labels.astype(np.int64), "random pixels", extras=extras)


@pytest.fixture(scope="session")
def data_set():
    """A synthetic data set by name, made once."""
    made: dict[str, DataSet] = {}
    return lambda name: made.setdefault(name, synthetic(name))
