"""Every test starts from the same seed and an empty parameter store; UNLOCK_SEED=1 lets the seed vary."""

import os
import random

import numpy as np
import pyro
import pytest
import torch
from hypothesis import settings

from pyroclaw.data.benchmark import NetPreset
from pyroclaw.data.own import from_arrays

settings.register_profile("seeded", derandomize=not os.environ.get("UNLOCK_SEED"), deadline=None)
settings.load_profile("seeded")
torch.set_num_threads(1)  # the tests' tensors are small: threads would mostly wait for each other


@pytest.fixture(autouse=True)
def seeded():
    seed = random.randrange(2**31) if os.environ.get("UNLOCK_SEED") else 0
    random.seed(seed)
    np.random.seed(seed)
    pyro.set_rng_seed(seed)
    pyro.clear_param_store()
    print(f"seed {seed}")


def blobs(tasks: int = 2, classes: int = 2, each: int = 60, shape: tuple[int, ...] = (12,), spread: float = 0.5):
    """Tasks of Gaussian blobs around random centres: easy to learn, and different from task to task."""
    generator = np.random.default_rng(1)
    made = []
    for _ in range(tasks):
        centres = generator.normal(size=(classes, *shape))
        labels = np.arange(classes).repeat(each)
        made.append(((centres[labels] + spread * generator.normal(size=(len(labels), *shape))).astype("f4"), labels))
    return made


@pytest.fixture(scope="session")
def toy():
    """A benchmark of two tasks that trains in a second."""
    return from_arrays("toy", blobs(), net=NetPreset("mlp", hidden=(10, 8)), epochs=10, batch_size=16)


@pytest.fixture(scope="session")
def toy_one_head():
    """The same, with one head for both tasks."""
    net = NetPreset("mlp", hidden=(10, 8))
    return from_arrays("toy of one head", blobs(), heads="single", net=net, epochs=10, batch_size=16)


@pytest.fixture(scope="session")
def toy_pictures():
    """The same with small pictures and a CNN, heads of unequal size."""
    pictures = [*blobs(1, 2, 30, (1, 8, 8)), *blobs(1, 3, 30, (1, 8, 8))]
    net = NetPreset("cnn", filters=4, blocks=2)
    return from_arrays("toy pictures", pictures, net=net, epochs=5, batch_size=16)
