"""How unsure an answer is, and why.

With S samples w_s of the posterior, p_s = p(y | x, w_s), their mean p and the entropy H,

    total      H[p]                 of the predictive distribution
    aleatoric  mean_s H[p_s]        what stays if the weights were known: noise and overlap of the classes
    epistemic  total - aleatoric    mutual information of answer and weights: what more data could teach

Replicates are samples too: of the initial values and the order of the data.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyroclaw.inference.evaluate import CHUNK, entropy
from pyroclaw.inference.method import Method
from pyroclaw.streams import Streams


class Uncertainty(NamedTuple):
    """Of each example [n], in nats."""

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


def sampled(method: Method, task: int, x: Tensor, samples: int, noise: Streams) -> Tensor:
    """p_s [S · R, n, classes] of examples x [n, ...]: with mean weights (S = 1) if `samples` is 0."""
    found = []
    for chunk in x.split(CHUNK):
        batch = chunk.unsqueeze(0).expand(len(noise), *chunk.shape)
        draws = [method.logits(task, batch, noise if samples else None).softmax(-1) for _ in range(samples or 1)]
        found.append(torch.cat(draws))
    return torch.cat(found, dim=1)


def decompose(p: Tensor) -> Uncertainty:
    """From p_s [S, n, classes].

    >>> decompose(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])).epistemic.round(4)  # each sample sure, of another class
    array([0.6931], dtype=float32)
    """
    total, aleatoric = entropy(p.mean(0)), entropy(p).mean(0)
    return Uncertainty(*(one.cpu().numpy() for one in (total, aleatoric, (total - aleatoric).clamp_min(0))))
