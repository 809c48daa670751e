"""One file per method: a Pyro model/guide pair, or the penalty that makes it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pyroclaw.data.benchmark import Heads
from pyroclaw.inference.method import Method
from pyroclaw.models import claw
from pyroclaw.nets import Net
from pyroclaw.streams import Streams


class Entry(NamedTuple):
    """A method by name: how it is made, its settings, and a line about it."""

    make: Callable[[Net, Heads, Streams, Any], Method]
    settings: type
    about: str


METHODS: dict[str, Entry] = {
    "claw": Entry(
        claw.Claw, claw.Settings, "Continual learning with adaptive weights (Adel, Zhao & Turner, ICLR 2020)"
    ),
}
