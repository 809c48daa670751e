"""Images are held once, as bytes, whatever the number of tasks and repetitions."""

import subprocess
import sys

import pytest
import torch

from pyroclaw.data.benchmarks import KNOWN, PROTOCOLS, build
from pyroclaw.data.part import Part


def tensors(tasks):
    """Every tensor reachable from the tasks."""
    for task in tasks:
        for part in (task.train, task.validation, task.test):
            assert isinstance(part, Part)
            for value in vars(part).values():
                values = value if isinstance(value, tuple) else (value,)
                yield from (one for one in values if isinstance(one, torch.Tensor))


def storages(tasks):
    """Bytes held, each storage counted once."""
    return {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors(tasks)}


@pytest.mark.parametrize("name", KNOWN)
def test_all_parts_tasks_and_repetitions_share_one_tensor_of_bytes(data_set, name):
    made = build(name, data_set(PROTOCOLS[name].data_set))
    tasks = made.tasks(made.plates([0, 1, 2])[0])
    images = {part.images.data_ptr() for task in tasks for part in (task.train, task.validation, task.test)}
    assert images == {made.images.data_ptr()} and made.images.dtype == torch.uint8
    assert not any(one.is_floating_point() for one in tensors(tasks)) or name == "omniglot"


def test_the_images_are_not_even_copied_from_the_data_set(data_set):
    data = data_set("mnist")
    assert build("split_mnist", data).images.data_ptr() == data.images.ctypes.data


def test_a_repetition_of_permuted_mnist_costs_only_its_indices(data_set):
    made = build("permuted_mnist", data_set("mnist"))
    one, ten = (sum(storages(made.tasks(range(n))).values()) for n in (1, 10))
    rows, pixels = 8 * len(made.images), 8 * 784 * 10
    assert (ten - one) / 9 <= 1.05 * (rows + pixels) + 5000
    assert one <= made.images.nbytes + 8 * len(made.images) + 1.05 * (rows + pixels) + 5000


def test_augmentation_keeps_three_numbers_a_variant_and_no_picture(data_set):
    data = data_set("omniglot")
    plain, augmented = (
        sum(storages(build("omniglot", data, augment=augment).tasks([0])).values()) for augment in (False, True)
    )
    train = 0.6 * len(data)
    assert augmented - plain <= 1.05 * train * 20 * 3 * 4
    assert (augmented - plain) < 0.4 * train * 20 * 28 * 28


PEAK = """
import numpy as np, torch
from pyroclaw.data.benchmarks import build
from pyroclaw.data.dataset import DataSet
from pyroclaw.experiments.records import peak_megabytes
n, name = {n}, {name!r}
images = np.random.default_rng(0).integers(0, 256, (n, 28, 28), dtype=np.uint8)
alphabet = np.arange(n) * 50 // n
labels = np.arange(n) % 10
bench = build(name, DataSet({data!r}, images, labels, "random", extras=dict(alphabet=alphabet)))
for task in bench.tasks(range({replicates})):
    positions = (torch.rand({replicates}, 256) * torch.tensor(task.train.sizes)[:, None]).long()
    assert task.train.batch(positions)[0].shape[:2] == ({replicates}, 256)
    next(task.test.chunks(1000))
print(peak_megabytes())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize(
    ("name", "data", "n", "replicates", "limit"),
    [("permuted_mnist", "mnist", 70_000, 10, 1500), ("omniglot", "omniglot", 32_500, 1, 2000)],
)
def test_the_peak_of_a_whole_process_stays_low_at_full_size(name, data, n, replicates, limit):
    code = PEAK.format(name=name, data=data, n=n, replicates=replicates)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert 100 < float(done.stdout) < limit
