"""Data sets, where they come from, and the benchmarks made of them."""

from pyroclaw.data.dataset import DataSet
from pyroclaw.data.sources import load

__all__ = ["DataSet", "load"]
