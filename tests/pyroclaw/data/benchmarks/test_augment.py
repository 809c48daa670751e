import numpy as np
import pytest
import torch

from pyroclaw.data.augment import DEGREES, FOLD, PIXELS, draw_variants, turn_and_shift
from pyroclaw.data.benchmarks import build


def test_whole_pixel_shifts_move_the_picture_right_and_down():
    picture = torch.rand(1, 1, 8, 8)
    moved = turn_and_shift(picture, torch.tensor([[0.0, 2 * 3 / 8, 2 * 2 / 8]]))
    assert torch.allclose(moved[..., 2:, 3:], picture[..., :-2, :-3], atol=1e-5)
    assert (moved[..., :2, :].abs() < 1e-5).all() and (moved[..., :3].abs() < 1e-5).all()


def test_a_quarter_turn_is_a_quarter_turn():
    picture = torch.rand(1, 3, 9, 9)
    turned = turn_and_shift(picture, torch.tensor([[np.pi / 2, 0, 0]], dtype=torch.float32))
    assert torch.allclose(turned, picture.rot90(1, (2, 3)), atol=1e-4)


def test_each_picture_has_its_own_numbers():
    pictures = torch.rand(3, 1, 8, 8)
    numbers = torch.tensor([[0.0, 0, 0], [0.2, 0.1, 0], [0, 0, -0.3]])
    together = turn_and_shift(pictures, numbers)
    alone = torch.cat([turn_and_shift(pictures[k : k + 1], numbers[k : k + 1]) for k in range(3)])
    assert torch.allclose(together, alone, atol=1e-6)
    assert torch.allclose(together[0], pictures[0], atol=1e-5)


def test_numbers_fill_the_stated_ranges_and_spare_variant_0():
    numbers = draw_variants(500, FOLD, 28, np.random.default_rng(0)).reshape(500, FOLD, 3)
    assert (numbers[:, 0] == 0).all() and (numbers[:, 1:] != 0).all()
    reach = np.array([np.radians(DEGREES), PIXELS / 14, PIXELS / 14])
    assert (np.abs(numbers) <= reach + 1e-6).all()
    assert np.allclose(numbers[:, 1:].std((0, 1)), reach / np.sqrt(3), rtol=0.05)


@pytest.fixture(scope="module")
def task(data_set):
    return build("omniglot", data_set("omniglot")).tasks([7])[3]


def test_position_i_is_variant_i_mod_20_of_image_i_div_20(task):
    x, y = task.train.batch(torch.arange(2 * FOLD)[None])
    rows = task.train.image_rows(0)[:2]
    assert torch.allclose(x[0, [0, FOLD]], task.train.images[rows] / 255, atol=1e-4)
    for k in range(2):
        variants = x[0, k * FOLD : (k + 1) * FOLD].flatten(1)
        assert len(variants.unique(dim=0)) == FOLD
        assert len(y[0, k * FOLD : (k + 1) * FOLD].unique()) == 1


def test_a_variant_is_the_same_picture_in_every_epoch_and_another_with_another_seed(task, data_set):
    positions = torch.randint(0, task.train.sizes[0], (1, 30))
    first, second = (task.train.batch(positions)[0] for _ in range(2))
    assert torch.equal(first, second)
    bench = build("omniglot", data_set("omniglot"))
    numbers = [bench.recipe.variants(seed, 3, 12, 28) for seed in (7, 7, 8)]
    assert (numbers[0] == numbers[1]).all() and (numbers[0] != numbers[2]).any()


def test_only_training_images_are_augmented_and_only_if_asked(task, data_set):
    images = len(task.train.image_rows(0))
    assert task.train.sizes == (FOLD * images,) and task.nominal_size == FOLD * images
    for part in (task.validation, task.test):
        x, _, _ = next(part.chunks(8))
        assert torch.allclose(x[0], part.images[part.rows[0, :8]] / 255)
    plain = build("omniglot", data_set("omniglot"), augment=False).tasks([7])[3]
    assert plain.train.sizes == (images,) and plain.nominal_size == images
    assert torch.equal(plain.train.rows, task.train.rows)
    assert plain.train.variants is None
