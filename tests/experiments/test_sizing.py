"""What a sweep costs: operations as torch counts them, seconds as the records have them, and the page as it says."""

import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pyroclaw.data.benchmarks import KNOWN, PROTOCOLS
from pyroclaw.experiments import sizing
from pyroclaw.experiments.records import FINISHED
from pyroclaw.handlers import affine
from pyroclaw.nets import make_net

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


@pytest.mark.parametrize("bench", KNOWN)
def test_operations_are_those_that_torch_counts(bench):
    size, protocol, batch = sizing.SIZES[bench], PROTOCOLS[bench], 2
    net = make_net(protocol.net, size.shape)
    weights = {layer.name: torch.zeros(1, 1, layer.fan_in + 1, layer.units) for layer in net.layers}
    with FlopCounterMode(display=False) as counted:
        affine(net(torch.zeros(1, batch, *size.shape), weights), torch.zeros(1, 1, net.features + 1, size.classes))
    ours = sizing.forward(bench) * batch / protocol.batch_size
    assert ours == pytest.approx(counted.get_total_flops(), rel=0.04)  # biases: one in 28 weights of the first filters


def test_steps_are_those_of_the_protocol():
    assert sizing.steps("permuted_mnist") == round(10 * 42_000 / 256)
    assert sizing.steps("cifar100") == round(15 * 1_800 / 256)


def test_methods_cost_what_they_do():
    times = {
        method: sizing.operations("split_mnist", method) / sizing.operations("split_mnist", "ewc")
        for method in ("vcl", "rcl", "frcl")
    }
    assert times["vcl"] == 2 and times["rcl"] == pytest.approx((1 + 4 * 50) / 5)
    assert times["frcl"] == pytest.approx(1 + 2 * 200 / 128)  # two past tasks on average


def record(folder, seed, plate, seconds, **config):
    place = folder / f"seed{seed}"
    place.mkdir(parents=True)
    finished = {"seed": seed, "plate": plate, "tasks": 2, "tasks_finished": 2, "train_seconds": seconds}
    identity = dict.fromkeys(("protocol", "method", "settings", "data", "split", "augment", "epochs", "net", "heads"))
    (place / FINISHED).write_text(json.dumps(finished))
    (place / "config.json").write_text(json.dumps(identity | {"batch_size": 1, "device": "cpu", "threads": 1} | config))


def test_measured_seconds_count_a_plate_once_and_are_scaled_to_ten_repetitions(tmp_path):
    folder = tmp_path / "split_mnist" / "vcl" / "default-0"
    for seed in (0, 1):
        record(folder, seed, [0, 1], [30.0, 10.0], threads=2)
    record(folder, 2, [2], [5.0, 5.0])
    assert sizing.measured("split_mnist", "vcl", tmp_path) == pytest.approx((2 * 40 + 10) * 10 / 3)
    assert sizing.measured("split_mnist", "ewc", tmp_path) is None
    found = sizing.costs(tmp_path)
    assert found["vcl"]["split_mnist"].measured and not found["vcl"]["split_fashion"].measured
    # the rate of the one is that of the other
    ratio = found["vcl"]["split_fashion"].core_hours / found["vcl"]["split_mnist"].core_hours
    operations = sizing.operations("split_fashion", "vcl") / sizing.operations("split_mnist", "vcl")
    assert ratio == pytest.approx(operations)


def test_runs_are_what_can_be_given_away():
    found = sizing.costs()
    assert len(found) == 8 and list(found["claw"]) == list(KNOWN)
    assert (found["claw"]["split_mnist"].runs, found["ltg"]["split_mnist"].runs) == (1, 10)
    assert (found["claw"]["cifar100"].runs, found["claw"]["cifar100"].gpu_runs) == (10, 1)
    assert found["claw"]["omniglot"].gpu_runs == 10


def test_the_page_has_the_tables_of_the_records(tmp_path, capsys):
    """If it has not: python experiments/sizing.py --into docs/cluster.md."""
    copy = tmp_path / "cluster.md"
    copy.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    assert sizing.main(["--into", str(copy)]) == 0
    assert copy.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    assert sizing.main([]) == 0
    shown = capsys.readouterr().out
    assert shown in PAGE.read_text(encoding="utf-8") and "| claw | " in shown and "~" in shown


def test_a_page_without_marks_is_named(tmp_path, capsys):
    (tmp_path / "page.md").write_text("nothing")
    for name in ("page.md", "none.md"):
        assert sizing.main(["--into", str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert name in error and error.count("\n") == 1
