r"""A Gaussian over a matrix of weights whose precision is a Kronecker product, as a prior.

.. math:: W \sim N\big(M, (A \otimes G)^{-1}\big), \qquad
    -2\log p(W) = \operatorname{tr}\big(G\,(W-M)^\top A\,(W-M)\big) - \log|A \otimes G| + IO \log 2\pi

for W of I rows (inputs and the bias) and O columns (neurons). A says which combinations of inputs matter and G which
combinations of neurons; a mean-field Gaussian can only say which single weights do.

A mean-field guide N(m, v) has the KL in closed form, of which the ELBO may count the share β:

.. math:: \tfrac{\beta}{2}\Big[\sum_{ij} v_{ij} A_{ii} G_{jj} + \operatorname{tr}(G \Delta^\top A \Delta)
    - \sum_{ij} \log v_{ij} - \log|A \otimes G| - IO\Big], \qquad \Delta = m - M.

A guide that knows its Δ in coordinates of the prior's own gives the second term itself
(:mod:`pyroclaw.distributions.displaced`).
"""

import math
from typing import Any, ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.distributions import Independent, constraints, register_kl

from pyroclaw.distributions.gaussian_kl import VARIANCE_FLOOR
from pyroclaw.distributions.matched_gaussian import MatchedGaussian
from pyroclaw.fused import addresses, fusable, kernels
from pyroclaw.products import times


class KroneckerGaussian(TorchDistribution):
    """See the module. The last two dimensions are the matrix, those before them the batch.

    The determinant takes a factorisation of A and G, made here, once: build the prior once per task.

    :param mean: M [..., I, O].
    :param rows: A [..., I, I], symmetric and positive definite.
    :param columns: G [..., O, O], the same.
    :param beta: β, the weight of the KL; density and samples are not tempered.

    >>> KroneckerGaussian(torch.zeros(5, 3, 2), torch.eye(3), torch.eye(2)).event_shape
    torch.Size([3, 2])
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.independent(constraints.real, 2)
    has_rsample = True

    def __init__(
        self,
        mean: Tensor,
        rows: Tensor,
        columns: Tensor,
        beta: float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self._mean, self.rows, self.columns, self.beta = mean, rows, columns, beta
        super().__init__(mean.shape[:-2], mean.shape[-2:], validate_args=validate_args)
        self.log_determinant = self._log_determinant()

    def expand(self, batch_shape: Any, _instance: Any = None) -> "KroneckerGaussian":
        new = self._get_checked_instance(KroneckerGaussian, _instance)
        same = torch.Size(batch_shape) == self.batch_shape
        # in plates it is the same, and a guide's displacement asks whether the mean is
        new._mean = self._mean if same else self._mean.expand(*batch_shape, *self.event_shape)
        new.rows, new.columns, new.beta = self.rows, self.columns, self.beta
        new.log_determinant = self.log_determinant
        super(KroneckerGaussian, new).__init__(torch.Size(batch_shape), self.event_shape, validate_args=False)
        return new

    @property
    def mean(self) -> Tensor:
        return self._mean

    @property
    def factors(self) -> tuple[Tensor, Tensor]:
        """Cholesky factors of A and G; in float64, since inputs of a net are strongly correlated."""
        return torch.linalg.cholesky(self.rows.double()), torch.linalg.cholesky(self.columns.double())

    @property
    def variance(self) -> Tensor:
        """(A⁻¹)_ii (G⁻¹)_jj"""
        rows, columns = (torch.cholesky_inverse(factor).diagonal(dim1=-2, dim2=-1) for factor in self.factors)
        return (rows.unsqueeze(-1) * columns.unsqueeze(-2)).to(self._mean).expand(self._mean.shape)

    def _log_determinant(self) -> Tensor:
        """log|A ⊗ G| = O log|A| + I log|G|"""
        rows, columns = (2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) for factor in self.factors)
        return (self.event_shape[1] * rows + self.event_shape[0] * columns).to(self._mean)

    def log_prob(self, value: Tensor) -> Tensor:
        constant = self.log_determinant - math.prod(self.event_shape) * math.log(2 * math.pi)
        return 0.5 * constant - self._pull(value)

    def _pull(self, value: Tensor) -> Tensor:
        """½ tr(G Δᵀ A Δ), whose gradient is AΔG."""
        delta = value - self._mean
        return half_quadratic(delta, times(times(self.rows, delta.detach()), self.columns))

    def rsample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        rows, columns = self.factors
        noise = torch.randn(shape, dtype=torch.float64, device=self._mean.device)
        noise = torch.linalg.solve_triangular(rows.mT, noise, upper=True)
        return self._mean + torch.linalg.solve_triangular(columns, noise, upper=False, left=False).to(self._mean)


def half_quadratic(delta: Tensor, slope: Tensor) -> Tensor:
    """½ Σ_ij slope_ij delta_ij of matrices, where slope, linear in delta, is the gradient.

    >>> half_quadratic(torch.ones(2, 3), 4 * torch.ones(2, 3))
    tensor(12.)
    """
    return _HalfQuadratic.apply(delta, slope)


class _HalfQuadratic(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, delta: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(slope)
        return 0.5 * (slope * delta).sum((-2, -1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return grad[..., None, None] * slope, None


class _HalfSpread(torch.autograd.Function):
    """½ Σ_ij (v_ij A_ii G_jj - log v_ij), whose gradient ½ (A_ii G_jj - 1/v_ij) shares its terms."""

    @staticmethod
    def forward(ctx: Any, variance: Tensor, precision: Tensor) -> Tensor:
        held = variance.clamp_min(VARIANCE_FLOOR)
        ctx.save_for_backward(held.reciprocal().neg_().add_(precision).mul_(0.5))
        return 0.5 * (held * precision).sub_(held.log()).sum((-2, -1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return grad[..., None, None] * slope, None


class _FusedHalfSpread(torch.autograd.Function):
    """The same of diagonals A_ii and G_jj, by compiled loops."""

    @staticmethod
    def forward(ctx: Any, variance: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        *batch, height, width = variance.shape
        inputs = variance.contiguous(), rows.expand(*batch, -1).contiguous(), columns.expand(*batch, -1).contiguous()
        value = variance.new_empty(batch)
        kernels.half_spread(*addresses(*inputs, value), value.numel(), height, width, VARIANCE_FLOOR)
        ctx.save_for_backward(*inputs)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        inputs = ctx.saved_tensors
        slope, grad = torch.empty_like(inputs[0]), grad.contiguous()
        size = grad.numel(), *slope.shape[-2:]
        kernels.half_spread_slope(*addresses(*inputs, grad, slope), *size, VARIANCE_FLOOR)
        return slope, None, None


def _half_spread(variance: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """½ Σ_ij (v_ij A_ii G_jj - log v_ij) from the diagonals of A and G."""
    if fusable(variance, rows, columns):
        return _FusedHalfSpread.apply(variance, rows, columns)
    return _HalfSpread.apply(variance, rows.unsqueeze(-1) * columns.unsqueeze(-2))


@register_kl(Independent, KroneckerGaussian)
def _kl_kronecker(q: Independent, p: KroneckerGaussian) -> Tensor:
    """Of the weights that all tasks share, where the guide also has a gain."""
    if q.event_shape != p.event_shape:
        raise ValueError(f"KL of events of shape {tuple(q.event_shape)} to events of shape {tuple(p.event_shape)}")
    own = q.base_dist
    mean, variance = own.global_moments if isinstance(own, MatchedGaussian) else (own.mean, own.variance)
    rows, columns = (factor.diagonal(dim1=-2, dim2=-1) for factor in (p.rows, p.columns))
    spread = _half_spread(variance, rows, columns)
    displacement = getattr(own, "displacement", None)
    pull = None if displacement is None else displacement.pull(p)
    if pull is None:
        pull = p._pull(mean)
    return p.beta * (spread - 0.5 * (p.log_determinant + math.prod(p.event_shape)) + pull)
