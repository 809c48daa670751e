"""Benchmarks of one's own data; the examples of docs/benchmarks.md are run too."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from pyroclaw.data.benchmark import NetPreset
from pyroclaw.data.folder import from_folder
from pyroclaw.data.leaks import leaks
from pyroclaw.data.own import from_arrays, from_datasets
from pyroclaw.errors import InputError

DOCS = Path(__file__).parents[4] / "docs" / "benchmarks.md"
CNN = NetPreset("cnn", filters=8, blocks=2)


def pictures(n=40, classes=2, shape=(8, 8)):
    return np.random.randint(0, 256, (n, *shape), np.uint8), np.arange(n) % classes


@pytest.mark.parametrize("number", range(len(re.findall(r"```python", DOCS.read_text("utf-8")))))
def test_examples_of_the_documentation_run(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYROCLAW_DATA", str(tmp_path))
    example = re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)[number]
    names: dict = {}
    exec(compile(example, f"example {number}", "exec"), names)
    bench = names["bench"]
    tasks = bench.tasks(bench.plates([0, 1])[0])
    x, y = tasks[0].train.batch(torch.zeros(len(tasks[0].train.sizes), 2, dtype=torch.long))
    assert x.shape[2:] == bench.input_shape and (y < tasks[0].classes).all()


def test_arrays_make_tasks_with_labels_from_zero():
    (x, y), (u, v) = pictures(), pictures(60, 3)
    bench = from_arrays("toys", {"first": (x, y + 7), "second": (torch.tensor(u), torch.tensor(v * 10))})
    first, second = bench.tasks([0, 1])
    assert (first.name, first.classes, first.nominal_size) == ("first", 2, 24)
    assert (second.name, second.classes, second.nominal_size) == ("second", 3, 36)
    for task, images, labels in ((first, x, y), (second, u, v)):
        start = 0 if task is first else 40
        rows = task.test.image_rows(1).numpy() - start
        inputs, targets, _ = next(task.test.chunks(100))
        assert np.allclose(inputs[1], images[rows].reshape(len(rows), -1) / 255, atol=1e-6)
        assert targets[1].tolist() == labels[rows].tolist()
        assert leaks(task) == []


def test_a_list_of_tasks_is_numbered_and_options_are_kept():
    bench = from_arrays(
        "toys", [pictures(), pictures()], heads="multi", net=CNN, epochs=3, batch_size=5, parts=(0.5, 0.25, 0.25)
    )
    assert [task.name for task in bench.tasks([0])] == ["task 1", "task 2"]
    assert (bench.net, bench.epochs, bench.batch_size, bench.input_shape) == (CNN, 3, 5, (1, 8, 8))
    sizes = [part.sizes[0] for part in bench.tasks([0])[0][3:]]
    assert sizes == [20, 10, 10] and bench.source == "own data" and bench.title == "toys"


def test_one_head_serves_the_labels_of_all_tasks():
    (x, y), (u, v) = pictures(), pictures()
    first, second = from_arrays("toys", [(x, y), (u, 5 * v + 1)], heads="single").tasks([0])  # 0, 1 and then 1, 6
    assert first.classes == second.classes == 3
    assert set(next(first.train.chunks(99))[1].flatten().tolist()) == {0, 1}
    assert set(next(second.train.chunks(99))[1].flatten().tolist()) == {1, 2}


def test_float_features_stay_as_they_are():
    x, y = np.random.randn(50, 6) * 100, np.arange(50) % 2
    (task,) = from_arrays("features", [(x, y)]).tasks([2])
    inputs, _ = task.train.batch(torch.arange(5)[None])
    assert inputs.dtype == torch.float32
    assert np.array_equal(inputs[0], x[task.train.image_rows(0)[:5]].astype(np.float32))


@pytest.mark.parametrize("channels_first", [False, True])
def test_colour_pictures_either_way_round(channels_first):
    x, y = pictures(shape=(3, 8, 9) if channels_first else (8, 9, 3))
    bench = from_arrays("colours", [(x, y)], net=CNN)
    assert bench.input_shape == (3, 8, 9)
    inputs, _ = bench.tasks([0])[0].train.batch(torch.tensor([[4]]))
    picture = x[int(bench.tasks([0])[0].train.rows[0, 4])]
    assert np.allclose(inputs[0, 0], (picture if channels_first else picture.transpose(2, 0, 1)) / 255, atol=1e-6)


def test_duplicates_within_a_task_are_left_out_and_counted():
    x, y = pictures()
    bench = from_arrays("toys", [(np.concatenate([x, x[:7]]), np.concatenate([y, y[:7]])), (x, y)])
    assert bench.source == "own data (7 duplicates left out)"
    assert [len(task.train.image_rows(0)) for task in bench.tasks([0])] == [24, 24]
    assert not any(leaks(task) for task in bench.tasks([0]))


class Pictures(Dataset):
    """A map-style data set that, like many, never raises IndexError."""

    def __len__(self):
        return 30

    def __getitem__(self, index):
        return Image.fromarray(np.full((6, 6), index % 30, np.uint8)), index % 2


class Stream(IterableDataset):
    def __iter__(self):
        return ((np.full((6, 6), k, np.uint8), torch.tensor(k % 2)) for k in range(20))


def test_torch_datasets_of_pillow_images_arrays_and_tensors():
    bench = from_datasets("sets", {"pillow": Pictures(), "stream": Stream()})
    assert [(task.name, task.nominal_size) for task in bench.tasks([0])] == [("pillow", 18), ("stream", 12)]
    tensors = TensorDataset(torch.rand(30, 3, 8, 8), torch.arange(30) % 3)
    bench = from_datasets("sets", [tensors], net=CNN, epochs=2)
    assert bench.input_shape == (3, 8, 8) and bench.epochs == 2 and bench.images.dtype == torch.float32
    x, y = bench.tasks([0])[0].train.batch(torch.tensor([[1]]))
    row = int(bench.tasks([0])[0].train.rows[0, 1])
    assert torch.equal(x[0, 0], tensors.tensors[0][row]) and int(y) == row % 3


def test_a_torch_dataset_with_pictures_of_two_sizes_is_refused():
    mixed = [(np.zeros((4, 4), np.uint8), 0), (np.zeros((4, 5), np.uint8), 1)]
    with pytest.raises(InputError, match=r"Image 1 of task task 1 is \(4, 5\)"):
        from_datasets("sets", [mixed])


def draw(folder, shape=(6, 6), n=10):
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(n):
        Image.fromarray(np.random.randint(0, 256, shape, np.uint8)).save(folder / f"{k}.png")


def test_a_folder_of_classes_with_groups_as_tasks(tmp_path):
    for label in ("cat", "dog", "hen", "owl"):
        draw(tmp_path / label)
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    bench = from_folder("animals", tmp_path, tasks=[("dog", "cat"), ("hen", "owl")])
    first, second = bench.tasks([0])
    assert (first.name, second.name) == ("dog/cat", "hen/owl") and bench.input_shape == (36,)
    x, y, _ = next(first.train.chunks(50))
    dogs = {np.asarray(Image.open(path)).tobytes() for path in (tmp_path / "dog").iterdir()}
    for picture, label in zip(x[0], y[0].tolist(), strict=True):
        assert ((picture * 255).round().to(torch.uint8).numpy().tobytes() in dogs) == (label == 0)
    named = from_folder("animals", tmp_path, tasks={"pets": ["cat", "dog"]})
    assert [task.name for task in named.tasks([0])] == ["pets"]
    assert named.source == f"own data, folder {tmp_path.name}"


def test_a_folder_of_tasks_with_colours_and_sizes(tmp_path):
    for task, label, shape in (("a", "x", (9, 7, 3)), ("a", "y", (6, 6)), ("b", "x", (5, 8)), ("b", "z", (6, 6, 4))):
        draw(tmp_path / task / label, shape)
    bench = from_folder("mixed", tmp_path, size=(8, 10), net=CNN, heads="single", source="my camera")
    assert bench.input_shape == (3, 8, 10) and bench.source == "my camera"
    assert [(task.name, task.classes) for task in bench.tasks([0])] == [("a", 3), ("b", 3)]  # x, y, z
    with pytest.raises(InputError, match=r"is \(6, 6, 3\), other images are \(9, 7, 3\): give size="):
        from_folder("mixed", tmp_path)


def test_bad_folders_are_named(tmp_path):
    with pytest.raises(InputError, match="has no subfolders"):
        from_folder("none", tmp_path / "nowhere")
    draw(tmp_path / "cat")
    with pytest.raises(InputError, match="a task twice or one without classes"):
        from_folder("animals", tmp_path, tasks=[("cat",), ()])
    with pytest.raises(InputError, match="dog is not a folder with images"):
        from_folder("animals", tmp_path, tasks=[("cat", "dog")])
    draw(tmp_path / "dog")
    (tmp_path / "dog" / "3.png").write_bytes(b"\x89PNG broken")
    with pytest.raises(InputError, match=r"3\.png cannot be read as an image"):
        from_folder("animals", tmp_path, tasks=[("cat", "dog")])


X, Y = np.random.default_rng(0).integers(0, 256, (40, 6, 6), dtype=np.uint8), np.arange(40) % 2
WITH_NAN = np.where(np.arange(36).reshape(6, 6) == 5, np.nan, X / 255.0)


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([], "tasks of toys is empty"),
        ([(X, Y), (X[:0], Y[:0])], "Task task 2 is empty"),
        ([(X, np.zeros(40, int))], "Task task 1 has different images of one class only"),
        ([(X, Y / 2)], r"labels of task task 1 are float64 \[40\]: give one integer for each of its 40 images"),
        ([(X, Y.astype(str))], "labels of task task 1 are <U"),
        ([(X, Y[:30])], r"labels of task task 1 are int64 \[30\]"),
        ([(WITH_NAN, Y)], "contain NaN or infinity"),
        ([(X.astype(int), Y)], "images of task task 1 are int64"),
        ([(X, Y), (X[:, :5], Y)], r"task 2 are uint8 \[5, 6\], those of task task 1 uint8 \[6, 6\]"),
        ([(X, Y), (X / 255, Y)], r"task 2 are float32 \[6, 6\]"),
        ([(X[:, 0, 0], Y)], r"have shape \[40\]"),
        ([(np.zeros((40, 5, 6, 7), np.uint8), Y)], r"have shape \[40, 5, 6, 7\]: .* at most 4 channels"),
        ([(X, np.where(np.arange(40) < 37, 0, 1))], "Class 1 of task task 1 .* has 3 different images"),
        ([(np.zeros_like(X), Y)], "has different images of one class only"),
        ([X], r"must be a pair \(images, labels\)"),
        ([([[1.0, 2.0], [3.0]], [0, 1])], "make no array"),
        ([(np.full((40, 3), 1e300), Y)], "contain NaN or infinity"),
    ],
)
def test_bad_arrays_are_one_sentence(tasks, words):
    with pytest.raises(InputError, match=words) as caught:
        from_arrays("toys", tasks)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": "both"}, "heads='both'"),
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": -1}, "batch_size=-1"),
        ({"parts": (0.9, 0.2, 0.1)}, "three positive shares"),
        ({"net": NetPreset("cnn", filters=64, blocks=4)}, "at least 16 pixels a side"),
    ],
)
def test_bad_options_are_one_sentence(options, words):
    with pytest.raises(InputError, match=words):
        from_arrays("toys", [(X, Y)], **options)


@settings(max_examples=60, deadline=None, derandomize=not os.environ.get("UNLOCK_SEED"))
@given(
    shape=st.lists(st.integers(0, 6), max_size=4),
    n=st.integers(0, 30),
    dtype=st.sampled_from([np.uint8, np.float32, np.float16, np.int64, bool, complex, str, object]),
    labels=st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=4),
    single=st.booleans(),
    cnn=st.booleans(),
)
def test_any_array_gives_a_benchmark_or_one_sentence(shape, n, dtype, labels, single, cnn):
    images = np.random.default_rng(0).integers(0, 256, (n, *shape)).astype(dtype)
    pair = (images, np.resize(labels, n))
    try:
        net = NetPreset("cnn", filters=8, blocks=1) if cnn else NetPreset("mlp", hidden=(5,))
        bench = from_arrays("any", [pair], heads="single" if single else "multi", net=net)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        (task,) = bench.tasks([0, 1])
        x, y = task.train.batch(torch.zeros(2, 1, dtype=torch.long))
        assert x.shape == (2, 1, *bench.input_shape) and 0 <= y.min() and y.max() < task.classes


def test_a_cnn_needs_pictures():
    with pytest.raises(InputError, match="needs pictures"):
        from_arrays("features", [(np.random.randn(40, 20), Y)], net=CNN)
