"""One file per method: a Pyro model/guide pair, or the penalty that makes it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pyroclaw.data.benchmark import Heads
from pyroclaw.inference.method import Method
from pyroclaw.models import (
    claw,
    claw_coreset,
    ewc,
    finetune,
    frcl,
    gvcl_film,
    independent,
    joint,
    ltg,
    pnc,
    rcl,
    vcl,
    vcl_coreset,
)
from pyroclaw.nets import Net
from pyroclaw.streams import Streams


class Entry(NamedTuple):
    """A method by name: how it is made, its settings, and a line about it."""

    make: Callable[[Net, Heads, Streams, Any], Method]
    settings: type
    about: str
    one_by_one: bool = False  # each repetition has an architecture of its own, so no two can share a plate


METHODS: dict[str, Entry] = {
    "claw": Entry(
        claw.Claw, claw.Settings, "Continual learning with adaptive weights (Adel, Zhao & Turner, ICLR 2020)"
    ),
    "claw_coreset": Entry(
        claw_coreset.ClawCoreset, claw_coreset.Settings, "CLAW that keeps 200 points of each task, as VCL's coreset"
    ),
    "vcl": Entry(vcl.Vcl, vcl.Settings, "Variational continual learning (Nguyen, Li, Bui & Turner, ICLR 2018)"),
    "vcl_coreset": Entry(
        vcl_coreset.VclCoreset,
        vcl_coreset.Settings,
        "VCL that keeps 200 points of each task (Nguyen, Li, Bui & Turner, ICLR 2018)",
    ),
    "ewc": Entry(ewc.Ewc, ewc.Settings, "Elastic weight consolidation (Kirkpatrick et al., PNAS 2017)"),
    "gvcl_film": Entry(
        gvcl_film.GvclFilm,
        gvcl_film.Settings,
        "Generalised VCL with FiLM layers (Loo, Swaroop & Turner, ICLR 2021)",
    ),
    "pnc": Entry(pnc.Pnc, pnc.Settings, "Progress & Compress (Schwarz et al., ICML 2018)"),
    "rcl": Entry(rcl.Rcl, rcl.Settings, "Reinforced continual learning (Xu & Zhu, NeurIPS 2018)", one_by_one=True),
    "frcl": Entry(
        frcl.Frcl,
        frcl.Settings,
        "Functional regularisation for continual learning, TR (Titsias et al., ICLR 2020)",
    ),
    "ltg": Entry(ltg.Ltg, ltg.Settings, "Learn to grow (Li, Zhou, Wu, Socher & Xiong, ICML 2019)", one_by_one=True),
    "finetune": Entry(finetune.Finetune, finetune.Settings, "Plain training on task after task: the floor"),
    "independent": Entry(independent.Independent, finetune.Settings, "One net for each task, trained alone: a ceiling"),
    "joint": Entry(joint.Joint, joint.Settings, "One net on the data of all tasks so far: a ceiling"),
}
