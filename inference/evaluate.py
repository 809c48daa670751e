"""What a method answers about a part of a task, and how often it is right."""

import torch
from torch import Tensor

from pyroclaw.data.part import Part
from pyroclaw.inference.method import Method
from pyroclaw.streams import Streams

CHUNK = 1024  # examples of each replicate at a time


def probabilities(method: Method, task: int, x: Tensor, samples: int = 0, noise: Streams | None = None) -> Tensor:
    """p(y | x) of each example [R, B, classes]: with mean weights, or averaged over samples of the posterior.

    :param samples: 0 for mean weights, else the number S of Monte-Carlo samples, which need their random streams.
    """
    if samples == 0:
        return method.logits(task, x).softmax(-1)
    return torch.stack([method.logits(task, x, noise).softmax(-1) for _ in range(samples)]).mean(0)


def entropy(probabilities: Tensor) -> Tensor:
    """Entropy of the predictive distribution in nats [R, B]: how unsure the method is of each example."""
    return torch.special.entr(probabilities).sum(-1)


def accuracy(method: Method, task: int, part: Part, samples: int = 0, noise: Streams | None = None) -> Tensor:
    """Share of a part's examples that each replicate gets right [R]."""
    hits = []
    for x, y, valid in part.chunks(CHUNK):
        answer = probabilities(method, task, x, samples, noise).argmax(-1)
        hits.append(((answer == y) & valid).sum(-1))
    return torch.stack(hits).sum(0) / torch.tensor(part.sizes, device=hits[0].device)
