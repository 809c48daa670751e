"""The settings that are searched: for each method a table of ``spaces.toml``.

lam = { low = 0.1, high = 1e6, log = true }      uniform, or with log on a logarithmic scale
gamma = { choices = [0.9, 0.99, 1.0] }           one of these
"""

import tomllib
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from pyroclaw.errors import InputError, choose
from pyroclaw.experiments import presets
from pyroclaw.models import METHODS

FILE = Path(__file__).parent / "spaces.toml"
DIGITS = 3  # of a value in a range: more would not make a difference, and a setting is to be quoted
Space = Mapping[str, Mapping[str, Any]]


def space(method: str) -> Space:
    """What is searched of a method's settings."""
    try:
        tables = tomllib.loads(FILE.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{FILE.name} cannot be read ({error}): correct it") from error
    if not tables.get(choose("method", method, METHODS)):
        raise InputError(f"{FILE.name} has no space for {method}: add a table [{method}] of the settings to search")
    for name, dimension in tables[method].items():
        _check(method, name, dimension)
    return tables[method]


def _check(method: str, name: str, dimension: Any) -> None:
    """Refuse what is not a dimension, or has values that the setting can not have."""
    where = f"{FILE.name}, [{method}] {name}"
    match dimension:
        case {"choices": [_, *_] as values, **rest} if not rest:
            pass
        case {"low": float(low), "high": float(high), **rest} if low < high and rest in ({}, {"log": True}):
            if rest and low <= 0:
                raise InputError(f"{where}: low is {low}, but on a logarithmic scale it must be above 0")
            values = [low, high]
        case _:
            raise InputError(
                f"{where} is {dimension!r}: write {{ low = 0.1, high = 1.0 }} with low below high, perhaps with "
                "log = true, or { choices = [0.1, 1.0] }"
            )
    for value in values:
        try:
            meant = getattr(presets.settings(METHODS[method].settings, {name: value}), name)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        if meant != value or type(meant) is not type(value):
            raise InputError(f"{where}: {value!r} is not a {type(meant).__name__}, as the setting is")


def rounded(values: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Values of ranges with three digits, and still inside.

    >>> rounded({"lam": 0.123456, "gamma": 0.99}, {"lam": {"low": 0.1, "high": 1.0}, "gamma": {"choices": [0.99]}})
    {'lam': 0.123, 'gamma': 0.99}
    """
    short = {}
    for name, dimension in space.items():
        short[name] = values[name]
        if "low" in dimension:
            short[name] = min(max(float(f"{values[name]:.{DIGITS}g}"), dimension["low"]), dimension["high"])
    return short


def contains(space: Space, values: Mapping[str, Any]) -> bool:
    """Whether the values lie in the space.

    >>> contains({"lam": {"low": 0.1, "high": 1.0}}, {"lam": 2.0})
    False
    """
    return all(
        values[name] in dimension["choices"]
        if "choices" in dimension
        else dimension["low"] <= values[name] <= dimension["high"]
        for name, dimension in space.items()
    )


def everything(space: Space) -> list[dict[str, Any]] | None:
    """All settings of a space of choices; None where there is a range.

    >>> everything({"gamma": {"choices": [0.9, 1.0]}, "film": {"choices": [True]}})
    [{'gamma': 0.9, 'film': True}, {'gamma': 1.0, 'film': True}]
    """
    if any("low" in dimension for dimension in space.values()):
        return None
    return [dict(zip(space, values, strict=True)) for values in product(*(each["choices"] for each in space.values()))]
