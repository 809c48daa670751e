"""Part.take and Part.drop: two parts out of one."""

import pytest
import torch

from pyroclaw.data.augment import Variants
from pyroclaw.data.part import Part

OWN = (9, 6, 11)  # images of each repetition


def ragged(kind: str = "plain", fold: int = 3) -> Part:
    """Three repetitions with unequal numbers of images; no two images of a repetition are alike."""
    images = torch.randint(0, 256, (20, 1, 6, 6), dtype=torch.uint8)
    rows = torch.stack([torch.randperm(20)[: max(OWN)] for _ in OWN])
    for r, size in enumerate(OWN):
        rows[r, size:] = rows[r, 0]
    numbers = 0.3 * torch.randn(len(OWN), max(OWN) * fold, 3)
    numbers[:, ::fold] = 0
    augmented = kind == "augmented"
    return Part(
        images=images,
        classes=torch.arange(20) % 4,
        rows=rows,
        sizes=tuple(size * (fold if augmented else 1) for size in OWN),
        head=torch.stack([torch.randperm(4) for _ in OWN]),
        flat=kind in ("plain", "permuted"),
        pixels=torch.stack([torch.randperm(36) for _ in OWN]) if kind == "permuted" else None,
        variants=Variants(numbers, fold) if augmented else None,
    )


def picked(k: int) -> torch.Tensor:
    return torch.stack([torch.randperm(size)[:k] for size in OWN])


KINDS = pytest.mark.parametrize("kind", ["plain", "permuted", "pictures", "augmented"])


@KINDS
def test_a_taken_part_gives_the_same_pictures_and_labels(kind):
    part, images = ragged(kind), picked(4)
    taken = part.take(images)
    x, y = taken.batch(torch.arange(4).expand(3, -1))
    plain, labels = part.batch(images * part.fold)  # variant 0 is the image itself
    assert taken.fold == 1 and taken.sizes == (4, 4, 4)
    assert torch.equal(y, labels) and x.shape == plain.shape
    assert torch.allclose(x, plain, atol=1e-5)
    if kind != "augmented":
        assert torch.equal(x, plain)


def test_a_taken_part_owns_what_it_keeps_and_nothing_else():
    part, images = ragged(), picked(4)
    taken = part.take(images)
    assert taken.images.shape == (12, 1, 6, 6) and taken.images.dtype == torch.uint8 and taken.classes.shape == (12,)
    assert taken.images.untyped_storage().nbytes() == 12 * 36  # a copy, not a view into all images
    assert taken.stored_bytes == 4 * (36 + 8)
    before = taken.batch(torch.zeros(3, 1, dtype=torch.long))[0]
    part.images.zero_()
    assert torch.equal(taken.batch(torch.zeros(3, 1, dtype=torch.long))[0], before)


@KINDS
@pytest.mark.parametrize("k", [1, 3, 5])
def test_take_and_drop_divide_the_part(kind, k):
    part, images = ragged(kind), picked(k)
    taken, left = part.take(images), part.drop(images)
    assert left.sizes == tuple((size - k) * part.fold for size in OWN) and left.fold == part.fold
    for r in range(3):
        before = part.image_rows(r).tolist()
        mine = [before[i] for i in images[r]]
        assert left.image_rows(r).tolist() == [row for row in before if row not in mine]  # in the same order
        assert torch.equal(taken.images[taken.image_rows(r)], part.images[mine])


@KINDS
def test_what_is_left_keeps_its_examples_with_their_variants(kind):
    part, images = ragged(kind), picked(2)
    left = part.drop(images)
    for r, size in enumerate(left.sizes):
        gone = set(images[r].tolist())
        kept = [p for p in range(part.sizes[r]) if p // part.fold not in gone]
        assert len(kept) == size
        x, y = left.batch(torch.arange(size).expand(3, -1).minimum(torch.tensor(left.sizes)[:, None] - 1))
        old_x, old_y = part.batch(torch.tensor(kept).expand(3, -1).minimum(torch.tensor(part.sizes)[:, None] - 1))
        assert torch.equal(x[r], old_x[r]) and torch.equal(y[r], old_y[r])


@KINDS
def test_padding_repeats_the_first_image_that_is_left(kind):
    part = ragged(kind)
    images = torch.tensor([[0, 1], [5, 0], [10, 3]])  # the first image of two repetitions, the last of two
    left = part.drop(images)
    assert left.rows.shape == (3, 9) and part.rows.shape == (3, 11)
    for r in range(3):
        own = left.image_rows(r)
        assert (left.rows[r, len(own) :] == own[0]).all()
    assert left.rows[0, 7:].tolist() == [int(part.rows[0, 2])] * 2
    if left.variants is not None:
        assert left.variants.numbers.shape == (3, 9 * left.fold, 3)
    for _, _, valid in left.chunks(100):
        assert valid.sum(1).tolist() == list(left.sizes)


def test_images_can_be_dropped_in_steps_and_down_to_none():
    part = ragged("augmented")
    at_once, steps = part.drop(torch.tensor([[1, 4]] * 3)), part.drop(torch.tensor([[1]] * 3))
    steps = steps.drop(torch.tensor([[3]] * 3))
    assert torch.equal(at_once.rows, steps.rows) and torch.equal(at_once.variants.numbers, steps.variants.numbers)
    assert part.drop(torch.arange(11).expand(3, -1)).sizes == (0, 0, 0)
