"""How good a method's probabilities are, not only its answers.

Of a part's examples, for each replicate, with p the predicted probabilities and y the label:

    NLL    mean of -log p_y
    Brier  mean of Σ_c (p_c - [y = c])²
    ECE    expected calibration error: examples in 15 bins of confidence max_c p_c, the gap between mean confidence and
           share of right answers in each, averaged by the bins' sizes

All are 0 at best. Predictions are those of the mean weights, or averaged over samples of the posterior.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pyroclaw.data.part import Part
from pyroclaw.inference.evaluate import CHUNK, probabilities
from pyroclaw.inference.method import Method
from pyroclaw.streams import Streams

BINS = 15


class Calibration(NamedTuple):
    """Each [R]."""

    nll: Tensor
    brier: Tensor
    ece: Tensor


def calibration(
    method: Method, task: int, part: Part, samples: int = 0, noise: Streams | None = None, limit: int | None = None
) -> Calibration:
    """Calibration of a method on a part, with mean weights or S > 0 samples of the posterior.

    :param limit: no more than so many examples of each replicate; they are in random order.
    """
    answers, labels, taken = [], [], 0
    for x, y, _ in part.chunks(min(CHUNK, limit or CHUNK)):
        answers.append(probabilities(method, task, x, samples, noise))
        labels.append(y)
        taken += y.shape[1]
        if limit is not None and taken >= limit:
            break
    return scores(torch.cat(answers, 1), torch.cat(labels, 1), [min(size, taken) for size in part.sizes])


def scores(p: Tensor, labels: Tensor, sizes: Sequence[int]) -> Calibration:
    """From probabilities [R, n, classes] and labels [R, n], of which a replicate's first sizes[r] count."""
    from torchmetrics.functional.classification import multiclass_calibration_error  # takes seconds to import

    own = p.gather(2, labels.unsqueeze(2)).squeeze(2)
    nll = -own.clamp_min(torch.finfo(p.dtype).tiny).log()
    brier = p.square().sum(2) - 2 * own + 1
    counts = torch.tensor(sizes, device=p.device)
    valid = torch.arange(p.shape[1], device=p.device) < counts[:, None]
    ece = torch.stack(
        [
            multiclass_calibration_error(p[r, :size], labels[r, :size], p.shape[2], n_bins=BINS, validate_args=False)
            for r, size in enumerate(sizes)
        ]
    )
    return Calibration((nll * valid).sum(1) / counts, (brier * valid).sum(1) / counts, ece)
