"""Ctrl-C as a question that a run asks itself between two steps."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def sigint() -> Iterator[Callable[[], bool]]:
    """Turn SIGINT into a question that is answered between two steps."""
    asked: list[bool] = []
    before = signal.signal(signal.SIGINT, lambda *_: asked.append(True))
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)
