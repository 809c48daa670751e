"""What tests of the Fisher information and of curvature share."""

import pytest
import torch


class Given:
    """A training part of given inputs [R, n, d]."""

    def __init__(self, x, sizes):
        self.x, self.sizes = x, tuple(sizes)

    def batch(self, positions):
        rows = torch.arange(len(self.x))[:, None]
        return self.x[rows, positions], torch.zeros_like(positions)


@pytest.fixture
def given():
    """Makes a training part: ``given(x, sizes)``."""
    return Given
