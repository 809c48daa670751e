"""Calibration against scikit-learn and by hand, for replicates of unequal size."""

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from pyroclaw.inference.calibration import BINS, calibration, scores
from pyroclaw.streams import Streams


def problem(replicates=2, n=500, classes=4):
    p = (2 * torch.randn(replicates, n, classes)).softmax(-1)
    labels = torch.randint(classes, (replicates, n))
    return p, labels, [n, n // 3]


def test_scores_of_each_replicates_own_examples():
    p, labels, sizes = problem()
    found = scores(p, labels, sizes)
    for r in range(2):
        q, y = p[r, : sizes[r]].double().numpy(), labels[r, : sizes[r]].numpy()
        assert found.nll[r].item() == pytest.approx(log_loss(y, q / q.sum(1, keepdims=True), labels=range(4)), rel=1e-4)
        assert found.brier[r].item() == pytest.approx(((q - np.eye(4)[y]) ** 2).sum(1).mean(), rel=1e-4)
        confidence, right = q.max(1), q.argmax(1) == y
        bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
        gaps = [abs(confidence[bins == b].sum() - right[bins == b].sum()) for b in range(BINS)]
        assert found.ece[r].item() == pytest.approx(sum(gaps) / len(y), rel=1e-3)


def test_one_who_draws_labels_from_its_own_probabilities_is_calibrated():
    """The ECE of n such examples is noise of the order 1/√n; of one who is too sure of the same it is not."""
    p = (2 * torch.randn(1, 20000, 3)).softmax(-1)
    labels = torch.multinomial(p[0], 1).T
    honest = scores(p, labels, [20000])
    boastful = scores((4 * p.log()).softmax(-1), labels, [20000])
    assert honest.ece < 0.02 < 0.1 < boastful.ece
    assert honest.nll < boastful.nll and honest.brier < boastful.brier


def test_certainty_of_a_wrong_answer_stays_finite():
    sure = torch.tensor([[[1.0, 0.0]]])
    found = scores(sure, torch.tensor([[1]]), [1])
    assert found.brier.item() == 2.0 and found.ece.item() == 1.0
    assert 80 < found.nll.item() < torch.inf


class Noisy:
    """Logits that are the inputs, plus noise if there is any."""

    def logits(self, task, x, noise=None):
        return x if noise is None else x + 3 * noise.normal(*x.shape)


class Inputs:
    """Examples with their logits as inputs."""

    sizes = (3000, 2500)

    def __init__(self):
        self.x = 3 * torch.randn(2, 3000, 3)
        self.seen = 0

    def chunks(self, size):
        for start in range(0, 3000, size):
            self.seen += size
            part = self.x[:, start : start + size]
            yield part, part.argmax(-1), torch.arange(start, start + part.shape[1]) < torch.tensor(self.sizes)[:, None]


def test_samples_are_averaged_and_a_limit_is_kept():
    part = Inputs()
    plain = calibration(Noisy(), 0, part)
    part.seen = 0
    sampled = calibration(Noisy(), 0, part, samples=20, noise=Streams([0, 1], "s"), limit=500)
    assert part.seen == 500
    assert (sampled.nll > plain.nll).all()  # noise makes it less sure of what it is always right about
