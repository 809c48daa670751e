"""Generalised VCL with FiLM layers (Loo, Swaroop & Turner, ICLR 2021): CLAW's nearest relative.

Model and guide are VCL's with two changes.

The KL is weighed by β, and its quadratic part by λ wherever data, not the first prior N(0, 1), gave the precision 1/v₀:

    β/2 [ v/v₀ + c (m - m₀)² + log v₀ - log v - 1 ],        c = λ max(1/v₀ - 1, 0) + min(1/v₀, 1)

β = λ = 1 is VCL; small β with λ of the order 1/β tends to online EWC.

FiLM: each task has a scale g and a shift d of its own for every unit, before the non-linearity,

    h = g ∘ (W x + b) + d

as points without a prior. They adapt a unit to the task while W, b stay what all tasks share.

One thing differs from the authors' code: there each task's means start anew, which takes far more passes over the data
than the protocol here has; here they go on from the posterior of the task before, as in VCL.
"""

from dataclasses import dataclass

import pyro.distributions as dist
import torch
from torch import Tensor

from pyroclaw.data.benchmark import Heads
from pyroclaw.distributions import Tempered
from pyroclaw.handlers import FiLM
from pyroclaw.inference.method import Phase, TaskInfo
from pyroclaw.models.vcl import Vcl
from pyroclaw.nets import Net
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Settings:
    """Generalised VCL's settings; β, λ and the rate of the FiLM layers were chosen on validation parts."""

    beta: float = 0.05  # weight of the KL
    lam: float = 100.0  # weight of the KL's quadratic part, as far as data made it
    film: bool = True  # scales and shifts of each task's own
    lr: float = 1e-3
    lr_variance: float = 1e-3  # of the log-variances
    lr_film: float = 1e-2  # of scales and shifts
    initial_log_variance: float = -6.0


class GvclFilm(Vcl):
    """VCL with a tempered KL, and a scale and a shift for each unit and task."""

    name = "gvcl_film"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Settings) -> None:
        super().__init__(net, heads, streams, settings)
        self.settings, self.device = settings, streams.device
        self.films: list[dict[str, tuple[Tensor, Tensor]]] = []

    def prior(self, name: str, last: dist.Distribution | None) -> Tempered:
        base = last or self.initial_prior(name)
        return Tempered(base, self.settings.beta, self.settings.lam, lam_above=1.0)

    def begin_task(self, task: TaskInfo, streams: Streams) -> None:
        super().begin_task(task, streams)
        shapes = {layer.name: (self.replicates, layer.units) for layer in self.net.layers if self.settings.film}
        ones = {name: torch.ones(shape, device=self.device) for name, shape in shapes.items()}
        self.films.append({name: (one, torch.zeros_like(one)) for name, one in ones.items()})

    def phases(self) -> list[Phase]:
        (phase,) = super().phases()
        film = [parameter for pair in self.films[self.task].values() for parameter in pair]
        own = [{"params": film, "lr": self.settings.lr_film}] if film else []
        return [Phase(phase.share, [*phase.groups, *own])]

    def forward(self, x: Tensor, weights, task: int) -> Tensor:
        with FiLM({id(weights[name]): pair for name, pair in self.films[task].items()}):
            return super().forward(x, weights, task)

    def parameters(self) -> dict[str, Tensor]:
        own = {
            f"{name}.{kind}_{t + 1}": value
            for t, film in enumerate(self.films)
            for name, pair in film.items()
            for kind, value in zip(("scale", "shift"), pair, strict=True)
        }
        return super().parameters() | own
