"""Whether a difference between two methods is more than chance: paired tests over the seeds that both have.

Repetitions of the same seed share their split, so what a seed adds to both methods goes out of their difference.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

from pyroclaw import metrics

LEVEL = 0.05
SPREAD = 1e-9  # of differences that are the same but for rounding


def significantly_best(accuracies: Mapping[str, Sequence[float]]) -> str | None:
    """The method whose accuracies (by seed) are higher than those of each other one by a paired t-test; or None.

    >>> significantly_best({"a": [0.91, 0.92, 0.93], "b": [0.81, 0.83, 0.82]})
    'a'
    >>> significantly_best({"a": [0.91, 0.92, 0.93], "b": [0.90, 0.93, 0.93]})
    """
    ranked = sorted(accuracies, key=lambda name: -float(np.mean(accuracies[name])))
    if len(ranked) < 2 or len(accuracies[ranked[0]]) < 2:
        return None
    best, *rivals = ranked
    wins = [_higher(np.asarray(accuracies[best]), np.asarray(accuracies[rival])) for rival in rivals]
    return best if all(wins) else None


def _higher(one: np.ndarray, other: np.ndarray) -> bool:
    differences = one - other
    if np.ptp(differences) < SPREAD:  # the t-test has no answer
        return bool(differences[0] > 0)
    return bool(ttest_rel(one, other, alternative="greater").pvalue < LEVEL)


def paired(one: Mapping[int, float], other: Mapping[int, float]) -> tuple[np.ndarray, float | None]:
    """Differences over the seeds that both have, and p of a two-sided paired t-test; None where it has no answer.

    >>> differences, p = paired({0: 0.9, 1: 0.8, 2: 0.9}, {1: 0.7, 2: 0.7})
    >>> differences.round(3).tolist(), round(p, 3)
    ([0.1, 0.2], 0.205)
    """
    shared = sorted(one.keys() & other.keys())
    differences = np.array([one[seed] - other[seed] for seed in shared])
    if len(shared) < 2 or np.ptp(differences) < SPREAD:
        return differences, None
    return differences, float(ttest_rel([one[seed] for seed in shared], [other[seed] for seed in shared]).pvalue)


def probability(p: float) -> str:
    """
    >>> probability(0.0324), probability(1e-5)
    ('0.032', '< 0.001')
    """
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def by_seed(summary: Mapping[str, Any]) -> dict[int, float]:
    """Average accuracy after the last task."""
    return dict(zip(summary["seeds"], np.mean(summary["test_accuracy"][-1], axis=0), strict=True))


def best_by_seed(scores: Mapping[str, Mapping[int, float]]) -> str | None:
    """Whose accuracies are significantly higher than those of each other, on the seeds that the two share; or None."""
    if len(scores) < 2:
        return None
    best = max(scores, key=lambda name: np.mean(list(scores[name].values())))
    for rival in scores.keys() - {best}:
        shared = sorted(scores[best].keys() & scores[rival].keys())
        pair = {name: [scores[name][seed] for seed in shared] for name in (best, rival)} if shared else {}
        if significantly_best(pair) != best:
            return None
    return best


def mean_and_error(values: Sequence[float] | np.ndarray, scale: float = 1, digits: int = 2) -> str:
    """Mean ± standard error as it is printed; one repetition has no error, and what was not measured a dash.

    >>> mean_and_error([0.5, 0.6], scale=100), mean_and_error([np.nan])
    ('55.00 ± 5.00', '–')
    """
    if np.isnan(values).any():
        return "–"
    mean, error = metrics.mean_and_error(scale * np.asarray(values))
    return f"{mean:.{digits}f} ± {error:.{digits}f}" if len(values) > 1 else f"{mean:.{digits}f}"


def percent(values: Sequence[float] | np.ndarray) -> str:
    """The same in %, narrow enough for a table.

    >>> percent([0.5, 0.6]), percent([0.5])
    ('55.00±5.00', '50.00')
    """
    return mean_and_error(values, 100).replace(" ", "")
