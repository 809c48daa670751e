"""What a task leaves to the next one: the precision of its posterior, from the curvature of its likelihood.

Where the ELBO (3) is stationary, the precision of a Gaussian posterior is that of its prior plus the expected curvature
of the task's likelihood,

    Λ_t = Λ_{t-1} + Σ_n E_q[ Jᵀ H J ],        H = diag(π) - π πᵀ,    π = softmax(logits / T),

here with the Gauss-Newton matrix (J: Jacobian of the logits) for the curvature. Steps of Adam on log-variances are far
from that point when a task ends; computing it is not. For the weights into one layer, a_n entering it and δ_n the
gradients of what leaves it,

    Σ_n Jᵀ H J  ≈  A ⊗ G,     A = mean of a aᵀ,   G = sum of δ δᵀ

(Martens & Grosse 2015). Positions of a convolution count as examples of their own (Grosse & Martens 2016). But
gradients at different positions of an image are correlated, and the square of their sum is larger than the sum of their
squares: a convolution's product is scaled to the trace of the matrix itself, Σ_n ‖∇_n‖² over gradients ∇_n of single
examples. It comes from the same backward passes, as the expectation of ‖Σ_n r_n ∇_n‖² with random signs r_n, over
groups of examples: the smaller they are, the more of them are averaged.

H is taken exactly up to ten classes, beyond that from two random vectors for each example, whose outer product has the
expectation H. T = 1 is the likelihood itself. Once a task is learned with confidence π is nearly 0 or 1, so that its
curvature vanishes although what it learned can be lost; T > 1 measures how the *softened* predictions change, as
distillation does (scaled by T², as there).

Λ_t stays one Kronecker product: the best approximation of the sum of two by one is a rank-one problem with a solution
in closed form (:func:`merged`), so that what is stored does not grow with the tasks.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pyroclaw.convolutions import columns, weight_gradient
from pyroclaw.data.part import Part
from pyroclaw.inference.fisher import CHUNK, Taps, some_examples
from pyroclaw.products import product
from pyroclaw.streams import Streams

EXACT = 10  # classes up to which H is exact
PROBES = 2  # random vectors in its place, where there are more
GROUP = 32  # examples whose gradients are added up with random signs
RIDGE = 1e-4  # added to a factor's diagonal, as a share of its mean: pixels that are never on leave A singular
TINY = torch.finfo(torch.float64).tiny  # where a task is learned with full confidence, precisions are 0
BLOCK = 128  # columns of a product of matrices that is known to be symmetric
POWER_STEPS = 50  # of the power method on 2×2 matrices with positive entries, which converges fast


class Precision(NamedTuple):
    """A [R, 1, I, I] and G [R, 1, O, O] of Λ = A ⊗ G."""

    rows: Tensor
    columns: Tensor

    def scaled(self, rows: Tensor, columns: Tensor) -> "Precision":
        """That of w where this is the one of (rows · columnsᵀ) ∘ w, for scales [R, I] and [R, O]."""
        return Precision(
            self.rows * (rows[:, :, None] * rows[:, None, :]).unsqueeze(1),
            self.columns * (columns[:, :, None] * columns[:, None, :]).unsqueeze(1),
        )

    def positive(self) -> "Precision":
        """With a ridge, so that it is positive definite."""
        return Precision(*(_ridged(factor) for factor in self))


def curvature(
    forward: Callable[[Tensor], Tensor],
    weights: Mapping[str, Tensor],
    train: Part,
    streams: Streams,
    examples: int,
    temperature: float,
) -> dict[str, Precision]:
    """Σ_n Jᵀ H J of the task's examples, for the weights that `forward` uses.

    :param forward: logits [R, B, classes] of inputs; each of the weights enters one linear map.
    :param weights: the tensors that `forward` gives to the linear maps, by name.
    :param streams: which examples are taken, and labels where they are drawn.
    :param examples: how many examples at most; 0 for all.
    """
    names = {id(weight): name for name, weight in weights.items()}
    positions, counts = some_examples(train, streams, examples)
    zero = torch.zeros((), device=streams.device)
    entering, leaving, traces = (dict[str, Tensor]() for _ in range(3))
    for chunk in torch.arange(positions.shape[1], device=streams.device).split(CHUNK):
        x, _ = train.batch(positions[:, chunk])
        valid = (chunk < counts[:, None]).to(x.dtype)
        with torch.enable_grad(), _Leaving(names) as taps:
            logits = forward(x)
        seeds = _seeds(logits.detach() / temperature, streams) * valid[:, None, :, None]
        shared = [name for name in weights if taps.inputs[name].dim() > 3]
        if shared:
            seeds = seeds * streams.normal(*valid.shape).sign()[:, None, :, None]
        for name in weights:
            entering[name] = entering.get(name, zero) + _entering(taps.inputs[name].detach(), valid)
        for seed in seeds.unbind(1):  # one at a time: slopes are as large as all maps of the net
            slopes = torch.autograd.grad(logits, [taps.outputs[name] for name in weights], seed, retain_graph=True)
            for name, slope in zip(weights, slopes, strict=True):
                leaving[name] = leaving.get(name, zero) + _gram(slope.movedim(2, -1).flatten(1, -2).mT)
                if name in shared:
                    traces[name] = traces.get(name, zero) + _squared_sum(taps.inputs[name].detach(), slope)
    size, taken = (one.view(-1, 1, 1) for one in (torch.tensor(train.sizes, device=counts.device), counts))
    found = {}
    for name, g in leaving.items():
        mean = entering[name] / (taken * math.prod(taps.inputs[name].shape[3:]))
        if name in traces:
            g = g * (traces[name].view(-1, 1, 1) / _trace(Precision(mean, g)).clamp_min(TINY)).to(g)
        found[name] = Precision(mean.unsqueeze(1), (g * (size / taken)).unsqueeze(1))
    return found


def _seeds(logits: Tensor, streams: Streams) -> Tensor:
    """Vectors s_k [R, K, B, classes] with Σ_k s_k s_kᵀ = H, or with that expectation.

    H has a factor with one vector less than there are classes, each of them one class against those after it: with
    S_j = Σ_{i ≥ j} π_i,

        s_j = √(π_j S_{j+1} / S_j) (e_j - Σ_{i > j} π_i / S_{j+1} e_i).

    Another has one for each class, √π_j (e_j - π). These added up with random signs r are √π ∘ r - (√π · r) π.
    """
    pi = logits.softmax(-1)
    classes = pi.shape[-1]
    if classes > EXACT:
        roots = streams.normal(len(pi), PROBES, *pi.shape[1:]).sign() * pi.sqrt().unsqueeze(1)
        return (roots - roots.sum(-1, keepdim=True) * pi.unsqueeze(1)) / PROBES**0.5
    tails = pi.flip(-1).cumsum(-1).flip(-1).clamp_min(torch.finfo(pi.dtype).tiny).mT.unsqueeze(-1)  # S [R, C, B, 1]
    here, after = tails[:, :-1], tails[:, 1:]
    own, later = (torch.ones(classes, classes, device=pi.device).triu(k)[:-1, None] for k in (0, 1))
    return (pi.mT[:, :-1, :, None] / here * after).sqrt() * (own - later - later * pi.unsqueeze(1) / after)


def _entering(inputs: Tensor, valid: Tensor) -> Tensor:
    """Σ a aᵀ [R, fan-in + 1, fan-in + 1] of what enters a linear map, at each position, with 1 for the bias."""
    if inputs.dim() == 3:
        return _gram((F.pad(inputs, (0, 1), value=1.0) * valid.unsqueeze(-1)).mT.contiguous())
    # one replicate at a time: patches are nine times as large as what they are of
    return torch.cat([_gram(_patches(own, mask)) for own, mask in zip(inputs, valid, strict=True)])


def _patches(images: Tensor, valid: Tensor) -> Tensor:
    """Columns [1, 9C + 1, n] of one replicate."""
    found = columns((images * valid[:, None, None, None]).contiguous())
    found[-1] = valid.repeat_interleave(math.prod(images.shape[2:]))
    return found.unsqueeze(0)


def _gram(rows: Tensor) -> Tensor:
    """rows · rowsᵀ, of which the blocks below the diagonal are mirrored, not computed."""
    width, multiply = rows.shape[1], product if rows.is_contiguous() else torch.bmm  # oneDNN would copy columns first
    found = rows.new_zeros(len(rows), width, width)
    for i in range(0, width, BLOCK):
        found[:, i : i + BLOCK, i:] = multiply(rows[:, i : i + BLOCK], rows[:, i:].mT)
    return found.triu() + found.triu(1).mT


def _squared_sum(entering: Tensor, slope: Tensor) -> Tensor:
    """Σ ‖Σ a δᵀ‖² [R] over groups of examples, and in them over examples and positions; the bias's input is 1."""
    groups = zip(entering.split(GROUP, dim=1), slope.split(GROUP, dim=1), strict=True)
    return torch.stack([weight_gradient(*own).square().sum((1, 2)) for own in groups]).sum(0)


def merged(first: Precision, second: Precision) -> Precision:
    """The Kronecker product nearest to the sum of two, in Frobenius norm, scaled to the sum's trace.

    vec(A) vec(G)ᵀ is A ⊗ G with its entries in another order, so the nearest one is the leading singular pair of a
    matrix of rank two, found from inner products. Of matrices without negative eigenvalues these are not negative, so
    the pair is a sum with positive weights, and positive semi-definite itself.
    """
    rows, columns = (torch.stack(pair, dim=1).flatten(2).double() for pair in zip(first, second, strict=True))
    step = (columns @ columns.mT) @ (rows @ rows.mT)
    weight = torch.ones_like(step[:, :, :1])
    for _ in range(POWER_STEPS):
        weight = step @ weight
        weight = weight / weight.norm(dim=1, keepdim=True).clamp_min(TINY)
    a = (weight * rows).sum(1)
    g = ((rows * a.unsqueeze(1)).sum(-1, keepdim=True) * columns).sum(1)
    found = Precision(a.view_as(first.rows), g.view_as(first.columns))
    scale = (_trace(first) + _trace(second)) / _trace(found).clamp_min(TINY)
    return Precision(found.rows.to(first.rows), (found.columns * scale).to(first.columns))


def _trace(precision: Precision) -> Tensor:
    rows, columns = (factor.double().diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None] for factor in precision)
    return rows * columns


def _ridged(factor: Tensor) -> Tensor:
    mean = factor.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None].clamp_min(torch.finfo(factor.dtype).tiny)
    return factor + RIDGE * mean * torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)


class _Leaving(Taps):
    """Notes what leaves each linear map, to differentiate by."""

    def __init__(self, names: Mapping[int, str]) -> None:
        super().__init__(names, {})
        self.outputs: dict[str, Tensor] = {}

    def _tap(self, msg) -> None:
        super()._tap(msg)
        value = msg["value"]
        self.outputs[self.names[id(msg["args"][1])]] = value if value.requires_grad else value.requires_grad_()

    _pyro_post_affine = _tap
    _pyro_post_convolution = _tap
