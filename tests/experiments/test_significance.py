"""Bold means significant, and a difference is tested over the seeds that both have."""

import numpy as np
import pytest
from scipy import stats

from pyroclaw.experiments.significance import paired, significantly_best


def test_the_best_must_beat_each_rival_seed_by_seed():
    noise = np.linspace(-0.05, 0.05, 10)
    ours = 0.9 + noise
    assert significantly_best({"a": ours, "b": ours - 0.01 + 0.001 * np.cos(np.arange(10))}) == "a"
    assert significantly_best({"a": ours, "b": ours[::-1] - 0.001}) is None  # higher on average, not by seed
    assert significantly_best({"a": ours, "b": ours - 0.01, "c": ours[::-1] - 0.001}) is None
    assert significantly_best({"a": ours, "b": ours - 0.01}) == "a"  # always by the same amount
    assert significantly_best({"a": ours, "b": ours}) is None
    assert significantly_best({"a": ours}) is None and significantly_best({"a": [0.9], "b": [0.1]}) is None


def test_a_false_bold_is_as_rare_as_its_level():
    """Two methods that are equally good: with the better one tested one-sidedly, 2 × 5 % of bold are expected."""
    generator = np.random.default_rng(0)
    bold = [
        significantly_best({"a": generator.normal(size=10), "b": generator.normal(size=10)}) is not None
        for _ in range(2000)
    ]
    error = (0.1 * 0.9 / 2000) ** 0.5
    assert abs(np.mean(bold) - 0.1) < 4 * error


def test_a_difference_is_tested_on_shared_seeds_only():
    generator = np.random.default_rng(0)
    one = dict(enumerate(generator.normal(size=8)))
    other = {seed: value + generator.normal(0.3, 0.2) for seed, value in one.items() if seed > 2} | {99: 5.0}
    differences, p = paired(one, other)
    assert len(differences) == 5
    assert p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)  # the same test, said in another way


@pytest.mark.parametrize("other", [{}, {0: 0.1}, {0: 0.4, 1: 0.5}, {7: 0.1, 8: 0.2}])
def test_where_a_test_has_no_answer_there_is_none(other):
    """No shared seed, a single one, or differences without any spread."""
    differences, p = paired({0: 0.5, 1: 0.6}, other)
    assert p is None and len(differences) == len({0, 1} & other.keys())
