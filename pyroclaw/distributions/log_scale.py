"""The log-scale prior of CLAW's first task: improper, so it has a log-density but no sampler."""

from typing import Any, ClassVar, NoReturn

import torch
from pyro.distributions import TorchDistribution
from torch.distributions import constraints


class LogScale(TorchDistribution):
    r"""Improper prior :math:`p(|w|) \propto 1/|w|`, uniform on :math:`\log|w|`, independent over all weights.

    .. math:: \log p(w) = -\log|w|, \quad\text{summed over the event dimensions}

    The prior has no normaliser; its constant is taken as 0 here and in every KL to it. The density grows without
    bound at w = 0, where :meth:`log_prob` is held at the value of the smallest normal number of the dtype (about 87 in
    float32) with gradient 0, so that a weight which is exactly zero gives no infinity.

    :param batch_shape: shape of independent weights.
    :param event_shape: shape of weights scored together; ``LogScale(shape).to_event(n)`` says the same.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    has_rsample = False

    def __init__(
        self,
        batch_shape: tuple[int, ...] = (),
        event_shape: tuple[int, ...] = (),
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(torch.Size(batch_shape), torch.Size(event_shape), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, len(self.event_shape))

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> "LogScale":
        new = self._get_checked_instance(LogScale, _instance)
        super(LogScale, new).__init__(torch.Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = value.expand(torch.broadcast_shapes(value.shape, self.shape()))
        log_prob = -value.abs().clamp_min(torch.finfo(value.dtype).tiny).log()
        return log_prob.sum(tuple(range(-len(self.event_shape), 0))) if self.event_shape else log_prob

    def sample(self, sample_shape: torch.Size = torch.Size()) -> NoReturn:  # noqa: B008
        raise NotImplementedError(
            "LogScale is improper: it has no normaliser and so no sampler; sample from the guide, "
            "or condition the site on a value, or use a proper prior such as Normal."
        )

    rsample = sample
