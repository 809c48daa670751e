"""A run that can be killed at any moment: its states between two tasks, and the position inside one.

FOLDER/tasks/       the method and what was learned, after each task
       position-3/  inside task 3, while it is learned
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from pyroclaw.data.part import Task
from pyroclaw.inference.checkpoint import Checkpoints
from pyroclaw.inference.method import Method
from pyroclaw.inference.position import Keeper, inside
from pyroclaw.inference.state import Packer, Unpacker

AnyMethod = TypeVar("AnyMethod", bound=Method)


class Resumable:
    """The checkpoints of a run.

    :param identity: all that decides the run, its seeds included.
    :param tasks: its data, which are not stored with it.
    :param every: seconds between two positions inside a task.
    """

    def __init__(
        self,
        folder: Path,
        identity: Mapping[str, Any],
        tasks: Sequence[Task],
        every: float = 60.0,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.folder, self.identity, self.every, self.say = folder, identity, every, say
        self.known = _things({f"task {t}": task for t, task in enumerate(tasks)})
        self.between = Checkpoints(folder / "tasks", identity, say)

    def load(self, new: AnyMethod, device: torch.device | str = "cpu") -> tuple[AnyMethod, list[Any]] | None:
        """The method and what it has learned so far, or None if there is no checkpoint.

        :param new: the method as it was made, which is filled in.
        """
        saved = self.between.load()
        if saved is None:
            return None
        found = Unpacker(saved.tensors, self.known, device).unpack(saved.state, {"method": new})
        return found["method"], found["learned"]

    def save(self, method: Method, learned: Sequence[Any]) -> None:
        """After a task; positions inside it are no longer needed."""
        packer = Packer(self.known)
        state = packer.pack({"method": method, "learned": list(learned)})
        self.between.save(state, packer.tensors)
        self.position(len(learned) - 1).checkpoints.clear()

    def position(self, task: int) -> Keeper:
        """Inside a task, numbered from 0."""
        identity = {**self.identity, "task": task}
        return Keeper(Checkpoints(self.folder / f"position-{task + 1}", identity, self.say), self.every)

    def clear(self) -> None:
        """When the run is finished, or begins anew."""
        for folder in self.folder.glob("position-*"):
            Checkpoints(folder, {}).clear()
        self.between.clear()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


def _things(things: Mapping[str, Any]) -> dict[str, Any]:
    """The things and all objects and tensors inside them, by path."""
    found: dict[str, Any] = {}

    def walk(thing: Any, path: str) -> None:
        if thing is None or isinstance(thing, bool | int | float | str):
            return
        found[path] = thing
        for key, value in inside(thing).items():
            walk(value, f"{path}.{key}")

    for name, thing in things.items():
        walk(thing, name)
    return found
