"""CLAW with a coreset: the paper calls CLAW simple to combine with memory-based methods, and it is.

The pair is CLAW's. As in VCL with a coreset, each task sets points aside before it trains, and is answered by a copy of
the posterior, adaptation included, that was refined on them (:mod:`pyroclaw.inference.refine`). Since each task adapts
the neurons in its own way, each has a copy of its own, also where they share a head. Head and adaptation were learned
already: at their own, fast rates the few steps over a coreset would throw them about.
"""

from dataclasses import dataclass, replace

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

    def begin_refining(self) -> None:
        """Nothing is new in a copy, so nothing moves faster than what tasks share."""
        lr = self.settings.lr
        self.settings = replace(self.settings, warm=0.0, lr_head=lr, lr_adaptation=lr)
