import numpy as np
import pytest
import torch

from pyroclaw.data.augment import Variants
from pyroclaw.data.benchmarks import build
from pyroclaw.data.dataset import DataSet
from pyroclaw.data.part import Part
from pyroclaw.data.union import Union
from pyroclaw.errors import InputError

SIZES = [(5, 3, 4), (2, 6, 1), (3, 3, 7)]  # images of each part, by repetition


def made(kind: str, fold: int = 4) -> list[Part]:
    """Three parts of three repetitions with unequal sizes, padded as a benchmark's parts are."""
    images = torch.randint(0, 256, (30, 1, 6, 6), dtype=torch.uint8)
    classes = torch.arange(30) % 5
    parts = []
    for sizes in SIZES:
        rows = torch.stack([torch.randperm(30)[: max(sizes)] for _ in sizes])
        for r, size in enumerate(sizes):
            rows[r, size:] = rows[r, 0]
        augmented = kind == "augmented"
        parts.append(
            Part(
                images=images,
                classes=classes,
                rows=rows,
                sizes=tuple(size * (fold if augmented else 1) for size in sizes),
                head=torch.stack([torch.randperm(5) for _ in sizes]),
                flat=kind in ("plain", "permuted"),
                pixels=torch.stack([torch.randperm(36) for _ in sizes]) if kind == "permuted" else None,
                variants=Variants(0.3 * torch.randn(3, max(sizes) * fold, 3), fold) if augmented else None,
            )
        )
    return parts


def one_by_one(parts: list[Part], offsets: list[int], r: int):
    """All examples of repetition r, asked of the parts themselves one at a time."""
    for part, offset in zip(parts, offsets, strict=True):
        for position in range(part.sizes[r]):
            positions = torch.zeros(len(part.sizes), 1, dtype=torch.long)
            positions[r] = position
            x, y = part.batch(positions)
            yield x[r, 0], int(y[r, 0]) + offset


def check(parts: list[Part], offsets: list[int]) -> None:
    union = Union(parts, offsets)
    assert union.sizes == tuple(map(sum, zip(*(part.sizes for part in parts), strict=True)))
    orders = [torch.randperm(size) for size in union.sizes]
    length = max(map(len, orders))
    positions = torch.stack([order[torch.arange(length) % len(order)] for order in orders])
    x, y = union.batch(positions)
    for r, order in enumerate(orders):
        expected = list(one_by_one(parts, offsets, r))
        for b, position in enumerate(order.tolist()):
            assert torch.allclose(x[r, b], expected[position][0], atol=1e-6)
            assert y[r, b] == expected[position][1]


@pytest.mark.parametrize("kind", ["plain", "permuted", "pictures", "augmented"])
def test_every_example_is_that_of_its_part(kind):
    check(made(kind), [0, 5, 10])


@pytest.mark.parametrize("kind", ["plain", "augmented"])
def test_parts_with_dropped_images_can_be_joined(kind):
    parts = made(kind)
    check([parts[0].drop(torch.tensor([[0], [2], [1]])), parts[2].drop(torch.tensor([[1, 2]] * 3))], [0, 5])


@pytest.mark.parametrize("name", ["split_notmnist", "permuted_mnist"])
def test_the_tasks_of_a_benchmark(name):
    """A font falls into one part whole, so the repetitions of two letters differ in size."""
    rng = np.random.default_rng(0)
    labels = np.arange(10).repeat(30)
    images = rng.integers(0, 256, (300, 8, 8), dtype=np.uint8)
    data = DataSet("letters", images, labels, "random pixels", extras={"font": rng.integers(0, 40, 300)})
    tasks = build(name, data, split="font").tasks([0, 1])[:3]
    split = name == "split_notmnist"
    assert len(set(tasks[0].train.sizes)) == (2 if split else 1)
    check([task.train for task in tasks], [0, 2, 4] if split else [0, 0, 0])


def test_a_single_part_is_itself():
    part = made("permuted")[1]
    positions = torch.tensor([[0, 1], [5, 2], [0, 0]])
    for got, expected in zip(Union([part], [0]).batch(positions), part.batch(positions), strict=True):
        assert torch.equal(got, expected)


def test_positions_may_be_a_slice():
    union = Union(made("plain"), [0, 0, 0])
    positions = torch.arange(8).expand(3, -1)
    whole, part = union.batch(positions)[0], union.batch(positions.clone()[:, 2:5])[0]
    assert torch.equal(whole[:, 2:5], part)


def test_parts_that_own_their_pictures_are_put_together():
    """Those that `take` makes share no tensor of images."""
    taken = [part.take(torch.tensor([[2, 0], [1, 3], [0, 1]])) for part in made("permuted")]
    check(taken, [0, 3, 5])


def test_parts_that_are_not_alike_are_refused():
    part = made("augmented")[0]
    for other in ({"variants": None}, {"images": part.images[..., :3]}):
        with pytest.raises(InputError, match="alike in pictures and augmentation"):
            Union([part, Part(**{**vars(part), **other})], [0, 0])
