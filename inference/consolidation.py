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
examples. It comes from the same backward passes, as the expectation of ‖Σ_n r_n ∇_n‖² with random signs r_n.

The label's expectation is exact up to ten classes, beyond that from ten draws. T = 1 is the likelihood itself. Once a
task is learned with confidence π is nearly 0 or 1, so that its curvature vanishes although what it learned can be lost;
T > 1 measures how the *softened* predictions change, as distillation does (scaled by T², as there).

Λ_t stays one Kronecker product: the best approximation of the sum of two by one is a rank-one problem with a solution
in closed form (:func:`merged`), so that what is stored does not grow with the tasks.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_weight

from pyroclaw.convolutions import KERNEL
from pyroclaw.data.part import Part
from pyroclaw.inference.fisher import CHUNK, Taps, draw, some_examples
from pyroclaw.streams import Streams

DRAWS = 10  # labels that the expectation is taken over, where there are more classes
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
    zero, sums = torch.zeros((), device=streams.device), dict[str, tuple[Tensor, Tensor]]()
    traces: dict[str, Tensor] = {}
    for chunk in torch.arange(positions.shape[1], device=streams.device).split(CHUNK):
        x, _ = train.batch(positions[:, chunk])
        valid = (chunk < counts[:, None]).to(x.dtype)
        with torch.enable_grad(), _Leaves(names) as taps:
            logits = forward(x)
        seeds = _seeds(logits.detach() / temperature, streams) * valid[:, None, :, None]
        shared = [name for name in weights if taps.inputs[name].dim() > 3]
        if shared:
            seeds = seeds * streams.normal(*valid.shape).sign()[:, None, :, None]
        leaves = [taps.leaves[name] for name in weights]
        by_seed = [torch.autograd.grad(logits, leaves, seed, retain_graph=True) for seed in seeds.unbind(1)]
        for name, *own in zip(weights, *by_seed, strict=True):
            a, g = sums.get(name, (zero, zero))
            entering, leaving = taps.inputs[name].detach(), (_gram(_columns(slope)) for slope in own)
            sums[name] = a + _entering(entering, valid), g + sum(leaving, start=zero)
            if name in shared:
                traces[name] = sum((_squared_sum(entering, slope) for slope in own), start=traces.get(name, zero))
    size, taken = (one.view(-1, 1, 1) for one in (torch.tensor(train.sizes, device=counts.device), counts))
    found = {}
    for name, (a, g) in sums.items():
        mean = a / (taken * math.prod(taps.inputs[name].shape[3:]))
        if name in traces:
            g = g * (traces[name].view(-1, 1, 1) / _trace(Precision(mean, g)).clamp_min(TINY)).to(g)
        found[name] = Precision(mean.unsqueeze(1), (g * (size / taken)).unsqueeze(1))
    return found


def _seeds(logits: Tensor, streams: Streams) -> Tensor:
    """Vectors s_k [R, K, B, classes] with Σ_k s_k s_kᵀ = H, or with that expectation.

    H has a factor with one vector less than there are classes, each of them one class against those after it: with
    S_j = Σ_{i ≥ j} π_i,

        s_j = √(π_j S_{j+1} / S_j) (e_j - Σ_{i > j} π_i / S_{j+1} e_i).
    """
    pi = logits.softmax(-1)
    classes = pi.shape[-1]
    if classes > DRAWS:
        labels = torch.stack([draw(logits, streams) for _ in range(DRAWS)], dim=1)
        return (F.one_hot(labels, classes) - pi.unsqueeze(1)) / DRAWS**0.5
    tails = pi.flip(-1).cumsum(-1).flip(-1).clamp_min(torch.finfo(pi.dtype).tiny).mT.unsqueeze(-1)  # S [R, C, B, 1]
    here, after = tails[:, :-1], tails[:, 1:]
    own, later = (torch.ones(classes, classes, device=pi.device).triu(k)[:-1, None] for k in (0, 1))
    return (pi.mT[:, :-1, :, None] / here * after).sqrt() * (own - later - later * pi.unsqueeze(1) / after)


def _entering(inputs: Tensor, valid: Tensor) -> Tensor:
    """Σ a aᵀ [R, fan-in + 1, fan-in + 1] of what enters a linear map, at each position, with 1 for the bias."""
    if inputs.dim() == 3:
        return _gram(F.pad(inputs, (0, 1), value=1.0) * valid.unsqueeze(-1))
    # patches with channels last in memory, one replicate at a time: they are nine times as large as what they are of
    found = torch.cat([_gram(_patches(own, mask)) for own, mask in zip(inputs, valid, strict=True)])
    rows = torch.arange(found.shape[-1] - 1, device=found.device).unflatten(0, (KERNEL**2, -1)).T.flatten()
    rows = F.pad(rows, (0, 1), value=len(rows))
    return found[:, rows[:, None], rows]


def _patches(images: Tensor, valid: Tensor) -> Tensor:
    """Rows [1, n, 9C + 1] of one replicate, tap by tap."""
    height, width = images.shape[2:]
    valid = valid[:, None, None, None]
    padded = F.pad(images.movedim(1, -1) * valid, (0, 0, *[KERNEL // 2] * 4))
    taps = [padded[:, y : y + height, x : x + width] for y in range(KERNEL) for x in range(KERNEL)]
    return torch.cat([*taps, valid.expand(-1, height, width, -1)], dim=-1).flatten(0, 2).unsqueeze(0)


def _gram(rows: Tensor) -> Tensor:
    """rowsᵀ rows, of which the blocks below the diagonal are mirrored, not computed."""
    width = rows.shape[-1]
    found = rows.new_zeros(len(rows), width, width)
    for i in range(0, width, BLOCK):
        found[:, i : i + BLOCK, i:] = rows[:, :, i : i + BLOCK].mT @ rows[:, :, i:]
    return found.triu() + found.triu(1).mT


def _columns(slope: Tensor) -> Tensor:
    """Gradients of what leaves a linear map as rows [R, n, units]."""
    return slope.movedim(2, -1).flatten(1, -2)


def _squared_sum(entering: Tensor, slope: Tensor) -> Tensor:
    """‖Σ a δᵀ‖² [R] over examples and positions of a convolution, the bias's input being 1."""
    shape = slope.shape[2], entering.shape[2], KERNEL, KERNEL
    filters = [conv2d_weight(a, shape, own, padding=KERNEL // 2) for a, own in zip(entering, slope, strict=True)]
    return torch.stack(filters).square().flatten(1).sum(1) + slope.sum((1, 3, 4)).square().sum(1)


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


class _Leaves(Taps):
    """Adds a leaf of zeros to what leaves each linear map, to differentiate by."""

    def __init__(self, names: Mapping[int, str]) -> None:
        super().__init__(names, {})
        self.leaves: dict[str, Tensor] = {}

    def _tap(self, msg) -> None:
        super()._tap(msg)
        name = self.names[id(msg["args"][1])]
        self.leaves[name] = torch.zeros_like(msg["value"]).requires_grad_(True)
        msg["value"] = msg["value"] + self.leaves[name]

    _pyro_post_affine = _tap
    _pyro_post_convolution = _tap
