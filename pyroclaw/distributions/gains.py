r"""Moments of the gains of all units of a net, from equations (5) and (6), laid out as its weights need them.

With :math:`\phi = \mathrm{sigmoid}(a)` the gain 1 + bα of a unit has

.. math:: b = s\phi - 1, \qquad m = 1 + bp, \qquad v = b^2 p(1 - p),

and gradients :math:`\dot m, \dot v` to its moments become

.. math::

    \dot p = b\,\dot m + b^2(1 - 2p)\,\dot v, \qquad
    \dot b = p\,\dot m + 2bp(1 - p)\,\dot v, \qquad
    \dot a = s\phi(1 - \phi)\,\dot b, \qquad \dot s = \phi\,\dot b.

There are few units, so nearly all of the time is that of starting operations. Where there are compiled loops
(:mod:`pyroclaw.fused`) this is one function for all of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyroclaw.distributions.matched_gaussian import gain_moments
from pyroclaw.distributions.matched_moments import Moments
from pyroclaw.fused import addresses, fusable, kernels


class Group(NamedTuple):
    """Units whose gains scale the rows or the columns of a matrix."""

    units: int
    taps: int = 1  # rows or columns one after the other that each of them scales
    bias: bool = False  # whether one more follows, which nothing scales
    rows: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a moment, to broadcast against the matrix [R, 1, rows, columns]."""
        size = self.units * self.taps + self.bias
        return (1, size, 1) if self.rows else (1, 1, size)


def grouped_gains(p: Tensor, a: Tensor, s: Tensor, groups: Sequence[Group]) -> list[Moments]:
    """Means and variances [R, 1, rows, 1] or [R, 1, 1, columns] of the gains of each group.

    :param p: probabilities of adapting [R, U] of all units, group by group; a and s as p.

    >>> p, a, s = torch.full((1, 2), 0.5), torch.zeros(1, 2), torch.full((1, 2), 4.0)
    >>> grouped_gains(p, a, s, [Group(1), Group(1, bias=True)])[1]
    (tensor([[[[1.5000, 1.0000]]]]), tensor([[[[0.2500, 0.0000]]]]))
    """
    if fusable(p, a, s):
        found = _Gains.apply(p, a, s, groups)
        return list(zip(found[::2], found[1::2], strict=True))
    means, variances = (
        moment.split([group.units for group in groups], dim=1) for moment in gain_moments(s * torch.sigmoid(a) - 1, p)
    )
    return [
        (_entries(mean, group, 1.0), _entries(variance, group, 0.0))
        for mean, variance, group in zip(means, variances, groups, strict=True)
    ]


def _entries(units: Tensor, group: Group, bias: float) -> Tensor:
    entries = units.repeat_interleave(group.taps, dim=1) if group.taps > 1 else units
    return (F.pad(entries, (0, 1), value=bias) if group.bias else entries).view(len(units), *group.shape)


class _Gains(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, a: Tensor, s: Tensor, groups: Sequence[Group]) -> tuple[Tensor, ...]:
        phi = torch.sigmoid(a)
        # A task starts at b = 0, where p has no gradient. A compiled loop would not round the product before 1 is taken
        # from it, and Adam would make whole steps of the sign of what is left.
        p, b = p.contiguous(), (s * phi).sub_(1)
        found = [p.new_empty(len(p), *group.shape) for group in groups for _ in range(2)]
        for group, begin, *moments in _each(groups, found):
            kernels.gains(*addresses(p, b, *moments), *p.shape, begin, *group[:3])
        ctx.save_for_backward(p, b, phi, s)
        ctx.groups = groups
        return tuple(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        p, b, phi, s = ctx.saved_tensors
        to_p, to_b = torch.empty_like(p), torch.empty_like(p)
        for group, begin, *own in _each(ctx.groups, [grad.contiguous() for grad in grads]):
            kernels.gain_slopes(*addresses(p, b, *own, to_p, to_b), *p.shape, begin, *group[:3])
        needed = ctx.needs_input_grad
        to_s = to_b * phi if needed[1] or needed[2] else None
        to_a = (to_s * s).mul_(1 - phi) if needed[1] else None
        return to_p if needed[0] else None, to_a, to_s if needed[2] else None, None


def _each(groups: Sequence[Group], tensors: Sequence[Tensor]):
    """Each group with the number of its first unit and its two tensors."""
    begin = 0
    for group, first, second in zip(groups, tensors[::2], tensors[1::2], strict=True):
        yield group, begin, first, second
        begin += group.units
