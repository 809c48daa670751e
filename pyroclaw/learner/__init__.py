"""A learner for tasks of your own that arrive one at a time, with any of the methods behind it."""

from pyroclaw.learner.learner import Learner, Report
from pyroclaw.learner.uncertainty import Uncertainty

__all__ = ["Learner", "Report", "Uncertainty"]
