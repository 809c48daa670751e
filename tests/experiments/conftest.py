"""Data that the command lines can run on in seconds."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory):
    """A prepared file in the format of notMNIST: noisy templates, 40 of each letter."""
    generator = np.random.default_rng(0)
    templates = generator.integers(0, 256, (10, 28, 28))
    labels = np.arange(400) % 10
    images = np.clip(templates[labels] + generator.normal(0, 60, (400, 28, 28)), 0, 255).astype(np.uint8)
    folder = tmp_path_factory.mktemp("data")
    np.savez(folder / "notmnist.npz", images=images, labels=labels)
    return folder
