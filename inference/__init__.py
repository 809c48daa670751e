"""SVI for one task, the task loop in which a posterior becomes a prior, and the parts that methods share."""

from pyroclaw.inference.evaluate import accuracy, entropy, probabilities
from pyroclaw.inference.method import Budget
from pyroclaw.inference.sequence import Learned, learn_tasks

__all__ = ["Budget", "Learned", "accuracy", "entropy", "learn_tasks", "probabilities"]
