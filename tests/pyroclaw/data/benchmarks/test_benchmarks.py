import numpy as np
import pytest
import torch

from pyroclaw.data.benchmark import NetPreset
from pyroclaw.data.benchmarks import KNOWN, PROTOCOLS, build, make
from pyroclaw.data.dataset import DataSet
from pyroclaw.errors import InputError

PLAIN = [name for name in KNOWN if name != "omniglot"]


@pytest.fixture
def bench(data_set):
    return lambda name, **options: build(name, data_set(PROTOCOLS[name].data_set), **options)


@pytest.mark.parametrize(
    ("name", "tasks", "heads", "net", "batch_size", "epochs", "shape"),
    [
        ("permuted_mnist", 10, "single", NetPreset("mlp", hidden=(100, 100)), 256, 10, (784,)),
        ("split_mnist", 5, "multi", NetPreset("mlp", hidden=(256, 256)), 128, 10, (784,)),
        ("split_notmnist", 5, "multi", NetPreset("mlp", hidden=(150, 150, 150, 150)), 256, 10, (784,)),
        ("split_fashion", 5, "multi", NetPreset("mlp", hidden=(150, 150, 150, 150)), 256, 10, (784,)),
        ("omniglot", 50, "multi", NetPreset("cnn", filters=64, blocks=4), 256, 15, (1, 28, 28)),
        ("cifar100", 20, "multi", NetPreset("cnn", filters=64, blocks=4), 256, 15, (3, 32, 32)),
    ],
)
def test_the_papers_protocol(bench, name, tasks, heads, net, batch_size, epochs, shape):
    made = bench(name)
    found = (made.task_count, made.heads, made.net, made.batch_size, made.epochs, made.input_shape)
    assert found == (tasks, heads, net, batch_size, epochs, shape)
    first = made.tasks([0])[0]
    x, y = first.train.batch(torch.zeros(1, 2, dtype=torch.long))
    assert x.shape == (1, 2, *shape) and x.dtype == torch.float32 and y.dtype == torch.long
    assert (made.source, made.standin, made.title) == ("random pixels", False, name)


@pytest.mark.parametrize(
    ("name", "names", "pairs"),
    [
        ("split_mnist", "0/1 2/3 4/5 6/7 8/9", [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]),
        ("split_notmnist", "A/F B/G C/H D/I E/J", [(0, 5), (1, 6), (2, 7), (3, 8), (4, 9)]),
        (
            "split_fashion",
            "T-shirt/Trouser Pullover/Dress Coat/Sandal Shirt/Sneaker Bag/Ankle_boot",
            [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)],
        ),
    ],
)
def test_pairs_of_classes(bench, data_set, name, names, pairs):
    data = data_set(PROTOCOLS[name].data_set)
    tasks = bench(name).tasks([0, 3])
    assert [task.name for task in tasks] == [one.replace("_", " ") for one in names.split()]
    for task, pair in zip(tasks, pairs, strict=True):
        assert task.classes == 2
        for part in (task.train, task.validation, task.test):
            _, y, valid = next(part.chunks(1000))
            assert valid.all()
            for r in range(2):
                assert np.array(pair)[y[r]].tolist() == data.labels[part.image_rows(r)].tolist()
                assert set(y[r].tolist()) == {0, 1}


@pytest.mark.parametrize("name", KNOWN)
def test_the_three_parts_together_are_the_whole_task(bench, name):
    made = bench(name)
    rows = []
    for task in made.tasks([4]):
        mine = [part.image_rows(0) for part in (task.train, task.validation, task.test)]
        sizes = [len(part) for part in mine]
        assert abs(sizes[0] - 0.6 * sum(sizes)) <= task.classes and abs(sizes[1] - 0.2 * sum(sizes)) <= task.classes
        rows.append(torch.cat(mine))
    every = torch.cat(rows[:1] if name == "permuted_mnist" else rows)
    assert every.sort().values.tolist() == list(range(len(made.images)))


@pytest.mark.parametrize("name", KNOWN)
def test_a_repetition_is_the_same_alone_and_beside_others(bench, name):
    made = bench(name)
    seeds = [9, 2, 5]
    plate = next(group for group in made.plates(seeds) if 2 in group)
    k = plate.index(2)
    assert len(plate) == (1 if name == "omniglot" else 3)
    for together, alone in zip(made.tasks(plate), made.tasks([2]), strict=True):
        assert together[:3] == alone[:3]
        for part in ("train", "validation", "test"):
            one, other = getattr(together, part), getattr(alone, part)
            assert one.sizes[k] == other.sizes[0]
            positions = torch.randint(0, other.sizes[0], (1, 8))
            x, y = one.batch(positions.expand(len(plate), -1).minimum(torch.tensor(one.sizes)[:, None] - 1))
            own_x, own_y = other.batch(positions)
            assert torch.equal(x[k], own_x[0]) and torch.equal(y[k], own_y[0])


@pytest.mark.parametrize("name", KNOWN)
def test_the_first_tasks_are_the_same_however_many_follow(bench, name):
    made = bench(name)
    for own, other in zip(made.first(3).tasks([2]), made.tasks([2])[:3], strict=True):
        assert own[:3] == other[:3]
        for part in ("train", "validation", "test"):
            one, same = getattr(own, part), getattr(other, part)
            assert one.sizes == same.sizes
            (x, y), (same_x, same_y) = (each.batch(torch.arange(one.sizes[0])[None]) for each in (one, same))
            assert torch.equal(x, same_x) and torch.equal(y, same_y)


@pytest.mark.parametrize("name", PLAIN)
def test_ten_repetitions_make_one_plate_with_splits_of_their_own(bench, name):
    made = bench(name)
    assert made.plates(range(10)) == [list(range(10))]
    task = made.tasks(range(10))[0]
    tests = {tuple(sorted(task.test.image_rows(r).tolist())) for r in range(10)}
    assert len(tests) == 10
    if name != "cifar100":
        assert task.train.sizes == (task.nominal_size,) * 10


def test_permuted_tasks_share_one_split_but_not_their_permutations(bench, data_set):
    tasks = bench("permuted_mnist").tasks([1, 2])
    assert [task.name for task in tasks] == [f"permutation {n}" for n in range(1, 11)]
    orders = torch.cat([task.train.pixels for task in tasks])
    assert (orders.sort(1).values == torch.arange(784)).all()
    assert len(orders.unique(dim=0)) == 20
    assert (orders[0] != torch.arange(784)).any()  # the first task is permuted too
    for task in tasks:
        assert task.classes == 10
        assert torch.equal(task.test.rows, tasks[0].test.rows)
        assert task.test.pixels is task.train.pixels
        x, y = task.test.batch(torch.tensor([[3], [3]]))
        for r in range(2):
            row = int(task.test.rows[r, 3])
            expected = data_set("mnist").images[row].reshape(-1)[task.test.pixels[r]]
            assert np.allclose(x[r, 0], expected / 255, atol=1e-6) and int(y[r, 0]) == data_set("mnist").labels[row]


def test_cifar_shuffles_its_classes_for_each_repetition(bench, data_set):
    data, tasks = data_set("cifar100"), bench("cifar100").tasks([0, 1])
    assert [task.name for task in tasks] == [f"task {n}" for n in range(1, 21)]
    orders = []
    for r in range(2):
        groups = [sorted(set(data.labels[task.train.image_rows(r)].tolist())) for task in tasks]
        assert all(len(group) == 5 for group in groups)
        assert sorted(label for group in groups for label in group) == list(range(100))
        orders.append(groups)
    assert orders[0] != orders[1]
    # Twelve images a class, so 7 train; the one class with eleven has 6. Steps are the same all the same.
    assert {task.nominal_size for task in tasks} == {35}
    sizes = torch.tensor([task.train.sizes for task in tasks])
    assert sorted(sizes[:, 0].tolist()) == sorted(sizes[:, 1].tolist()) == [34] + [35] * 19
    x, _ = tasks[0].train.batch(torch.zeros(2, 1, dtype=torch.long))
    picture = data.images[int(tasks[0].train.rows[1, 0])]
    assert np.allclose(x[1, 0], picture.transpose(2, 0, 1) / 255, atol=1e-6)


def test_a_class_has_one_place_in_the_head_in_all_parts(bench, data_set):
    data = data_set("cifar100")
    for task in bench("cifar100").tasks([3]):
        places: dict[int, set[int]] = {}
        for part in (task.train, task.validation, task.test):
            _, y, _ = next(part.chunks(100))
            for label, place in zip(data.labels[part.image_rows(0)].tolist(), y[0].tolist(), strict=True):
                places.setdefault(label, set()).add(place)
        assert sorted(place for one in places.values() for place in one) == list(range(5))


def test_omniglot_has_a_task_an_alphabet_in_random_order(bench, data_set):
    data, made = data_set("omniglot"), bench("omniglot")
    orders = []
    for seed in (0, 1):
        tasks = made.tasks([seed])
        orders.append([task.name for task in tasks])
        for task in tasks:
            alphabet = int(task.name.split()[1])
            rows = task.test.image_rows(0)
            assert set(data.extras["alphabet"][rows].tolist()) == {alphabet}
            _, y, _ = next(task.test.chunks(1000))
            assert y[0].tolist() == data.labels[rows].tolist()
            assert task.classes == data.labels[data.extras["alphabet"] == alphabet].max() + 1
            assert task.nominal_size == task.classes * 12 * 20
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]
    with pytest.raises(InputError, match="do not make one plate"):
        made.tasks([0, 1])


def test_a_split_by_font_keeps_fonts_together(bench, data_set):
    fonts = data_set("notmnist").extras["font"]
    made = bench("split_notmnist", split="font")
    tasks = made.tasks([0, 1, 2])
    assert made.plates([0, 1, 2]) == [[0, 1, 2]]
    for r in range(3):
        held = [
            {font for task in tasks for font in fonts[getattr(task, part).image_rows(r)].tolist()}
            for part in ("train", "validation", "test")
        ]
        assert not held[0] & held[1] and not held[0] & held[2] and not held[1] & held[2]
    assert any(len(set(task.train.sizes)) > 1 for task in tasks)  # ragged, and still one plate
    assert [task.nominal_size for task in tasks] == [task.nominal_size for task in bench("split_notmnist").tasks([0])]


def test_a_split_by_font_needs_fonts_and_enough_of_them(bench, data_set):
    with pytest.raises(InputError, match="font"):
        bench("split_fashion", split="font")
    data = data_set("notmnist")
    one_font_a_class = DataSet("notmnist", data.images, data.labels, "x", extras={"font": data.labels})
    with pytest.raises(InputError, match="take another seed, or split by image"):
        build("split_notmnist", one_font_a_class, split="font").tasks([0])


@pytest.mark.parametrize("name", ["split_mnist", "omniglot"])
def test_a_missing_or_tiny_class_is_one_sentence(data_set, name):
    data = data_set(PROTOCOLS[name].data_set)
    few = np.flatnonzero(data.labels == 1)[4:] if name == "split_mnist" else np.arange(3, 20)
    with pytest.raises(InputError, match=r"Class .* has [34] different images, too few"):
        build(name, data.take(np.delete(np.arange(len(data)), few)))


def test_unknown_names_list_the_known_and_the_nearest():
    with pytest.raises(InputError, match=r"did you mean split_mnist\? known are permuted_mnist, split_mnist"):
        make("splitmnist")


def test_a_stand_in_is_never_called_by_the_real_name(tmp_path):
    lines: list[str] = []
    made = make("permuted_mnist", tmp_path, download=False, log=lines.append)
    assert made.standin and "stand-in" in made.source and made.title == "permuted_digits"
    assert any("STAND-IN" in line for line in lines)
    task = made.tasks([0, 1])[9]
    x, y = task.train.batch(torch.randint(0, task.nominal_size, (2, 32)))
    assert x.shape == (2, 32, 784) and 0 <= x.min() and x.max() <= 1 and set(y.flatten().tolist()) <= set(range(10))
    with pytest.raises(InputError):
        make("permuted_mnist", tmp_path, data="real", download=False, log=lines.append)


def test_negative_seeds_are_refused(bench):
    with pytest.raises(InputError, match="seed -3 is negative"):
        bench("split_mnist").tasks([-3])
