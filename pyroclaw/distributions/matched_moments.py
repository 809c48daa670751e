r"""Mean and variance (8) of a matrix of adapted weights, in as few passes over it as it can be.

A weight :math:`w_{ij} \sim N(\gamma_{ij}, \sigma_{ij}^2)` is scaled by the gain of its neuron, with moments
:math:`m_j, v_j`, and in the first layer by that of its input unit too, with :math:`\mu_i, \nu_i`. The gains stay apart,
so that no matrix of gains is made but one:

.. math::

    M_{ij} = \mu_i m_j\, \gamma_{ij}, \qquad
    V_{ij} = \gamma_{ij}^2 S_{ij} + \sigma_{ij}^2\, r_i c_j, \qquad
    S_{ij} = \mu_i^2 v_j + \nu_i c_j, \quad r_i = \mu_i^2 + \nu_i, \quad c_j = m_j^2 + v_j

where nothing cancels. With G and H the gradients to M and V, and :math:`P = G\gamma`, :math:`Q = H\gamma^2`,
:math:`T = H\sigma^2` elementwise, the gradients to the gains are products of a matrix with a few vectors:

.. math::

    \dot\mu &= Pm + 2\mu \circ (Qv + Tc), & \dot\nu &= Qc + Tc, \\
    \dot m &= P^\top\mu + 2m \circ e, & \dot v &= Q^\top\mu^2 + e, \qquad e = Q^\top\nu + T^\top r,

and those to the weights are :math:`\dot\gamma = G\mu m + 2H\gamma S`, :math:`\dot{\sigma^2} = H r c`. The weights'
own :math:`\gamma` and :math:`\sigma^2`, which a KL is about, are given back beside M and V: so the gradients of both
ways meet here, and no pass is needed to add them up and to multiply them by :math:`\sigma^2`, which makes them those
to :math:`\log\sigma^2`. Where there are compiled loops (:mod:`pyroclaw.fused`) all come of one pass, in which
:math:`\dot\nu = (Q + T)c` and :math:`\dot v = (Q + T)^\top r`, since :math:`\mu^2 + \nu = r`.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyroclaw.fused import addresses, fusable, kernels

Moments = tuple[Tensor, Tensor]


def matched_moments(
    gamma: Tensor, log_variance: Tensor, columns: Moments, rows: Moments | None = None
) -> tuple[Moments, Moments]:
    """M and V of the module [..., I, O], and γ and σ².

    :param gamma: γ [..., I, O].
    :param log_variance: log σ² [..., I, O].
    :param columns: mean and variance of the gain of each neuron [..., 1, O].
    :param rows: the same of each input unit [..., I, 1], if these have gains.
    """
    function = _FusedMoments if fusable(gamma, log_variance, *columns, *(rows or ())) else _MatchedMoments
    mean, spread, *own = function.apply(gamma, log_variance, *columns, *(rows or (None, None)))
    return (mean, spread), tuple(own)


def are_matrices(gamma: Tensor, log_variance: Tensor, columns: Moments, rows: Moments | None = None) -> bool:
    """Whether the arguments have the shapes of :func:`matched_moments`, and nothing else is broadcast."""
    if gamma.dim() < 2 or log_variance.shape != gamma.shape:
        return False
    *batch, inputs, units = gamma.shape
    return all(moment.shape == (*batch, 1, units) for moment in columns) and (
        rows is None or all(moment.shape == (*batch, inputs, 1) for moment in rows)
    )


class _MatchedMoments(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, gamma: Tensor, log_variance: Tensor, m: Tensor, v: Tensor, mu: Tensor | None, nu: Tensor | None
    ) -> tuple[Tensor, ...]:
        c, variance = torch.addcmul(v, m, m), log_variance.exp()
        mean, spread, own = gamma * m, v, variance * c
        if mu is not None and nu is not None:
            squared = mu * mu
            spread = torch.mul(squared, v).addcmul_(nu, c)
            mean.mul_(mu)
            own.mul_(squared + nu)
        ctx.save_for_backward(gamma, variance, m, v, mu, nu, spread)
        return mean, own.add_((gamma * gamma).mul_(spread)), gamma, variance

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, to_mean: Tensor, to_variance: Tensor, own_gamma: Tensor, own_variance: Tensor
    ) -> tuple[Tensor | None, ...]:
        gamma, variance, m, v, mu, nu, spread = ctx.saved_tensors
        c = torch.addcmul(v, m, m)
        h_gamma = to_variance * gamma
        p, q, t = to_mean * gamma, h_gamma * gamma, to_variance * variance
        to_gamma = to_own = None
        if ctx.needs_input_grad[0]:
            to_gamma = to_mean * m if mu is None else (to_mean * m).mul_(mu)
            to_gamma.addcmul_(h_gamma, spread, value=2).add_(own_gamma)
        if ctx.needs_input_grad[1]:
            to_own = to_variance * c if mu is None else (to_variance * c).mul_(mu * mu + nu)
            to_own.add_(own_variance).mul_(variance)
        if mu is None:
            e = t.sum(-2, keepdim=True)
            to_m, to_v = torch.addcmul(p.sum(-2, keepdim=True), m, e, value=2), q.sum(-2, keepdim=True) + e
            return to_gamma, to_own, to_m, to_v, None, None
        squared = mu * mu
        across, e = t @ c.mT, (squared + nu).mT @ t + nu.mT @ q
        to_mu = torch.addcmul(p @ m.mT, mu, across + q @ v.mT, value=2)
        to_m, to_v = torch.addcmul(mu.mT @ p, m, e, value=2), squared.mT @ q + e
        return to_gamma, to_own, to_m, to_v, to_mu, across + q @ c.mT


class _FusedMoments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gamma: Tensor, log_variance: Tensor, *others: Tensor | None) -> tuple[Tensor, ...]:
        gamma, log_variance = gamma.contiguous(), log_variance.contiguous()
        gains = [None if one is None else one.contiguous() for one in others]
        mean, spread, variance = (torch.empty_like(gamma) for _ in range(3))
        kernels.moments(*addresses(gamma, log_variance, *gains, mean, spread, variance), *_dimensions(gamma))
        ctx.save_for_backward(gamma, variance, *gains)
        return mean, spread, gamma, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        slopes = [None if one is None else torch.empty_like(one) for one in inputs]
        grads = tuple(grad.contiguous() for grad in grads)
        kernels.moment_slopes(addresses(*inputs), addresses(*grads), addresses(*slopes), *_dimensions(inputs[0]))
        return tuple(slope if needed else None for slope, needed in zip(slopes, ctx.needs_input_grad, strict=True))


def _dimensions(matrix: Tensor) -> tuple[int, ...]:
    """Replicates, rows and columns."""
    return math.prod(matrix.shape[:-2]), *matrix.shape[-2:]
