"""Figures of merit of a continual learner, from its accuracies.

An accuracy matrix A [T, T, R] holds A[t, k, r], the accuracy on task k after learning task t, of repetition r; entries
with k > t are NaN. All averages weigh tasks equally.
"""

import numpy as np
from numpy.typing import NDArray


def accuracy_matrix(rows: list[NDArray]) -> NDArray:
    """A from its rows: after task t the accuracies [t + 1, R] on the tasks so far.

    >>> accuracy_matrix([np.ones((1, 2)), np.ones((2, 2))]).shape
    (2, 2, 2)
    """
    matrix = np.full((len(rows), len(rows), rows[0].shape[1]), np.nan)
    for t, row in enumerate(rows):
        matrix[t, : t + 1] = row
    return matrix


def average_accuracy(matrix: NDArray) -> NDArray:
    """Mean accuracy over the tasks so far, after each task: [T, R] (the paper's figure 1)."""
    return np.stack([row[: t + 1].mean(axis=0) for t, row in enumerate(matrix)])


def retention(matrix: NDArray, task: int = 0) -> NDArray:
    """Accuracy on one task from when it was learned on: [T - task, R] (the paper's figure 2, for task 1)."""
    return matrix[task:, task]


def forgetting(matrix: NDArray) -> NDArray:
    """How far each task but the last fell from its best to its end, averaged over tasks: [R].

    >>> forgetting(accuracy_matrix([np.array([[0.9]]), np.array([[0.8], [0.7]])]))
    array([0.1])
    """
    if len(matrix) == 1:
        return np.zeros(matrix.shape[2])
    best = np.stack([matrix[k:, k].max(axis=0) for k in range(len(matrix) - 1)])
    return np.mean(best - matrix[-1, :-1], axis=0)


def backward_transfer(matrix: NDArray) -> NDArray:
    """What later tasks did to each task but the last since it was learned, averaged: [R]; losses are negative.

    >>> backward_transfer(accuracy_matrix([np.array([[0.75]]), np.array([[1.0], [0.7]])]))
    array([0.25])
    """
    if len(matrix) == 1:
        return np.zeros(matrix.shape[2])
    learned = np.stack([matrix[k, k] for k in range(len(matrix) - 1)])
    return np.mean(matrix[-1, :-1] - learned, axis=0)


def mean_and_error(values: NDArray) -> tuple[float, float]:
    """Mean over repetitions and its standard error (0 for a single repetition, which has none)."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return float(np.mean(values)), error
