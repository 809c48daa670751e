"""What is searched: every method has a space, and a bad one is refused."""

import dataclasses
import math
from typing import get_type_hints

import pytest

from pyroclaw.errors import InputError
from pyroclaw.experiments import spaces
from pyroclaw.models import METHODS


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_space_of_its_settings(method):
    space, types = spaces.space(method), get_type_hints(METHODS[method].settings)
    assert 1 <= len(space) <= 4
    for name, dimension in space.items():
        values = dimension.get("choices") or [dimension["low"], dimension["high"]]
        assert all(type(value) is types[name] for value in values)
    assert spaces.contains(space, dataclasses.asdict(METHODS[method].settings()))  # so is what is usual


@pytest.mark.parametrize("method", [name for name in METHODS if "initial_log_variance" in spaces.space(name)])
def test_noise_may_start_below_the_weights_of_a_convolution(method):
    """Their variance is 2 / fan-in: 576 inputs in the nets of 64 filters."""
    assert math.exp(spaces.space(method)["initial_log_variance"]["low"]) < 2 / 576 / 100


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("lamb = { low = 0.1, high = 1.0 }", "did you mean lam"),
        ("lam = { low = 1.0, high = 0.1 }", "low below high"),
        ("lam = { low = 0.0, high = 0.1, log = true }", "above 0"),
        ("lam = { low = 0.1, high = 1.0, step = 0.1 }", "write { low"),
        ("lam = { choices = [] }", "write { low"),
        ('lam = { choices = ["a"] }', "must be a number"),
        ("fisher_examples = { choices = [0.5] }", "is not a int"),
        ("", "add a table [ewc]"),
        ("lam = ", "correct it"),
    ],
)
def test_a_bad_space_is_one_sentence(line, says, tmp_path, monkeypatch):
    monkeypatch.setattr(spaces, "FILE", tmp_path / "spaces.toml")
    spaces.FILE.write_text(f"[ewc]\n{line}\n")
    with pytest.raises(InputError) as raised:
        spaces.space("ewc")
    assert says in str(raised.value) and "spaces.toml" in str(raised.value) and str(raised.value).count("\n") == 0
