r"""Steps along the axes of the prior: where Adam moves the weights of a later task.

The prior of a later task has the precision A ⊗ G (:mod:`pyroclaw.inference.consolidation`), and its axes are not the
weights: what old tasks need are combinations of them. Adam gives every coordinate steps of one size, whatever they
cost. In the weights themselves each such step has a share in everything old tasks need, and the prior's pull, which
undoes it, has a share in everything the new task could change freely. In the coordinates of the eigenvectors,

    W = M + U Z Vᵀ,        A = U diag(a) Uᵀ,    G = V diag(g) Vᵀ,

the pull is ½ Σ a_i g_j Z_ij², one number for each coordinate. Adam scales each by its own gradients, so that a
coordinate that is held does not hold others. Model, guide and ELBO are the same as before; only the path that SVI takes
is another. The guide hands its coordinates to the KL, which needs no product with A and G then.
"""

from typing import Any, NamedTuple

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyroclaw.distributions.kronecker import KroneckerGaussian, half_quadratic
from pyroclaw.inference.consolidation import Precision
from pyroclaw.products import times


class Coordinates(NamedTuple):
    """Z [R, 1, I, O], which is trained, and the eigenvectors U [R, 1, I, I] and V [R, 1, O, O] as columns."""

    position: Tensor
    rows: Tensor
    columns: Tensor
    precision: Tensor  # a_i g_j, as Z
    prior: KroneckerGaussian

    @staticmethod
    def along(precision: Precision, prior: KroneckerGaussian) -> "Coordinates":
        """Those of a prior, at its mean: Z = 0.

        :param precision: that of the prior, up to a scale and a ridge, which leave its axes as they are.
        """
        rows, columns = (_axes(factor) for factor in precision)
        a, g = _along(prior.rows, rows), _along(prior.columns, columns)
        held = (a.unsqueeze(-1) * g.unsqueeze(-2)).to(prior.mean)
        return Coordinates(torch.zeros_like(held), rows, columns, held, prior)

    def displacement(self) -> Tensor:
        """U Z Vᵀ"""
        return _Displacement.apply(self.position, self.rows, self.columns)

    def location(self) -> Tensor:
        """M + U Z Vᵀ"""
        return self.prior.mean + self.displacement()

    def pull(self, prior: TorchDistribution) -> Tensor | None:
        """½ Σ a_i g_j Z_ij²; to another prior than its own it has nothing to say."""
        own = self.prior
        if not isinstance(prior, KroneckerGaussian) or prior.mean is not own.mean:
            return None
        if prior.rows is not own.rows or prior.columns is not own.columns:
            return None
        return half_quadratic(self.position, self.precision * self.position.detach())


def _axes(factor: Tensor) -> Tensor:
    """Eigenvectors; in float64, since pixels that are never on leave many eigenvalues at 0, and float32 gets lost."""
    wide = factor.double()
    largest = wide.abs().amax((-2, -1), keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    return torch.linalg.eigh(wide / largest).eigenvectors.to(factor)


def _along(factor: Tensor, axes: Tensor) -> Tensor:
    """uᵀ A u of the axes u: the eigenvalues; in float64, as above."""
    axes = axes.double()
    return (axes * (factor.double() @ axes)).sum(-2)


class _Displacement(torch.autograd.Function):
    """U Z Vᵀ, whose gradient in Z is Uᵀ ∂ V."""

    @staticmethod
    def forward(ctx: Any, position: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(rows, columns)
        return times(times(rows, position), columns.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        rows, columns = ctx.saved_tensors
        # (Vᵀ ∂ᵀ U)ᵀ: oneDNN would copy Uᵀ first
        return times(times(columns.mT, grad.mT), rows).mT.contiguous(), None, None
