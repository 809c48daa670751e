"""Which values settings of methods may have: a setting has the same meaning, and so the same range, in every method.

A value outside would not fail by itself: a negative penalty drives weights apart, a negative rate climbs the loss.
"""

import math
from dataclasses import fields
from typing import Any, NamedTuple

from pyroclaw.errors import InputError


class Range(NamedTuple):
    """From `low` to `high`, the ends included unless `above`, which leaves `low` out."""

    low: float
    high: float = math.inf
    above: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or not math.isfinite(value):  # NaN is in no range
            return False
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        """The range in words.

        >>> print(Range(0, above=True), Range(0, 1), Range(1), sep="; ")
        above 0; from 0 to 1; 1 or above
        """
        if self.low == -math.inf:
            return "a finite number"
        if self.high < math.inf:
            return (
                f"{'above' if self.above else 'from'} {self.low:g}{', at most' if self.above else ' to'} {self.high:g}"
            )
        return f"above {self.low:g}" if self.above else f"{self.low:g} or above"


POSITIVE, COUNT, SHARE = Range(0, above=True), Range(1), Range(0, 1)
RANGES = {
    **dict.fromkeys(("lr", "temperature", "initial_scale", "max_adaptation", "initial_max_adaptation"), POSITIVE),
    **dict.fromkeys(("trials", "choices", "controller_units", "points", "proposals"), COUNT),
    **dict.fromkeys(("gamma", "initial_probability", "momentum", "warm", "average", "coupling"), SHARE),
    "adapter_size": Range(0, 1, above=True),
    "initial_log_variance": Range(-math.inf),  # any, but a number
}
REST = Range(0)  # strengths, other rates (0 leaves what they train as it is), numbers of examples


def in_range(settings: Any) -> Any:
    """The settings of a method, refused if one has a number that its name does not allow."""
    for field in fields(settings):
        value, allowed = getattr(settings, field.name), RANGES.get(field.name, REST)
        if isinstance(value, int | float) and value not in allowed:
            raise InputError(f"setting {field.name} is {value}, but must be {allowed}")
    return settings
