"""VCL with a coreset (Nguyen, Li, Bui & Turner, ICLR 2018): 200 points of each task are kept for prediction.

The pair is VCL's. Each task sets aside points by k-center (or at random) before it trains; answers come from a copy of
the posterior that was refined on them, while the posterior that the next task starts from has never seen them. How:
:mod:`pyroclaw.inference.refine`.
"""

from dataclasses import dataclass

from pyroclaw.inference.refine import CoresetSettings, WithCoreset
from pyroclaw.models import vcl


@dataclass(frozen=True)
class Settings(CoresetSettings, vcl.Settings):
    """VCL's settings and those of the coreset."""


class VclCoreset(WithCoreset, vcl.Vcl):
    """VCL that answers with a copy refined on coresets."""

    name = "vcl_coreset"
