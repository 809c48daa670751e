"""A record keeps all that is finished, also while plates of repetitions run one after the other."""

import json

import pytest
import torch

from pyroclaw.experiments.records import Results, write_json
from pyroclaw.inference.sequence import Learned

CONFIG = {"bench": "toy", "protocol": "toy", "method": "claw", "data_source": "own data", "stand_in": False}


def learned(index, accuracy, replicates):
    rows = torch.full((index + 1, replicates), accuracy)
    return Learned(index, rows, rows, torch.zeros(3), 1.0, 100, 400, {}, {}, None)


def read(folder):
    return json.loads((folder / "results.json").read_text())


def test_a_plate_that_begins_does_not_hide_one_that_is_finished(tmp_path):
    results = Results(tmp_path, CONFIG)
    results.begin_plate([0, 1])
    for t in range(3):
        results.add(learned(t, 0.9, 2))
    results.begin_plate([2])
    results.add(learned(0, 0.5, 1))
    record = read(tmp_path)
    assert record["seeds"] == [0, 1] and record["tasks_finished"] == 3
    assert record["average_accuracy"]["mean"] == pytest.approx(0.9)
    assert record["unfinished"] == [{"seeds": [2], "test_accuracy": [[[0.5]]]}]
    for t in (1, 2):
        results.add(learned(t, 0.5, 1))
    record = read(tmp_path)
    assert record["seeds"] == [0, 1, 2] and record["unfinished"] == []
    assert record["test_accuracy"][-1] == [pytest.approx([0.9, 0.9, 0.5])] * 3


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
