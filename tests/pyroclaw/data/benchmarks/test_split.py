from fractions import Fraction

import numpy as np
import pytest

from pyroclaw.data.split import by_class, by_unit, check_classes, check_shares, part_sizes, stream
from pyroclaw.errors import InputError

SHARES = (0.6, 0.2, 0.2)


def test_sizes_are_exact_floors_of_60_and_20_percent():
    n = np.arange(20_000)
    sizes = part_sizes(n, SHARES)
    assert sizes[:, 0].tolist() == [int(Fraction(6, 10) * int(k)) for k in n]
    assert sizes[:, 1].tolist() == [int(Fraction(2, 10) * int(k)) for k in n]
    assert (sizes.sum(axis=1) == n).all()


def test_every_class_has_its_shares_whatever_the_seed():
    classes = np.repeat(np.arange(4), [5, 17, 100, 33])[np.random.default_rng(0).permutation(155)]
    for seed in range(5):
        codes = by_class(classes, SHARES, seed)
        for c, expected in enumerate([(3, 1, 1), (10, 3, 4), (60, 20, 20), (19, 6, 8)]):
            assert np.bincount(codes[classes == c], minlength=3).tolist() == list(expected)


def test_a_seed_repeats_its_split_and_another_seed_draws_another():
    classes = np.repeat(np.arange(3), 50)
    assert (by_class(classes, SHARES, 4) == by_class(classes, SHARES, 4)).all()
    assert (by_class(classes, SHARES, 4) != by_class(classes, SHARES, 5)).any()


def test_every_image_is_in_the_test_part_of_one_seed_in_five():
    classes = np.repeat(np.arange(2), 50)
    tested = np.mean([by_class(classes, SHARES, seed) == 2 for seed in range(400)], axis=0)
    assert np.abs(tested - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / 400)


def test_no_unit_straddles_two_parts_and_shares_are_near():
    units = np.random.default_rng(1).geometric(0.01, 5000)
    for seed in range(5):
        codes = by_unit(units, SHARES, seed)
        for unit in np.unique(units):
            assert len(set(codes[units == unit])) == 1
        assert np.abs(np.bincount(codes) / len(codes) - SHARES).max() < 0.02


def test_streams_differ_by_purpose_and_refuse_negative_seeds():
    assert stream(1, 0).integers(2**60) != stream(1, 1).integers(2**60)
    with pytest.raises(InputError, match="seed -1 is negative"):
        stream(-1, 0)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.8, 0.2, 0.0), (0.6, 0.6, 0.2), (1.2, -0.1, -0.1)])
def test_shares_that_make_no_three_parts_are_refused(shares):
    with pytest.raises(InputError, match="three positive shares"):
        check_shares(shares)


@pytest.mark.parametrize("images", [0, 4])
def test_a_class_that_cannot_fill_three_parts_is_named(images):
    with pytest.raises(InputError, match=f"Class b of toys has {images} different images"):
        check_classes(np.repeat([0, 1], [10, images]), ["a", "b"], SHARES, "toys")
    check_classes(np.repeat([0, 1], [10, 5]), ["a", "b"], SHARES, "toys")
