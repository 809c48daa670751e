"""The linear maps of a net as effectful operations, and local reparameterisation and FiLM as handlers over them.

A net calls :func:`affine` and :func:`convolution` on sampled weights. On their own they are plain linear maps. Under
:class:`LocalReparameterisation` a Gaussian weight site takes its mean as value, and each linear map draws its
*pre-activations* instead: with independent weights w ~ N(m, v),

    h = x·w  ~  N(x·m, x²·v),

exactly (Kingma, Salimans & Welling 2015, section 2.3). One noise per activation and example instead of one per weight:
less variance in the gradient, and the same marginal law.

A weight is one matrix [R, 1, fan-in + 1, out] with the bias as its last row: R replicates, a dimension for the data
plate, and one column per neuron. Convolutions use the same layout with fan-in = channels × 3 × 3.
"""

from collections.abc import Mapping

import torch
from pyro.distributions import Delta
from pyro.poutine.messenger import Messenger
from pyro.poutine.runtime import _PYRO_STACK, effectful
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import Independent

from pyroclaw import blocks
from pyroclaw.activations import reparameterised
from pyroclaw.blocks import drawn_block, pooled
from pyroclaw.convolutions import convolve
from pyroclaw.drawn_linear import drawn_linear
from pyroclaw.products import linear
from pyroclaw.streams import Streams


@effectful(type="affine")
def affine(x: Tensor, weight: Tensor) -> Tensor:
    """x [R, B, in] times weight [R, 1, in+1, out], plus the bias row: [R, B, out].

    >>> affine(torch.ones(2, 5, 3), torch.ones(2, 1, 4, 7)).shape
    torch.Size([2, 5, 7])
    """
    return linear(x, weight.squeeze(1))


@effectful(type="convolution")
def convolution(x: Tensor, weight: Tensor) -> Tensor:
    """x [R, B, C, H, W] with 3×3 filters weight [R, 1, 9C+1, out], padding 1: [R, B, out, H, W]."""
    return convolve(x, weight.squeeze(1))


@effectful(type="block")
def block(x: Tensor, weight: Tensor) -> Tensor:
    """ReLU of the 2×2 max-pooled :func:`convolution`: [R, B, out, H/2, W/2].

    Its maps are made one by one for those handlers only that listen to them.
    """
    if _heard():
        return pooled(convolution(x, weight))
    return blocks.block(x, weight.squeeze(1))


def _heard() -> bool:
    """Whether a handler wants to know what enters or leaves a convolution, to do more than draw it."""
    heard = ("_pyro_convolution", "_pyro_post_convolution")
    others = (one for one in _PYRO_STACK if not isinstance(one, LocalReparameterisation))
    return any(hasattr(one, name) for one in others for name in heard)


class LocalReparameterisation(Messenger):
    """Sample activations, not weights. Wrap the ELBO, so that model and guide run under the same handler::

        with LocalReparameterisation(streams):
            loss = elbo.differentiable_loss(model, guide, x, y)

    :param noise: the random streams of the replicates; ``None`` gives the activations their means (prediction with
        mean weights).
    """

    def __init__(self, noise: Streams | None) -> None:
        super().__init__()
        self.noise = noise
        self.variances: dict[int, tuple[Tensor, Tensor]] = {}  # mean and variance, by the id of the mean

    def __exit__(self, *args) -> None:
        self.variances.clear()
        super().__exit__(*args)

    def _pyro_sample(self, msg) -> None:
        if msg["value"] is not None or site_is_subsample(msg):  # what is replayed from the guide is a mean already
            return
        mean = msg["fn"].mean
        if self.noise is not None and not _is_point(msg["fn"]):
            self.variances[id(mean)] = mean, msg["fn"].variance
        msg["value"], msg["done"] = mean, True

    def _pyro_affine(self, msg) -> None:
        x, weight = msg["args"]
        if self.noise is None or id(weight) not in self.variances:
            return
        mean, variance = (moment.squeeze(1) for moment in self.variances[id(weight)])
        noise = self.noise.normal(*x.shape[:2], weight.shape[-1])
        msg["value"], msg["done"] = drawn_linear(x, mean, variance, noise), True

    def _pyro_convolution(self, msg) -> None:
        x, weight = msg["args"]
        if self.noise is None or id(weight) not in self.variances:
            return
        _, variance = self.variances[id(weight)]
        mean, spread = msg["fn"](x, weight), msg["fn"](x.square(), variance)
        msg["value"], msg["done"] = reparameterised(mean, spread, self.noise), True

    def _pyro_block(self, msg) -> None:
        x, weight = msg["args"]
        if self.noise is None or id(weight) not in self.variances or _heard():
            return
        mean, variance = (moment.squeeze(1) for moment in self.variances[id(weight)])
        msg["value"], msg["done"] = drawn_block(x, mean, variance, self.noise), True


class FiLM(Messenger):
    """Scale and shift what a linear map gives, unit by unit: feature-wise linear modulation (Perez et al. 2018).

    :param units: scale and shift [R, units] by the id of the weight they belong to.
    """

    def __init__(self, units: Mapping[int, tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.units = units

    def _modulate(self, msg) -> None:
        if id(msg["args"][1]) in self.units:
            scale, shift = self.units[id(msg["args"][1])]
            shape = len(scale), 1, -1, *[1] * (msg["value"].dim() - 3)
            msg["value"] = torch.addcmul(shift.view(shape), msg["value"], scale.view(shape))

    _pyro_post_affine = _modulate
    _pyro_post_convolution = _modulate


def _is_point(fn) -> bool:
    while isinstance(fn, Independent):
        fn = fn.base_dist
    return isinstance(fn, Delta)
