"""Records keep all that is finished, belong together by what decided them, and are all that a summary needs."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from pyroclaw.errors import InputError
from pyroclaw.experiments.records import Results, commit, fingerprint, read, summarise, write_json
from pyroclaw.inference.sequence import Learned

CONFIG = {
    "bench": "toy",
    "protocol": "toy",
    "method": "claw",
    "settings": {"beta": 0.1},
    "data_source": "own data",
    "data": "0123",
    "stand_in": False,
    "split": "image",
    "augment": True,
    "epochs": 10.0,
    "batch_size": 16,
    "net": {"kind": "mlp", "hidden": (3, 3)},
    "heads": "multi",
}


def learned(index, accuracies, transfer=None):
    """After task `index`, with one accuracy for each repetition."""
    rows = torch.tensor(accuracies).expand(index + 1, -1) - 0.01 * torch.arange(index + 1)[:, None]
    calibration = {"mean weights": torch.stack([rows, rows + 1, rows + 2])}
    elbo = torch.arange(120.0)[:, None] + torch.tensor(accuracies)
    kept = None if transfer is None else torch.tensor(transfer)
    return Learned(index, rows, rows / 2, elbo, 1.5, 100, 400, {"note": index}, calibration, kept)


def run(out, plates, tasks=3, **changes):
    """Records of plates {seeds: accuracies}, each through all tasks."""
    results = Results(out, "default", CONFIG | changes, tasks)
    for seeds, accuracies in plates.items():
        results.begin_plate(list(seeds))
        for t in range(tasks):
            results.add(learned(t, accuracies))
    return results


def test_a_summary_is_that_of_the_repetitions(tmp_path):
    results = run(tmp_path, {(0, 2): [0.9, 0.7], (1,): [0.8]})
    summary = summarise(read(results.folder))
    assert summary == results.summary()
    assert summary["seeds"] == [0, 1, 2] and summary["tasks_finished"] == 3 and summary["unfinished"] == []
    np.testing.assert_allclose(summary["test_accuracy"][1], [[0.9, 0.8, 0.7], [0.89, 0.79, 0.69]])
    np.testing.assert_allclose(summary["calibration"]["mean weights"]["brier"][0], [[1.9, 1.8, 1.7]])
    final = np.array([0.89, 0.79, 0.69])
    assert summary["average_accuracy"]["mean"] == pytest.approx(final.mean())
    assert summary["average_accuracy"]["standard_error"] == pytest.approx(final.std(ddof=1) / 3**0.5)
    assert summary["train_seconds"] == [[1.5] * 3] * 2  # of each plate once
    assert [len(task) for task in summary["elbo"]] == [50, 50, 50] and summary["forward_transfer"] is None
    assert summary["elbo"][0][0] == pytest.approx(np.mean([0, 1, 2]) + 0.8, abs=1e-3)


def test_calibration_is_of_the_repetitions_that_have_it(tmp_path):
    results = run(tmp_path, {(0,): [0.9], (1,): [0.8]})
    path = results.folder / "seed1" / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"calibration": {}}))
    both, alone = results.summary(), summarise(read(results.folder, [0]))
    assert both["seeds"] == [0, 1] and both["calibration"] == alone["calibration"]
    assert summarise(read(results.folder, [1]))["calibration"] == {}


def test_tasks_and_repetitions_may_take_different_numbers_of_steps(tmp_path):
    results = Results(tmp_path, "default", CONFIG, 2)
    for seed, steps in ((0, (3, 7)), (1, (3, 7)), (2, (3, 9))):
        results.begin_plate([seed])
        for t, count in enumerate(steps):
            results.add(replace(learned(t, [0.5]), elbo=torch.full((count, 1), float(seed))))
    assert summarise(read(results.folder, [0, 1]))["elbo"] == [[0.5] * 3, [0.5] * 7]
    assert summarise(read(results.folder, [2, 0]))["elbo"] == [[0.0] * 3, [0.0] * 7]


def test_forward_transfer_is_kept_by_repetition(tmp_path):
    results = Results(tmp_path, "default", CONFIG, 2)
    results.begin_plate([4, 5])
    results.add(learned(0, [0.5, 0.6], transfer=[0.1, 0.2]))
    results.add(learned(1, [0.5, 0.6], transfer=[0.3, 0.4]))
    np.testing.assert_allclose(results.summary()["forward_transfer"], [[0.1, 0.2], [0.3, 0.4]])


def test_a_repetition_that_is_behind_is_named_and_not_counted(tmp_path):
    results = run(tmp_path, {(0, 1): [0.9, 0.9]})
    results.begin_plate([2])
    results.add(learned(0, [0.1]))
    summary = results.summary()
    assert summary["seeds"] == [0, 1] and summary["unfinished"] == [2]
    assert np.mean(summary["test_accuracy"][-1]) > 0.8
    names = {path.name for path in (results.folder / "seed2").iterdir()}
    assert names == {"config.json", "unfinished.json"}


def test_a_finished_record_outlives_a_repetition_of_it_that_is_broken_off(tmp_path):
    run(tmp_path, {(0,): [0.9]})
    again = Results(tmp_path, "default", CONFIG, 3)
    again.begin_plate([0])
    again.add(learned(0, [0.2]))
    (record,) = read(again.folder)
    assert record["tasks_finished"] == 3 and record["test_accuracy"][0] == [pytest.approx(0.9)]
    again.add(learned(1, [0.2]))
    again.add(learned(2, [0.2]))
    (record,) = read(again.folder)
    assert record["test_accuracy"][0] == [pytest.approx(0.2)]
    assert {path.name for path in (again.folder / "seed0").iterdir()} == {"config.json", "results.json"}


@pytest.mark.parametrize(
    "change", [{"settings": {"beta": 0.2}}, {"data": "4567"}, {"epochs": 5.0}, {"split": "font"}, {"heads": "single"}]
)
def test_other_settings_or_data_have_a_folder_of_their_own(tmp_path, change):
    one, other = run(tmp_path, {(0,): [0.9]}), run(tmp_path, {(1,): [0.1]}, **change)
    assert one.folder != other.folder and fingerprint(CONFIG) != fingerprint(CONFIG | change)
    assert one.summary()["seeds"] == [0]


def test_records_that_were_mixed_by_hand_are_refused(tmp_path):
    one, other = run(tmp_path, {(0,): [0.9]}), run(tmp_path, {(1,): [0.1]}, epochs=5.0)
    (other.folder / "seed1").rename(one.folder / "seed1")
    with pytest.raises(InputError, match="different settings or data"):
        read(one.folder)
    assert len(read(one.folder, [0])) == 1


def test_a_damaged_record_is_named(tmp_path):
    folder = run(tmp_path, {(0,): [0.9]}).folder
    (folder / "seed0" / "results.json").write_text("{")
    with pytest.raises(InputError, match="seed0"):
        read(folder)


def test_where_and_when_of_a_record(tmp_path):
    (record,) = read(run(tmp_path, {(0,): [0.9]}).folder)
    assert set(record["environment"]) == {"python", "versions", "commit", "machine"}
    assert record["environment"]["commit"] == commit()
    assert record["plate"] == [0] and record["summary"] == [{"note": 0}, {"note": 1}, {"note": 2}]


def test_what_cannot_be_written_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "results.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1} and len(list(tmp_path.iterdir())) == 1
