"""Probabilistic continual learning: CLAW and its rivals as Pyro model/guide pairs.

`pyroclaw.data` has the benchmarks, `pyroclaw.models` the methods, `pyroclaw.inference` the task loop that brings them
together, `pyroclaw.distributions` the log-scale prior and the exact KLs.
"""

from importlib.metadata import version

__version__ = version("pyroclaw")
