"""The mean of SVI's last iterates, in place of the last one (Polyak & Juditsky 1992).

Adam with a constant rate does not come to rest. Its iterates θ_k scatter around the point where the ELBO is largest, as
far as the rate and the noise of batches drive them, and the last of them is no nearer to it than any other. Their mean

    θ̄ = (1/n) Σ_{k > K - n} θ_k

over the last n of K steps is nearer: what scatters cancels. That matters twice to a sequence of tasks. A task is
learned better; and the next prior, which has θ̄ as its mean, is about a point that was not displaced by chance along
directions that old tasks need. A rate that falls would bring the iterates to rest too, but takes steps away from
learning.

What is averaged lies in convex sets (p in [0, 1], all else anywhere), so its mean does too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


class Average:
    """A running mean of the parameters of a phase.

    >>> one = torch.zeros(2)
    >>> average = Average([one])
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = one.fill_(value)
    ...     average.take()
    >>> average.settle()
    >>> one
    tensor([3., 3.])
    """

    def __init__(self, trained: Sequence[Tensor]) -> None:
        self.trained, self.count = [one.detach() for one in trained], 0
        self.means: list[Tensor] = []

    def take(self) -> None:
        """Count the parameters as they are now."""
        if not self.count:
            self.means = [torch.zeros_like(one) for one in self.trained]
        self.count += 1
        torch._foreach_lerp_(self.means, self.trained, 1 / self.count)

    def settle(self) -> None:
        """Put the mean in the place of the last iterate, if any was taken."""
        if self.count:
            torch._foreach_copy_(self.trained, self.means)

    def state(self) -> dict[str, Any]:
        return {"count": self.count, "means": self.means}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.count, self.means = state["count"], list(state["means"])
