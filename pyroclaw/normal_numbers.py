r"""Standard normal numbers of one of torch's generators, which on a CPU take torch twice as long as they need to.

torch draws words of the Mersenne Twister one after the other, takes 24 bits of each for a uniform number, and of groups
of 16 of these makes normal numbers by the transform of Box and Muller,

.. math:: \sqrt{-2 \log(1 - u_i)}\,\cos 2\pi u_{i+8}, \qquad \sqrt{-2 \log(1 - u_i)}\,\sin 2\pi u_{i+8}.

A compiled loop (:mod:`pyroclaw.fused`) does the same on the generator's own state, with as many words at once as the
processor holds. The numbers are torch's within rounding, and the generator is left as torch would leave it. How a state
is laid out in memory is torch's own affair, so it is tried out once whether both agree.
"""

from functools import cache

import torch
from torch import Generator, Tensor

from pyroclaw.fused import addresses, fusable, kernels

GROUP = 16  # what is left over beyond whole groups torch draws in another way
STATE = 5056  # bytes


def fill_normal(out: Tensor, generator: Generator) -> None:
    """Write standard normal numbers over those of a contiguous tensor.

    >>> one, other = torch.empty(2, 16), torch.empty(2, 16)
    >>> fill_normal(one, torch.Generator().manual_seed(0))
    >>> torch.allclose(one, other.normal_(generator=torch.Generator().manual_seed(0)), atol=1e-5)
    True
    """
    if out.numel() and out.numel() % GROUP == 0 and fusable(out) and _agrees():
        _fill(out, generator)
    else:
        out.normal_(generator=generator)


def _fill(out: Tensor, generator: Generator) -> None:
    state = generator.get_state()
    kernels.normal(*addresses(state, out), out.numel())
    generator.set_state(state)


@cache
def _agrees() -> bool:
    """Whether numbers and states are those of torch, over two renewals of the state."""
    own, other = (Generator().manual_seed(0) for _ in range(2))
    if own.get_state().numel() != STATE:
        return False
    found, expected = (torch.empty(100 * GROUP) for _ in range(2))
    _fill(found, own)
    expected.normal_(generator=other)
    return torch.allclose(found, expected, atol=1e-5) and torch.equal(own.get_state(), other.get_state())
