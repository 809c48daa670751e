from dataclasses import replace
from itertools import combinations, pairwise

import pytest
import torch

from pyroclaw.data.augment import Variants
from pyroclaw.errors import InputError
from pyroclaw.inference.coreset import choose, k_center
from pyroclaw.streams import Streams


def greedy(points: list[list[float]], k: int, first: int) -> list[int]:
    """Gonzalez's greedy choice, point by point in double precision."""
    chosen = [first]
    while len(chosen) < k:
        best, far = -1, -1.0
        for i, x in enumerate(points):
            if i not in chosen:
                near = min(sum((a - b) ** 2 for a, b in zip(x, points[c], strict=True)) for c in chosen)
                if near > far:
                    best, far = i, near
        chosen.append(best)
    return chosen


def radius(points: torch.Tensor, centres) -> float:
    return float(torch.cdist(points, points[list(centres)]).min(1).values.max())


@pytest.mark.parametrize("n, d, k", [(12, 1, 5), (40, 3, 10), (60, 20, 25)])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_centres_are_those_of_the_plain_greedy_choice(n, d, k, shift):
    """Far from the origin too, where squares of the points dwarf those of the distances."""
    points = torch.randn(n, d, dtype=torch.float64) + shift
    first = int(torch.randint(n, ()))
    assert k_center(points, k, first).tolist() == greedy(points.tolist(), k, first)


@pytest.mark.parametrize("shift, scale", [(0.0, 1.0), (100.0, 0.01), (0.0, 1e-6)])
def test_every_centre_is_the_farthest_point_in_single_precision_too(shift, scale):
    points = torch.randn(300, 50) * scale + shift
    chosen = k_center(points, 40, 3)
    distance = torch.cdist(points.double(), points.double(), compute_mode="donot_use_mm_for_euclid_dist")
    for i in range(1, 40):
        nearest = distance[:, chosen[:i]].min(1).values
        assert nearest[chosen[i]] >= nearest.max() * (1 - 1e-5)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_radius_is_at_most_twice_the_best(k):
    for _ in range(5):
        points = torch.randn(10, 2, dtype=torch.float64)
        best = min(radius(points, centres) for centres in combinations(range(10), k))
        assert radius(points, k_center(points, k, 0).tolist()) <= 2 * best + 1e-12


def test_the_radius_never_grows_and_beats_a_random_choice():
    points = torch.randn(200, 2)
    chosen = k_center(points, 30, 0).tolist()
    radii = [radius(points, chosen[:k]) for k in range(1, 31)]
    assert all(after <= before for before, after in pairwise(radii))
    assert radii[-1] < radius(points, torch.randperm(200)[:30].tolist())


def test_duplicates_are_taken_last_and_none_twice():
    points = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 1], [1, 0]])
    assert k_center(points, 5, 2).tolist() == [2, 1, 0, 3, 4]  # ties to the lowest index
    assert k_center(torch.ones(4, 3), 4, 3).tolist() == [3, 0, 1, 2]


def test_as_many_centres_as_points_are_all_points():
    points = torch.randn(25, 4)
    assert sorted(k_center(points, 25, 7).tolist()) == list(range(25))
    assert k_center(points, 1, 7).tolist() == [7]


@pytest.mark.parametrize("k", [0, 6])
def test_more_centres_than_points_are_refused(k):
    with pytest.raises(InputError, match=f"k={k}"):
        k_center(torch.randn(5, 2), k, 0)


HOW = pytest.mark.parametrize("how", ["k-center", "random"])


@HOW
def test_the_choice_is_fixed_by_the_seed_and_not_by_the_company(toy, how):
    part = toy.tasks([3, 4])[0].train
    both = choose(part, 10, how, Streams([3, 4], "coreset"))
    assert both.shape == (2, 10) and torch.equal(both, choose(part, 10, how, Streams([3, 4], "coreset")))
    alone = choose(toy.tasks([4])[0].train, 10, how, Streams([4], "coreset"))
    assert torch.equal(both[1], alone[0])
    assert not torch.equal(both, choose(part, 10, how, Streams([3, 4], "other")))


@HOW
def test_the_images_of_a_replicate_are_different_and_its_own(toy, how):
    part = toy.tasks([0, 1, 2])[1].train
    chosen = choose(part, 12, how, Streams([0, 1, 2], "coreset"))
    assert all(len(set(row)) == 12 for row in chosen.tolist())
    assert (chosen < torch.tensor(part.sizes)[:, None]).all() and (chosen >= 0).all()


def test_both_ways_begin_with_the_same_random_image_and_k_center_goes_on_greedily(toy):
    part = toy.tasks([0, 1])[0].train
    by_chance = choose(part, 6, "random", Streams([0, 1], "coreset"))
    chosen = choose(part, 6, "k-center", Streams([0, 1], "coreset"))
    assert torch.equal(chosen[:, 0], by_chance[:, 0]) and not torch.equal(chosen, by_chance)
    for r in range(2):
        points = part.images[part.image_rows(r)].double().tolist()
        assert chosen[r].tolist() == greedy(points, 6, int(chosen[r, 0]))


@HOW
def test_at_most_half_of_the_smallest_replicate_is_chosen(toy, how):
    part = toy.tasks([0, 1])[0].train
    part = replace(part, sizes=(part.sizes[0], 9))
    chosen = choose(part, 1000, how, Streams([0, 1], "coreset"))
    assert chosen.shape == (2, 4) and (chosen[1] < 9).all()


@HOW
def test_variants_and_permuted_pixels_do_not_matter(toy_pictures, how):
    """The choice is one of images, by their plain pictures."""
    seeds = list(range(6))
    part = toy_pictures.tasks(seeds)[1].train
    plain = choose(part, 8, how, Streams(seeds, "coreset"))
    numbers = torch.randn(6, 5 * part.rows.shape[1], 3)
    augmented = replace(part, variants=Variants(numbers, 5), sizes=tuple(5 * size for size in part.sizes))
    assert torch.equal(choose(augmented, 8, how, Streams(seeds, "coreset")), plain)
    permuted = replace(part, pixels=torch.stack([torch.randperm(64) for _ in seeds]), flat=True)
    assert torch.equal(choose(permuted, 8, how, Streams(seeds, "coreset")), plain)


@HOW
def test_a_coreset_of_nothing_is_refused(toy, how):
    part = toy.tasks([0])[0].train
    with pytest.raises(InputError, match="k=0"):
        choose(part, 0, how, Streams([0], "coreset"))
    with pytest.raises(InputError, match="from 1 images"):
        choose(replace(part, sizes=(1,)), 5, how, Streams([0], "coreset"))
