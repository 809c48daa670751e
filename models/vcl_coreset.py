"""VCL with a coreset (Nguyen, Li, Bui & Turner, ICLR 2018): 200 points of each task are kept for prediction.

The pair is VCL's. Each task sets aside points by k-center (or at random) before it trains; answers come from a copy of
the posterior that was refined on them, while the posterior that the next task starts from has never seen them. How:
:mod:`pyroclaw.inference.refine`.
"""

from dataclasses import dataclass
from typing import Literal

from pyroclaw.data.benchmark import Heads
from pyroclaw.inference.refine import WithCoreset
from pyroclaw.models import vcl
from pyroclaw.nets import Net
from pyroclaw.streams import Streams


@dataclass(frozen=True)
class Settings(vcl.Settings):
    """VCL's settings and those of the coreset."""

    points: int = 200  # a task keeps; at most half of its images
    selection: Literal["k-center", "random"] = "k-center"


class VclCoreset(WithCoreset, vcl.Vcl):
    """VCL that answers with a copy refined on coresets."""

    name = "vcl_coreset"

    def __init__(self, net: Net, heads: Heads, streams: Streams, settings: Settings) -> None:
        super().__init__(net, heads, streams, settings)
        self.points, self.selection = settings.points, settings.selection
