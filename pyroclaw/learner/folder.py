"""A learner in a folder: a checkpoint whose JSON has the options, so that it can be made again before it is filled."""

import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from pyroclaw.data.benchmark import NetPreset
from pyroclaw.errors import InputError
from pyroclaw.inference.checkpoint import Checkpoints
from pyroclaw.inference.state import Packer, Unpacker

IDENTITY = {"kind": "learner"}


def save(learner: Any, folder: Path) -> None:
    plain = {"options": learner.options, "net": asdict(learner.net), "shape": learner.shape, "kind": learner.kind}
    packer = Packer()
    state = packer.pack({"method": learner.method, "tasks": learner.tasks, "elbo": learner.elbo})
    Checkpoints(folder, IDENTITY).save({"learner": plain, "state": state}, packer.tensors)


def load(make: Callable[..., Any], folder: Path, device: str | torch.device) -> Any:
    """:param make: the class of the learner."""
    said: list[str] = []
    saved = Checkpoints(folder, IDENTITY, said.append).load()
    if saved is None:
        raise InputError(said[0] if said else f"{folder} has no saved learner: give the folder that save was given.")
    for sentence in said:
        warnings.warn(sentence, stacklevel=3)
    plain = saved.state["learner"]
    net = NetPreset(**plain["net"] | {"hidden": tuple(plain["net"]["hidden"])})
    learner = make(net=net, device=device, **plain["options"])
    learner.kind, learner.shape = plain["kind"], plain["shape"]
    new = None if learner.shape is None else learner.new_method()
    found = Unpacker(saved.tensors, device=learner.device).unpack(saved.state["state"], {"method": new})
    learner.method, learner.tasks, learner.elbo = found["method"], found["tasks"], found["elbo"]
    return learner
