r"""Inducing points: a function remembered by its values at M inputs Z, and which inputs to take.

With features φ(x) of dimension D and weights w ~ N(0, I), the function f = wᵀφ is a Gaussian process with kernel
k(x, x') = φᵀφ'. Let Φ = φ(Z), and u = f(Z) + N(0, ε): the jitter ε is on the values at Z only. Then

    prior        u ~ N(0, K),                 K = ΦΦᵀ + εI
    posterior    u ~ N(Φμ, ΦΣΦᵀ + εI)         if w ~ N(μ, Σ)

and what u says of f elsewhere is again a Gaussian over weights, for whatever Φ has become since:

    E[w | u] = ΦᵀK⁻¹u = Wu,    Cov[w | u] = I - ΦᵀK⁻¹Φ = εC⁻¹,    W = C⁻¹Φᵀ,    C = ΦᵀΦ + εI

so prediction needs C [D, D] and never K [M, M] (Woodbury). Where M > D the kernel is degenerate: K is C's spectrum and
M - D times ε, and the KL is taken from C too. All of this in float64, as eigenvalues reach from ε to millions.

Which inputs. The trace of what Z leaves unexplained at the N training points, T = Σ_n [k_nn - k_nZ K⁻¹ k_Zn], is
tr(RG) with R = εC⁻¹ and G = Σ_n φ_n φ_nᵀ. A point more with features φ lowers it by

    gain(φ) = φᵀRGRφ / (φᵀRφ + ε)

which is exact. From a random Z, each point in turn is taken out, and it and the next training points of a shuffled list
are compared by their gains all at once. The best stays: the same as proposing them one after the other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints, register_kl
from torch.nn.utils.rnn import pad_sequence

from pyroclaw.data.part import Part
from pyroclaw.errors import InputError
from pyroclaw.streams import Streams

JITTER = 1e-3  # ε, the authors' own
CHUNK = 1024  # training examples of each replicate at a time


def with_jitter(matrix: Tensor) -> Tensor:
    return matrix + JITTER * torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


# ---- values at the inducing inputs -----------------------------------------------------------------------------------


class _Values(TorchDistribution):
    """The values of all classes' functions at the points of R replicates: batch [R, 1], event [classes, M]."""

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.independent(constraints.real, 2)

    def __init__(self, features: Tensor, classes: int) -> None:
        self.features = features
        super().__init__((len(features), 1), (classes, features.shape[1]), validate_args=False)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "_Values":
        if tuple(batch_shape) != self.batch_shape:
            raise ValueError(f"values of {len(self.features)} replicates cannot have the batch {tuple(batch_shape)}")
        return self


class InducingPrior(_Values):
    """u_c ~ N(0, ΦΦᵀ + εI) for each of `classes` functions.

    :param features: Φ [R, M, D] of today's net.
    """


class Predictive(NamedTuple):
    """f(x) ~ N(φᵀ mean, |rootᵀφ|²) for each class: mean [R, classes, D], root [R, classes, D, D]."""

    mean: Tensor
    root: Tensor


class InducingValues(_Values):
    """u_c ~ N(Φμ_c, ΦΣ_cΦᵀ + εI), fixed when a task ends, by what it is made of: less than its M × M covariances.

    :param features: Φ [R, M, D] as it was then.
    :param mean: μ [R, classes, D].
    :param root: [R, classes, D, D], the Cholesky factors of Σ.
    """

    def __init__(self, features: Tensor, mean: Tensor, root: Tensor) -> None:
        super().__init__(features, mean.shape[1])
        self.weight_mean, self.weight_root = mean, root
        self.phi, self.mu = features.double(), mean.double()
        root = root.double()
        # with one prior for all classes a KL sees no more of them than Σ_c (S_c + m_c m_cᵀ) and Σ_c log |S_c|:
        # moment_root moment_rootᵀ is the first, without the jitter
        self.moment_root = self.phi @ torch.linalg.cholesky((root @ root.mT).sum(1) + self.mu.mT @ self.mu)
        gram = self.phi.mT @ self.phi
        excess = features.shape[1] - features.shape[2]
        inner = torch.logdet(with_jitter(root.mT @ gram[:, None] @ root))
        self.log_det = (inner + excess * math.log(JITTER)).sum(1)
        self._variance = (self.phi[:, None] @ root).square().sum(-1).unsqueeze(1) + JITTER

    @property
    def mean(self) -> Tensor:
        return (self.mu @ self.phi.mT).unsqueeze(1)

    @property
    def variance(self) -> Tensor:
        return self._variance

    def prior(self, features: Tensor) -> InducingPrior:
        """The prior of the same values, if the inputs have the `features` [R, M, D] today."""
        return InducingPrior(features, self.event_shape[0])

    def predictive(self, features: Tensor) -> Predictive:
        """What the values say of the function elsewhere, if the inputs have the `features` [R, M, D] today."""
        phi = features.double()
        factor = torch.linalg.cholesky(with_jitter(phi.mT @ phi))
        projection = torch.cholesky_solve(phi.mT, factor)  # W
        back = projection @ self.phi
        spread = back[:, None] @ self.weight_root.double()
        residual = JITTER * (torch.cholesky_inverse(factor) + projection @ projection.mT)
        root = torch.linalg.cholesky(spread @ spread.mT + residual[:, None])
        return Predictive(self.mu @ back.mT, root)


@register_kl(InducingValues, InducingPrior)
def _kl_inducing(q: InducingValues, p: InducingPrior) -> Tensor:
    """Σ_c KL(N(m_c, S_c) ‖ N(0, K)) [R, 1]: one factorisation for all classes, of the smaller of K and C."""
    (classes, points), phi, old = q.event_shape, p.features.double(), q.moment_root
    dimension = phi.shape[-1]
    small = phi @ phi.mT if points <= dimension else phi.mT @ phi
    factor = root_or_nan(with_jitter(small))
    identity = torch.eye(len(small[0]), dtype=phi.dtype, device=phi.device).expand_as(small)
    right = old if points <= dimension else phi.mT @ old
    solved = torch.linalg.solve_triangular(factor, torch.cat([right, identity], -1), upper=False)
    quadratic, inverse = (part.square().sum((1, 2)) for part in solved.split([dimension, len(small[0])], -1))
    if points > dimension:
        quadratic = (old.square().sum((1, 2)) - quadratic) / JITTER
    excess = max(0, points - dimension)
    noise, log_det = excess + JITTER * inverse, excess * math.log(JITTER)
    log_det = log_det + 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    kl = 0.5 * (quadratic + classes * (noise - points + log_det) - q.log_det)
    return kl.unsqueeze(1).to(p.features.dtype)


def root_or_nan(matrix: Tensor) -> Tensor:
    """The Cholesky factor, NaN where there is none: an error could only be raised by waiting for the device."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    return torch.where(failed[..., None, None] == 0, factor, torch.nan)


# ---- which inputs ----------------------------------------------------------------------------------------------------


def residual(precision: Tensor) -> Tensor:
    """R = εC⁻¹ of inducing points with C = `precision`: φᵀRφ' is the kernel that they leave."""
    return JITTER * torch.cholesky_inverse(torch.linalg.cholesky(precision))


def gains(features: Tensor, left: Tensor, moment: Tensor) -> Tensor:
    """By how much each of the points with `features` [R, P, D] would lower the trace: [R, P].

    :param left: R [R, D, D] of the points there are.
    :param moment: G [R, D, D].
    """
    image = features @ left
    return (image @ moment * image).sum(-1) / ((image * features).sum(-1) + JITTER)


def choose(
    part: Part,
    features: Callable[[Tensor], Tensor],
    points: int,
    streams: Streams,
    how: Literal["trace", "random"] = "trace",
    proposals: int = 5,
) -> Tensor:
    """Positions [R, M] of images of each replicate for `Part.take`, M = `points` or as many as there are.

    :param features: φ [R, B, D] of inputs.
    :param streams: the first Z, and the order of the list.
    :param proposals: how many training points are tried in place of each.
    """
    if points < 1 or proposals < 1:
        raise InputError(f"points={points} and proposals={proposals} of inducing points must be 1 or above.")
    sizes = tuple(size // part.fold for size in part.sizes)
    part = replace(part, variants=None, sizes=sizes)  # the pictures as they are
    points = min(points, *sizes)
    order = [streams.permutation(r, size) for r, size in enumerate(sizes)]
    shuffled = pad_sequence(order, batch_first=True).to(part.rows.device)
    chosen = shuffled[:, :points].clone()
    rest = torch.tensor([[max(1, size - points)] for size in sizes], device=shuffled.device)
    if how == "random" or shuffled.shape[1] == points:
        return chosen
    moment = _moment(part, features)
    phi = features(part.batch(chosen)[0]).double()
    precision = with_jitter(phi.mT @ phi)
    replicates, numbers = torch.arange(len(phi), device=phi.device), torch.arange(proposals, device=phi.device)
    for i in range(points):
        precision -= phi[:, i, :, None] * phi[:, i, None, :]
        offered = shuffled.gather(1, points + (i * proposals + numbers) % rest)
        candidates = torch.cat([phi[:, i : i + 1], features(part.batch(offered)[0]).double()], 1)
        gain = gains(candidates, residual(precision), moment)
        gain[:, 1:].masked_fill_((offered[..., None] == chosen[:, None]).any(-1), -torch.inf)  # a point only once
        best = gain.argmax(1)
        chosen[:, i] = torch.cat([chosen[:, i : i + 1], offered], 1)[replicates, best]
        phi[:, i] = candidates[replicates, best]
        precision += phi[:, i, :, None] * phi[:, i, None, :]
    return chosen


def _moment(part: Part, features: Callable[[Tensor], Tensor]) -> Tensor:
    """G = Σ_n φ_n φ_nᵀ over a part: [R, D, D]."""
    total: Tensor | float = 0.0
    for x, _, valid in part.chunks(CHUNK):
        phi = features(x).double() * valid[..., None]
        total = total + phi.mT @ phi
    return torch.as_tensor(total)
