"""Probabilistic continual learning: CLAW and its rivals as Pyro model/guide pairs.

`pyroclaw.data` has the benchmarks, `pyroclaw.models` the methods, `pyroclaw.inference` the task loop that brings them
together, `pyroclaw.distributions` the log-scale prior and the exact KLs. `pyroclaw.Learner` has all of them behind one
class, for tasks of your own.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyroclaw.learner import Learner

__all__ = ["Learner", "__version__"]
__version__ = version("pyroclaw")


def __getattr__(name: str) -> Any:
    """`Learner` on first use: nothing in this package imports a method, which a learner must."""
    if name == "Learner":
        from pyroclaw.learner import Learner

        return Learner
    raise AttributeError(f"module 'pyroclaw' has no attribute {name!r}")
