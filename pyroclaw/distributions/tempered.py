"""A prior together with how strongly, and on which weights, the guide is held to it."""

from typing import Any, ClassVar, Literal, get_args

import torch
from pyro.distributions import TorchDistribution
from torch.distributions import Normal, constraints

from pyroclaw.distributions.gaussian_kl import GaussianPrior
from pyroclaw.distributions.log_scale import LogScale
from pyroclaw.distributions.matched_gaussian import MatchedGaussian
from pyroclaw.errors import InputError

On = Literal["task", "global"]
LogScaleKL = Literal["exact", "fitted"]


class Tempered(TorchDistribution):
    r"""The prior ``base``, whose registered KL divergences are tempered as in generalised VCL.

    For a Gaussian base N(m0, v0) and a Gaussian guide N(m, v) the KL is

    .. math:: \tfrac{\beta}{2}\Big[\frac{v + \lambda\,(m - m_0)^2}{v_0} + \log v_0 - \log v - 1\Big],

    and for a :class:`LogScale` base it is β times the exact KL (λ has no quadratic part to weigh). Density, support
    and samples are those of the base: only the KL is tempered, so use it with an ELBO that takes the registered KL.

    ``on`` says which weights the prior is about:

    - ``"task"``: the weights :math:`w^T` of the task, gain included;
    - ``"global"``: the weights all tasks share (:attr:`MatchedGaussian.global_weight`, of the guide and, if it is one,
      of the base). Adapting is then free: the adaptation α has the same law in model and guide, so its KL is zero.

    With ``lam_above`` λ weighs only the precision that data brought, beyond that of the first prior of all:

    .. math:: \lambda \max(1/v_0 - a, 0) + \min(1/v_0, a) \quad\text{in place of}\quad \lambda / v_0.

    A Gaussian base's precision and log variance are computed here, once: build the prior once per task.

    :param base: a ``LogScale``, ``Normal`` or ``MatchedGaussian`` without event dimensions; call ``to_event`` on the
        result.
    :param beta: β, the weight of the KL.
    :param lam: λ, the weight of its quadratic part.
    :param lam_above: the precision a above which λ weighs.
    :param on: the weights compared, ``"task"`` or ``"global"``.
    :param log_scale: KL to a ``LogScale`` base, ``"exact"`` or ``"fitted"`` (the sigmoid fit, for comparison).
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}

    def __init__(
        self,
        base: LogScale | Normal | MatchedGaussian,
        beta: float = 1.0,
        lam: float = 1.0,
        on: On = "task",
        log_scale: LogScaleKL = "exact",
        lam_above: float = 0.0,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(base, LogScale | Normal | MatchedGaussian) or base.event_shape:
            raise InputError(
                f"Tempered takes a LogScale, Normal or MatchedGaussian without event dimensions, not {base}: "
                "temper the prior first and call to_event on the result."
            )
        for name, value, known in (("on", on, get_args(On)), ("log_scale", log_scale, get_args(LogScaleKL))):
            if value not in known:
                raise InputError(f"{name}={value!r} of Tempered is not known: use one of {', '.join(known)}.")
        self.base, self.beta, self.lam, self.on, self.log_scale = base, beta, lam, on, log_scale
        self.gaussian: GaussianPrior | None = None
        if not isinstance(base, LogScale):
            weight = base.global_weight if on == "global" and isinstance(base, MatchedGaussian) else base
            self.gaussian = GaussianPrior.from_moments(weight.mean, weight.variance)
        self.extra: torch.Tensor | None = None
        if lam_above > 0 and self.gaussian is not None:
            # what is left of λ's work once the KL is taken with λ = 1
            self.lam, self.extra = 1.0, (lam - 1) * (self.gaussian.precision - lam_above).clamp_min(0)
        super().__init__(base.batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> "Tempered":
        new = self._get_checked_instance(Tempered, _instance)
        new.base = self.base.expand(torch.Size(batch_shape))
        new.beta, new.lam, new.on, new.log_scale = self.beta, self.lam, self.on, self.log_scale
        new.gaussian, new.extra = self.gaussian, self.extra
        super(Tempered, new).__init__(torch.Size(batch_shape), validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self) -> bool:
        return self.base.has_rsample

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        return self.base.support

    @property
    def mean(self) -> torch.Tensor:
        return self.base.mean

    @property
    def variance(self) -> torch.Tensor:
        return self.base.variance

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return self.base.log_prob(value)

    def sample(self, sample_shape: torch.Size = torch.Size()) -> torch.Tensor:  # noqa: B008
        return self.base.sample(sample_shape)

    def rsample(self, sample_shape: torch.Size = torch.Size()) -> torch.Tensor:  # noqa: B008
        return self.base.rsample(sample_shape)
