"""Removal of pixel-identical images."""

import time

import numpy as np

from pyroclaw.data.dataset import DataSet, without_duplicates


def test_the_first_of_identical_images_stays_with_its_label_and_extras():
    images = np.random.randint(0, 256, (5, 4, 4), np.uint8)
    images[3] = images[1]
    extras = {"font": np.arange(10, 15), "class_names": np.array(list("abcde"))}
    data = without_duplicates(DataSet("mnist", images, np.arange(5), "test", extras=extras))
    assert data.labels.tolist() == [0, 1, 2, 4]
    assert data.extras["font"].tolist() == [10, 11, 12, 14]
    assert data.extras["class_names"].tolist() == list("abcde")  # a table goes by class, not by image
    np.testing.assert_array_equal(data.images, images[[0, 1, 2, 4]])


def test_identical_images_of_different_classes_are_duplicates_too():
    images = np.zeros((3, 4, 4, 3), np.uint8)
    images[2, 0, 0, 2] = 1
    assert without_duplicates(DataSet("cifar100", images, np.array([0, 1, 2]), "test")).labels.tolist() == [0, 2]


def test_nothing_is_copied_where_nothing_is_identical():
    data = DataSet("mnist", np.arange(8, dtype=np.uint8).reshape(2, 2, 2), np.arange(2), "test")
    assert without_duplicates(data).images is data.images


def test_images_that_are_a_strided_view_are_compared_by_their_pixels():
    images = np.zeros((2, 4, 4), np.uint8)
    images[1, :, 1] = 9  # differs only in a column that the view leaves out
    assert len(without_duplicates(DataSet("mnist", images[:, :, ::2], np.arange(2), "test"))) == 1


def test_seventy_thousand_images_take_under_a_second():
    images = np.random.randint(0, 256, (70_000, 28, 28), np.uint8)
    images[-1] = images[0]
    start = time.process_time()
    assert len(without_duplicates(DataSet("mnist", images, np.zeros(70_000, np.int64), "test"))) == 69_999
    assert time.process_time() - start < 1
