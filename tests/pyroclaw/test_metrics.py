import numpy as np
import pytest

from pyroclaw import metrics

ROWS = [np.array([[0.9, 1.0]]), np.array([[0.7, 0.8], [0.6, 0.4]]), np.array([[0.8, 0.6], [0.6, 0.5], [1.0, 0.9]])]


def test_average_accuracy_weighs_tasks_equally():
    averages = metrics.average_accuracy(metrics.accuracy_matrix(ROWS))
    np.testing.assert_allclose(averages, [[0.9, 1.0], [0.65, 0.6], [0.8, 2 / 3]])


def test_retention_follows_one_task():
    matrix = metrics.accuracy_matrix(ROWS)
    np.testing.assert_allclose(metrics.retention(matrix), [[0.9, 1.0], [0.7, 0.8], [0.8, 0.6]])
    np.testing.assert_allclose(metrics.retention(matrix, 1), [[0.6, 0.4], [0.6, 0.5]])


def test_forgetting_is_from_the_best_to_the_end():
    # task 1 fell by 0.1 and 0.4, task 2 by 0 and rose (which is forgetting of -0 from its own best)
    np.testing.assert_allclose(metrics.forgetting(metrics.accuracy_matrix(ROWS)), [0.05, 0.2])
    np.testing.assert_allclose(metrics.forgetting(metrics.accuracy_matrix(ROWS[:1])), [0, 0])


def test_backward_transfer_is_from_when_a_task_was_learned_to_the_end():
    # task 1 lost 0.1 and 0.4, task 2 lost nothing and gained 0.1
    np.testing.assert_allclose(metrics.backward_transfer(metrics.accuracy_matrix(ROWS)), [-0.05, -0.15])
    np.testing.assert_allclose(metrics.backward_transfer(metrics.accuracy_matrix(ROWS[:1])), [0, 0])


def test_standard_error():
    assert metrics.mean_and_error(np.array([1.0, 2.0, 3.0])) == pytest.approx((2.0, 1 / 3**0.5))
    assert metrics.mean_and_error(np.array([5.0])) == (5.0, 0.0)
