"""The precision that convolutions multiply in: float32, or bfloat16 where that was asked for.

bfloat16 has float32's range and 8 of its 24 bits. Processors that know it multiply it twice as fast, GPUs more so, and
add the products up in float32. Inputs and filters are rounded for the product, as is its result and, on the way back,
the gradient to it; weights, their moments, noise, the KL and Adam stay in float32, as does what consolidation is made
of, from activations found so.

A relative error of 2⁻⁸ in an activation is small beside the noise that batches and local reparameterisation put there,
but a trajectory is another one. So what was found so says so: the precision belongs to a record.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import torch

Precision = Literal["float32", "bfloat16"]
_lower: ContextVar[torch.dtype | None] = ContextVar("lower", default=None)


@contextmanager
def convolutions_in(precision: Precision) -> Iterator[None]:
    """All convolutions begun inside multiply in this precision, and so do their gradients where torch finds them.

    >>> with convolutions_in("bfloat16"):
    ...     lower()
    torch.bfloat16
    >>> lower()
    """
    before = _lower.set(torch.bfloat16 if precision == "bfloat16" else None)
    try:
        yield
    finally:
        _lower.reset(before)


def lower() -> torch.dtype | None:
    """What to multiply in, if it is not what the numbers are given in."""
    return _lower.get()
