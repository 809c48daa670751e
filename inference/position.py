"""Where SVI stands inside a task, so that a killed run goes on from there and ends with the same bits.

What a task's learning depends on is the state before it and the task's own random streams. So learning may always be
begun anew, and gives the same bits. To save most of that time, the *first* SVI of a task keeps its position: the step,
the ELBO trace, Adam's moments, the mean of iterates, the state of the random generators, and every tensor and number
of the pair that has changed since SVI began. When the task is begun anew, all that comes before SVI is repeated (it is
short, but for the search of learn-to-grow), SVI goes on from the position, and what comes after it follows as ever.

A method does not know of this. :func:`~pyroclaw.inference.svi.fit` asks for the keeper of the task at hand, which
:func:`keeping` has put in place, and only the first to ask gets it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from pyroclaw.data.part import Part, Task
from pyroclaw.inference.average import Average
from pyroclaw.inference.checkpoint import Checkpoints
from pyroclaw.inference.state import Packer, Unpacker
from pyroclaw.streams import Streams

UNCHANGED = (Part, Task, torch.optim.Optimizer)  # data; and no SVI touches an optimiser that a method keeps
_KEEPER: ContextVar["Keeper | None"] = ContextVar("keeper", default=None)


def leaves(thing: Any) -> dict[str, Any]:
    """Tensors, generators and numbers that can be reached, each by the first path that leads to it.

    >>> list(leaves({"weights": [torch.ones(1)], "step": 3}))
    ['weights.0', 'step']
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def walk(one: Any, path: str) -> None:
        if isinstance(one, Tensor | torch.Generator):
            if id(one) not in seen:
                found[path] = one
        elif isinstance(one, bool | int | float | str) or one is None:
            found[path] = one
        elif id(one) not in seen and not isinstance(one, UNCHANGED):
            for key, value in inside(one).items():
                walk(value, f"{path}.{key}" if path else str(key))
        seen.add(id(one))

    walk(thing, "")
    return found


def inside(thing: Any) -> Mapping[Any, Any]:
    """What a container or object holds, by key or attribute."""
    if isinstance(thing, Mapping):
        return thing
    if hasattr(thing, "_fields"):
        return thing._asdict()
    if isinstance(thing, list | tuple):
        return dict(enumerate(thing))
    return getattr(thing, "__dict__", {})


def put(thing: Any, path: str, value: Any) -> None:
    """Set the number at a path of attributes and keys; names may have dots, so the longest key is tried first."""
    held = inside(thing)
    keys = {str(key): key for key in held}
    first = max((key for key in keys if path == key or path.startswith(f"{key}.")), key=len)
    if path != first:
        put(held[keys[first]], path.removeprefix(f"{first}."), value)
    elif isinstance(thing, dict | list):
        thing[keys[first]] = value
    else:
        setattr(thing, first, value)


class Keeper:
    """Keeps the position of one task's first SVI.

    :param every: seconds between two positions.
    """

    def __init__(self, checkpoints: Checkpoints, every: float) -> None:
        self.checkpoints, self.every = checkpoints, every
        self.seconds = 0.0  # that SVI took before the process that restored it began
        self._restored = self._last = time.monotonic()

    def begin(self, pair: Any, streams: Streams, trained: Sequence[Tensor]) -> dict[str, Any] | None:
        """Note how the pair begins; the step, trace and Adam's state to go on from, if a position was kept."""
        self.pair, self.streams = pair, streams
        self._trained = {id(parameter) for parameter in trained}
        self._begun = {path: _mark(leaf) for path, leaf in leaves(pair).items()}
        saved = self.checkpoints.load()
        if saved is None:
            return None
        position = Unpacker(saved.tensors, device=streams.device).unpack(saved.state)
        now = leaves(pair)
        with torch.no_grad():
            for path, value in position["changed"].items():
                if isinstance(value, Tensor):
                    now[path].copy_(value)
                elif isinstance(value, torch.Generator):
                    now[path].set_state(value.get_state())
                else:
                    put(pair, path, value)
        for generator, kept in zip(streams.generators, position["generators"], strict=True):
            generator.set_state(kept.get_state())
        self.seconds, self._restored = position["seconds"], time.monotonic()
        return position

    def due(self) -> bool:
        return time.monotonic() - self._last >= self.every

    def keep(self, step: int, trace: Sequence[Tensor], adam: torch.optim.Optimizer, average: Average) -> None:
        changed = {
            path: leaf
            for path, leaf in leaves(self.pair).items()
            if id(leaf) in self._trained or _mark(leaf) != self._begun.get(path)
        }
        position = {
            "step": step,
            "trace": torch.stack(list(trace)),
            "adam": adam.state_dict()["state"],
            "average": average.state(),
            "generators": self.streams.generators,
            "changed": changed,
            "seconds": self.seconds + time.monotonic() - self._restored,
        }
        packer = Packer()
        state = packer.pack(position)
        self.checkpoints.save(state, packer.tensors)
        self._last = time.monotonic()


def _mark(leaf: Any) -> Any:
    """Differs if the leaf was changed or another was put in its place."""
    if isinstance(leaf, Tensor):
        return id(leaf), leaf._version
    return bytes(leaf.get_state().numpy()) if isinstance(leaf, torch.Generator) else leaf


@contextmanager
def keeping(keeper: Keeper | None) -> Iterator[None]:
    """While a task is learned."""
    token = _KEEPER.set(keeper)
    try:
        yield
    finally:
        _KEEPER.reset(token)


def claim() -> Keeper | None:
    """The keeper of the task at hand, for the first who asks."""
    keeper = _KEEPER.get()
    _KEEPER.set(None)
    return keeper
