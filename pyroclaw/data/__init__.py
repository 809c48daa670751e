"""Data sets, where they come from, and the benchmarks made of them."""

from pyroclaw.data.benchmark import Benchmark, NetPreset
from pyroclaw.data.benchmarks import make
from pyroclaw.data.dataset import DataSet
from pyroclaw.data.folder import from_folder
from pyroclaw.data.leaks import assert_no_leak, leaks
from pyroclaw.data.own import from_arrays, from_datasets
from pyroclaw.data.part import Part, Task
from pyroclaw.data.sources import load

__all__ = [
    "Benchmark",
    "DataSet",
    "NetPreset",
    "Part",
    "Task",
    "assert_no_leak",
    "from_arrays",
    "from_datasets",
    "from_folder",
    "leaks",
    "load",
    "make",
]
