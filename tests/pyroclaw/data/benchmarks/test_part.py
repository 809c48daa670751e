import numpy as np
import pytest
import torch

from pyroclaw.data.benchmarks import build
from pyroclaw.data.part import Part


def ragged_part(**changes):
    """Two repetitions with 5 and 3 images of two classes; image k is a 2×2 picture of the value k."""
    settings = dict(
        images=torch.arange(8, dtype=torch.uint8)[:, None, None].expand(8, 2, 2).contiguous(),
        classes=torch.tensor([0, 1, 0, 1, 0, 1, 0, 1]),
        rows=torch.tensor([[7, 3, 1, 0, 2], [5, 4, 6, 5, 5]]),
        sizes=(5, 3),
        head=torch.tensor([[0, 1], [1, 0]]),
        flat=True,
    )
    return Part(**{**settings, **changes})


def test_a_batch_holds_the_rows_and_each_repetitions_own_labels():
    x, y = ragged_part().batch(torch.tensor([[0, 4, 2], [2, 0, 1]]))
    assert x.dtype == torch.float32 and x.shape == (2, 3, 4)
    assert torch.allclose(x[..., 0] * 255, torch.tensor([[7.0, 2, 1], [6, 5, 4]]))
    assert (x == x[..., :1]).all()
    assert y.tolist() == [[1, 0, 1], [1, 0, 1]]


def test_bytes_become_the_unit_interval_and_floats_stay():
    bright = torch.full((8, 2, 2), 255, dtype=torch.uint8)
    x, _ = ragged_part(images=bright).batch(torch.zeros(2, 1, dtype=torch.long))
    assert (x == 1).all()
    features = torch.randn(8, 3)
    x, _ = ragged_part(images=features).batch(torch.tensor([[1], [2]]))
    assert torch.equal(x[:, 0], features[[3, 6]])


def test_pictures_keep_their_shape_for_a_cnn():
    images = torch.randint(0, 256, (8, 3, 4, 5), dtype=torch.uint8)
    x, _ = ragged_part(images=images, flat=False).batch(torch.tensor([[0, 1], [1, 2]]))
    assert x.shape == (2, 2, 3, 4, 5)
    assert torch.allclose(x[1, 1], images[6] / 255)


def test_each_repetition_reads_pixels_in_its_own_order():
    images = torch.randint(0, 256, (8, 2, 2), dtype=torch.uint8)
    pixels = torch.tensor([[3, 1, 0, 2], [0, 2, 1, 3]])
    x, _ = ragged_part(images=images, pixels=pixels).batch(torch.tensor([[0, 1], [0, 1]]))
    for r, rows in enumerate([[7, 3], [5, 4]]):
        assert torch.allclose(x[r], images[rows].flatten(1)[:, pixels[r]] / 255)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_chunks_visit_every_example_once_and_mark_what_is_padding(size):
    seen = [[], []]
    for x, _, valid in ragged_part().chunks(size):
        assert x.shape[:2] == valid.shape and valid.shape[1] <= size
        for r in range(2):
            seen[r] += (x[r, valid[r], 0] * 255).round().int().tolist()
    assert seen == [[7, 3, 1, 0, 2], [5, 4, 6]]


def test_padding_repeats_examples_of_the_same_repetition():
    *_, (x, y, valid) = ragged_part().chunks(5)
    assert valid.tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    assert (x[1, 3:] * 255).round().unique().tolist() == [6] and y[1, 3:].tolist() == [1, 1]


def test_a_real_task_agrees_with_plain_indexing(data_set):
    data = data_set("mnist")
    part = build("split_mnist", data).tasks([5, 6])[2].train  # 4/5
    positions = torch.stack([torch.randperm(size)[:16] for size in part.sizes])
    x, y = part.batch(positions)
    for r in range(2):
        rows = part.image_rows(r)[positions[r]].numpy()
        assert np.allclose(x[r], data.images[rows].reshape(16, -1) / np.float32(255), atol=1e-7)
        assert y[r].tolist() == (data.labels[rows] - 4).tolist()


def test_halves_of_a_part_are_random(data_set):
    """Rows are shuffled: the two classes are mixed, and no half is the older half of the data."""
    part = build("split_mnist", data_set("mnist")).tasks(range(40))[0].train
    half = part.sizes[0] // 2
    _, y = part.batch(torch.arange(2 * half).expand(40, -1))
    shares = y[:, :half].double().mean(1)
    assert (shares - 0.5).abs().max() < 0.5 and abs(float(shares.mean()) - 0.5) < 0.05
    rows = part.rows[:, :half].double().mean() - part.rows[:, half : 2 * half].double().mean()
    assert abs(float(rows)) < 3
