"""Every example in a docstring runs and gives what it says."""

import doctest
import importlib
import pkgutil

import pyroclaw


def test_examples_in_docstrings():
    attempted = 0
    for module in pkgutil.walk_packages(pyroclaw.__path__, "pyroclaw."):
        result = doctest.testmod(importlib.import_module(module.name))
        assert result.failed == 0, f"an example of {module.name} fails"
        attempted += result.attempted
    assert attempted > 5
