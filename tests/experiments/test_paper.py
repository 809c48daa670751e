import pytest

from pyroclaw.data.benchmarks import KNOWN
from pyroclaw.experiments.paper import accuracy, accuracy_before_last, another_protocol, seconds, tables

METHODS = ("claw", "vcl", "vcl_coreset", "ewc", "pnc", "rcl", "frcl", "ltg")
RIVALS = METHODS[1:]
CELLS = [(bench, method) for bench in KNOWN for method in METHODS]


def test_every_benchmark_and_method_is_there_and_no_other():
    assert set(tables()) == set(KNOWN)
    for bench in KNOWN:
        assert set(tables()[bench]) == set(METHODS)
        assert all(set(cells) == {"before_last", "last", "seconds"} for cells in tables()[bench].values())


@pytest.mark.parametrize("bench, method", CELLS)
def test_figures_are_per_cents_with_small_errors_and_seconds(bench, method):
    for value, error in (accuracy(bench, method), accuracy_before_last(bench, method)):
        assert 60 < value < 100 and 0 < error < 1
        assert value == round(value, 1) and error == round(error, 1)  # as printed
    assert 600 < seconds(bench, method) < 40_000


def test_split_mnist_is_as_printed():
    printed = dict(zip(METHODS, [99.1, 97.0, 98.4, 94.2, 96.4, 97.5, 98.1, 98.3], strict=True))
    errors = dict(zip(METHODS, [0.2, 0.4, 0.3, 0.5, 0.4, 0.6, 0.2, 0.3], strict=True))
    before = dict(zip(METHODS, [99.2, 98.6, 98.7, 94.9, 97.3, 97.8, 98.2, 98.7], strict=True))
    times = dict(zip(METHODS, [649, 637, 708, 1054, 1312, 31110, 891, 648], strict=True))
    for method in METHODS:
        assert accuracy("split_mnist", method) == (printed[method], errors[method])
        assert accuracy_before_last("split_mnist", method)[0] == before[method]
        assert seconds("split_mnist", method) == times[method]


def test_other_figures_are_as_printed():
    assert accuracy("permuted_mnist", "vcl_coreset") == (95.0, 0.5)
    assert accuracy("permuted_mnist", "claw") == (99.2, 0.1)
    assert accuracy("split_notmnist", "vcl") == (92.1, 0.3)
    assert accuracy_before_last("split_fashion", "frcl") == (90.4, 0.2)
    assert accuracy("omniglot", "pnc") == (82.7, 0.3)
    assert accuracy("cifar100", "rcl") == (60.4, 0.6)
    assert accuracy_before_last("cifar100", "ltg") == (86.2, 0.4)
    assert seconds("omniglot", "rcl") == 37247 and seconds("cifar100", "ewc") == 802


@pytest.mark.parametrize("bench", KNOWN)
def test_what_the_paper_says_about_its_tables_holds(bench):
    """CLAW is the most accurate everywhere; it or VCL is the fastest, and RCL the slowest."""
    assert accuracy(bench, "claw") > max(accuracy(bench, rival) for rival in RIVALS)
    assert min(METHODS, key=lambda method: seconds(bench, method)) in ("claw", "vcl")
    assert max(METHODS, key=lambda method: seconds(bench, method)) == "rcl"


def test_claw_and_vcl_are_each_the_fastest_on_three_benchmarks():
    assert sum(seconds(bench, "claw") < seconds(bench, "vcl") for bench in KNOWN) == 3


@pytest.mark.parametrize("bench, method", [("toy", "claw"), ("split_mnist", "toy"), ("toy", "toy")])
def test_what_the_paper_has_not_is_none(bench, method):
    assert accuracy(bench, method) is None and accuracy_before_last(bench, method) is None
    assert seconds(bench, method) is None


def test_what_differs_from_the_protocol_is_said():
    usual = {"protocol": "omniglot", "epochs": 15.0, "batch_size": 256, "split": "image", "augment": True}
    assert another_protocol(usual) == ""
    changed = usual | {"tasks": 1, "epochs": 1.0, "batch_size": 8, "split": "font", "augment": False}
    assert another_protocol(changed) == "first 1 task, 1 epoch, batches of 8, split by font, no augmentation"
    assert another_protocol(usual | {"precision": "bfloat16"}) == "convolutions in bfloat16"
    assert another_protocol(usual | {"averaged": 0.2}) == "mean of the last 20% of steps"
    assert another_protocol(usual | {"protocol": "my own", "epochs": 3.0}) == ""
