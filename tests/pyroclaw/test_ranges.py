"""Every default of every method is in its range, and what is outside is refused by name."""

import pytest

from pyroclaw import Learner
from pyroclaw.errors import InputError
from pyroclaw.experiments.presets import settings
from pyroclaw.models import METHODS
from pyroclaw.ranges import RANGES, in_range

NAMES = {field for entry in METHODS.values() for field in entry.settings.__dataclass_fields__}


def test_defaults_are_in_range_and_no_range_is_of_an_unknown_setting():
    for entry in METHODS.values():
        assert in_range(entry.settings()) == entry.settings()
    assert set(RANGES) <= NAMES


@pytest.mark.parametrize(
    ("method", "change", "words"),
    [
        ("pnc", "lam=-1", "lam is -1.0, but must be 0 or above"),
        ("pnc", "gamma=2", "gamma is 2.0, but must be from 0 to 1"),
        ("pnc", "temperature=0", "temperature is 0.0, but must be above 0"),
        ("frcl", "points=0", "points is 0, but must be 1 or above"),
        ("frcl", "past_tasks=-1", "past_tasks is -1, but must be 0 or above"),
        ("frcl", "initial_scale=inf", "initial_scale is inf, but must be above 0"),
        ("rcl", "trials=0", "trials is 0, but must be 1 or above"),
        ("rcl", "lr=nan", "lr is nan, but must be above 0"),
        ("rcl", "controller_units=0", "controller_units is 0, but must be 1 or above"),
        ("rcl", "max_adaptation=-1", "max_adaptation is -1.0, but must be above 0"),
        ("ltg", "adapter_size=2", "adapter_size is 2.0, but must be above 0, at most 1"),
        ("ltg", "lr_weights=-1", "lr_weights is -1.0, but must be 0 or above"),
        ("claw_coreset", "points=0", "points is 0, but must be 1 or above"),
        ("vcl", "initial_log_variance=nan", "initial_log_variance is nan, but must be a finite number"),
        ("claw", "initial_probability=1.5", "initial_probability is 1.5, but must be from 0 to 1"),
    ],
)
def test_a_number_outside_is_named_with_what_it_must_be(method, change, words):
    with pytest.raises(InputError, match=words.replace(".", r"\.")):
        settings(METHODS[method].settings, {}, [change])


def test_the_ends_are_inside_where_they_have_a_meaning():
    chosen = settings(METHODS["pnc"].settings, {}, ["gamma=1", "lam=0", "fisher_examples=0"])
    assert (chosen.gamma, chosen.lam, chosen.fisher_examples) == (1.0, 0.0, 0)


def test_a_learner_has_the_same_ranges():
    with pytest.raises(InputError, match="lam is -1"):
        Learner("ewc", settings={"lam": -1})
