"""The first tasks of a run, as a run of only so many.

What a method does with a task does not depend on those to come, nor do the task's data. So a run with --tasks N need
not be made where a longer one is on record that is alike in all else: its first N tasks are that run, number by number.
But forward transfer is the accuracy of the last task: a run that is to have it is made.
"""

from collections.abc import Mapping
from typing import Any

from pyroclaw.experiments.records import fingerprint

BY_TASK = ("test_accuracy", "validation_accuracy", "parameters", "stored_bytes", "train_seconds", "elbo", "summary")


def begins_with(longer: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether a run of this longer configuration begins with all tasks of a run of the other."""
    count = config.get("tasks")
    if count is None or longer.get("tasks", count + 1) <= count:
        return False
    return fingerprint({**longer, "tasks": count}) == fingerprint(config)


def cut(record: Mapping[str, Any], tasks: int) -> dict[str, Any]:
    """The record of a run through so many tasks; its peak of memory is that of the longer run."""
    calibration = {
        prediction: {measure: rows[:tasks] for measure, rows in measures.items()}
        for prediction, measures in record["calibration"].items()
    }
    return {
        **record,
        **{name: record[name][:tasks] for name in BY_TASK},
        "tasks": tasks,
        "tasks_finished": tasks,
        "calibration": calibration,
        "forward_transfer": None,
        "config": {**record["config"], "tasks": tasks},
    }
