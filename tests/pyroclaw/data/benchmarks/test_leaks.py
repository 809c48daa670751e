"""No benchmark may show a test image in training; and the check must notice when one does."""

from dataclasses import replace

import pytest
import torch

from pyroclaw.data.benchmarks import KNOWN, PROTOCOLS, build
from pyroclaw.data.dataset import without_duplicates
from pyroclaw.data.leaks import assert_no_leak, leaks

PARTS = ("train", "validation", "test")


def naive(task, replicate):
    """Indices and pixels of the three parts, compared pair by pair as sets."""
    rows = [set(getattr(task, part).image_rows(replicate).tolist()) for part in PARTS]
    pixels = [{bytes(task.train.images[row].flatten().tolist()) for row in part} for part in rows]
    return [sets[a] & sets[b] for sets in (rows, pixels) for a, b in ((0, 1), (0, 2), (1, 2))]


@pytest.mark.parametrize("name", KNOWN)
def test_no_index_and_no_image_is_in_two_parts(data_set, name):
    made = build(name, data_set(PROTOCOLS[name].data_set))
    for seeds in made.plates([0, 1, 2]):
        for task in made.tasks(seeds):
            assert leaks(task) == []
            assert_no_leak(task)


@pytest.mark.parametrize("name", KNOWN)
def test_the_check_agrees_with_plain_sets(data_set, name):
    made = build(name, data_set(PROTOCOLS[name].data_set))
    task = made.tasks([6])[1]
    assert not any(naive(task, 0))


def test_tasks_of_one_repetition_do_not_leak_into_each_other(data_set):
    """Permuted tasks are made of the same images: what one tests, no other may train on."""
    tasks = build("permuted_mnist", data_set("mnist")).tasks([0])
    trained = {row for task in tasks for row in task.train.image_rows(0).tolist()}
    tested = {row for task in tasks for row in task.test.image_rows(0).tolist()}
    assert trained and tested and not trained & tested


@pytest.mark.parametrize("name", ["split_mnist", "split_notmnist", "omniglot", "cifar100"])
def test_planted_duplicates_are_found_and_removing_them_mends_it(data_set, name):
    data = data_set(PROTOCOLS[name].data_set)
    images = data.images.copy()
    images[1:12] = images[0]  # twelve equal images of one class: no split can keep them in one part
    planted = replace(data, images=images)
    made = build(name, planted)
    found = [leak for task in made.tasks([0]) for leak in leaks(task)]
    assert found
    assert all({*leak.rows[0].tolist(), *leak.rows[1].tolist()} <= set(range(12)) for leak in found)
    with pytest.raises(AssertionError, match="are also in"):
        for task in made.tasks([0]):
            assert_no_leak(task)
    if name != "cifar100":  # whose class is then too small to split
        mended = build(name, without_duplicates(planted))
        assert not any(leaks(task) for task in mended.tasks([0]))


def test_the_very_same_row_in_two_parts_is_found(data_set):
    task = build("split_mnist", data_set("mnist")).tasks([0, 1])[0]
    rows = task.test.rows.clone()
    rows[1, 2] = task.train.rows[1, 5]
    (leak,) = leaks(task._replace(test=replace(task.test, rows=rows)))
    assert leak.replicate == 1 and leak.parts == ("train", "test")
    assert leak.rows[0].tolist() == leak.rows[1].tolist() == [int(task.train.rows[1, 5])]


def test_padding_of_short_repetitions_is_no_leak(data_set):
    task = build("split_notmnist", data_set("notmnist"), split="font").tasks(range(4))[0]
    assert len(set(task.train.sizes)) > 1 and leaks(task) == []


def test_float_features_are_compared_too(data_set):
    task = build("split_mnist", data_set("mnist")).tasks([0])[0]
    features = torch.randn(len(task.train.images), 3)
    features[task.train.rows[0, 0]] = features[task.validation.rows[0, 0]]
    parts = {part: replace(getattr(task, part), images=features) for part in PARTS}
    (leak,) = leaks(task._replace(**parts))
    assert leak.parts == ("train", "validation")
