"""The maximum adaptation s, learned over tasks: equations (13) and (14).

For each neuron there is a general value s and, for each task t, its own value s_t. With the task's N training examples
in two halves and Err the cross-entropy of an example,

    s_t = s - (2 ω₁ / N) ∇_s Σ_{first half} Err(s)         (13)
    s   ← s - (2 ω₂ / N) ∇_s Σ_{second half} Err(s_t)      (14)

Both gradients are those of a mean over N/2 examples. That of (14) is taken at s_t and applied to s: the first-order
form of model-agnostic meta-learning, with the task's value as the fast weight.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pyroclaw.data.part import Part

OMEGA_1, OMEGA_2 = 0.05, 0.02  # the paper's step sizes


def learn_max_adaptation(
    general: Tensor,
    error: Callable[[Tensor, Tensor, Tensor], Tensor],
    train: Part,
    batch_size: int,
    omega_1: float = OMEGA_1,
    omega_2: float = OMEGA_2,
) -> tuple[Tensor, Tensor]:
    """The task's s_t and the new general s, from the general s [R, units].

    :param error: (s, x, y) -> cross-entropies [R, B] of the examples of a batch, differentiable in s.
    """
    middle = [size // 2 for size in train.sizes]
    task_specific = general - omega_1 * _mean_gradient(general, error, train, batch_size, [0] * len(middle), middle)
    gradient = _mean_gradient(task_specific, error, train, batch_size, middle, train.sizes)
    return task_specific, general - omega_2 * gradient


def _mean_gradient(s: Tensor, error, train: Part, batch_size: int, begin: Sequence[int], end: Sequence[int]) -> Tensor:
    """∇_s of the mean error of the examples at positions begin[r] ≤ i < end[r] of each replicate r."""
    s = s.detach().requires_grad_(True)
    total = torch.zeros_like(s)
    starts, ends = (torch.tensor(one, device=s.device).unsqueeze(1) for one in (begin, end))
    length, counts = max(last - first for first, last in zip(begin, end, strict=True)), ends - starts
    for first in range(0, length, batch_size):
        offsets = torch.arange(first, min(first + batch_size, length), device=s.device).expand(len(s), -1)
        inside = offsets < counts
        x, y = train.batch(starts + torch.where(inside, offsets, 0))
        (gradient,) = torch.autograd.grad((error(s, x, y) * inside).sum(), s)
        total += gradient
    return total / counts
