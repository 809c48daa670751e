"""Settings of a run: a method's defaults, what a benchmark's preset changes, and what the user asks for.

A preset is ``presets/BENCHMARK.toml``: the number of repetitions, and a table per method whose settings differ there.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pyroclaw.errors import InputError, choose
from pyroclaw.ranges import in_range

FOLDER = Path(__file__).parent / "presets"
WORDS = {int: "a whole number", float: "a number"}


def preset(bench: str) -> dict[str, Any]:
    """The benchmark's preset, empty where it has none."""
    path = FOLDER / f"{bench}.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the preset {path.name} is not valid TOML ({error}): correct it") from error


def settings(cls: type, changes: Mapping[str, Any], assignments: Sequence[str] = ()) -> Any:
    """The method's settings: its defaults, then the preset's changes, then ``NAME=VALUE`` of the command line.

    >>> from pyroclaw.models.claw import Settings
    >>> settings(Settings, {"beta": 0.5}, ["warm=0.1", "gamma=tied"]).gamma
    'tied'
    """
    values, types = dict(changes), get_type_hints(cls)
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set {assignment!r} has no '=': write it as NAME=VALUE")
        values[name] = text
    for name, value in values.items():
        choose("setting", name, types)
        values[name] = _typed(name, value, types[name])
    return in_range(cls(**values))


def _typed(name: str, value: Any, kind: Any) -> Any:
    """The value as the type that the settings declare."""
    if get_origin(kind) is Literal:
        return choose(f"value of {name}", str(value), get_args(kind))
    if kind is bool:
        return choose(f"value of {name}", str(value).lower(), ("true", "false")) == "true"
    try:
        return kind(value)
    except ValueError as error:
        raise InputError(f"setting {name} is {value!r}, but must be {WORDS[kind]}") from error


def setting_name(chosen: Any, usual: Any, protocol: Mapping[str, Any], used: Mapping[str, Any]) -> str:
    """What differs from the preset and the protocol, as a name for a folder; "default" if nothing does.

    >>> from pyroclaw.models.vcl import Settings
    >>> setting_name(Settings(lr=0.01), Settings(), {"epochs": 10}, {"epochs": 5})
    'lr-0.01_epochs-5'
    """
    pairs = [(asdict(chosen), asdict(usual)), (used, protocol)]
    changed = [f"{key}-{mine[key]}" for mine, theirs in pairs for key in mine if mine[key] != theirs[key]]
    return "_".join(changed) or "default"
