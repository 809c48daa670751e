"""CLAW with a coreset: the paper calls CLAW simple to combine with memory-based methods, and it is.

The pair is CLAW's. As in VCL with a coreset, each task sets points aside before it trains, and is answered by a copy of
the posterior, adaptation included, that was refined on them (:mod:`pyroclaw.inference.refine`). Since each task adapts
the neurons in its own way, each has a copy of its own, also where they share a head.
"""

from dataclasses import dataclass
from typing import Literal

from pyroclaw.data.benchmark import Heads
from pyroclaw.inference.refine import WithCoreset
from pyroclaw.models import claw
from pyroclaw.nets import Net
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Settings(claw.Settings):
    """CLAW's settings and those of the coreset."""

    points: int = 200  # a task keeps; at most half of its images
    selection: Literal["k-center", "random"] = "k-center"


class ClawCoreset(WithCoreset, claw.Claw):
    """CLAW that answers with copies refined on coresets."""

    name = "claw_coreset"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Settings) -> None:
        super().__init__(net, heads, streams, settings)
        self.points, self.selection = settings.points, settings.selection

    def shares_copy(self) -> bool:
        return False
