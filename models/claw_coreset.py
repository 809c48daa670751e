"""CLAW with a coreset: the paper calls CLAW simple to combine with memory-based methods, and it is.

The pair is CLAW's. As in VCL with a coreset, each task sets points aside before it trains, and is answered by a copy of
the posterior, adaptation included, that was refined on them (:mod:`pyroclaw.inference.refine`). Since each task adapts
the neurons in its own way, each has a copy of its own, also where they share a head.
"""

from dataclasses import dataclass

from pyroclaw.inference.refine import CoresetSettings, WithCoreset
from pyroclaw.models import claw


@dataclass(frozen=True)
class Settings(CoresetSettings, claw.Settings):
    """CLAW's settings and those of the coreset."""


class ClawCoreset(WithCoreset, claw.Claw):
    """CLAW that answers with copies refined on coresets."""

    name = "claw_coreset"

    def shares_copy(self) -> bool:
        return False
