"""Raw formats, from small files in the true formats."""

import gzip
import io
import pickle
import shutil
import tarfile

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import CIFAR100

from pyroclaw.data.local import find
from pyroclaw.data.pictures import read_notmnist, read_omniglot
from pyroclaw.data.raw import read_cifar_binary, read_cifar_python, read_idx
from pyroclaw.errors import InputError

pytestmark = pytest.mark.usefixtures("isolated")


def silent(line: str) -> None:
    pass


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(("name", "place"), [("mnist", "MNIST/raw"), ("fashion_mnist", "FashionMNIST/raw")])
def test_idx_files_plain_and_compressed(write, tmp_path, name, place, suffix):
    images, labels = write.idx(place, suffix=suffix)
    arrays = find(name, tmp_path).read(silent)
    np.testing.assert_array_equal(arrays["images"], images)
    np.testing.assert_array_equal(arrays["labels"], labels)
    assert arrays["official_test"].tolist() == [False] * 30 + [True] * 10


def test_three_of_four_idx_files_are_not_a_data_set(write, tmp_path):
    write.idx("MNIST/raw")
    (tmp_path / "MNIST/raw/t10k-labels-idx1-ubyte.gz").unlink()
    assert find("mnist", tmp_path) is None


def test_fashion_mnist_is_found_where_debian_puts_it(write, tmp_path):
    images, _ = write.idx("debian")
    found = find("fashion_mnist", tmp_path)
    assert found.what == "Debian's dataset-fashion-mnist"
    np.testing.assert_array_equal(found.read(silent)["images"], images)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "first four bytes"),
        (b"\0\0\x0d\x01" + b"\0" * 8, "first four bytes"),  # floats
        (b"\0\0\x08\x03\0\0\0\x02", "header is cut short"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "impossible size"),
        (b"\0\0\x08\x01\0\0\0\x05abcd", "5 bytes its header declares"),
        (b"\0\0\x08\x01\0\0\0\x05abcdef", "5 bytes its header declares"),
    ],
)
def test_bad_idx_files_are_named(tmp_path, content, words):
    path = tmp_path / "train-labels-idx1-ubyte"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_idx(path, "mnist")
    packed = tmp_path / "train-labels-idx1-ubyte.gz"
    packed.write_bytes(gzip.compress(content)[:-6])  # cut short, as by a broken download
    with pytest.raises(InputError, match=r"train-labels-idx1-ubyte\.gz cannot be used because"):
        read_idx(packed, "mnist")


def test_images_without_labels_are_named(write, tmp_path):
    write.idx("MNIST/raw")
    labels = tmp_path / "MNIST/raw/train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x02ab"))
    with pytest.raises(InputError, match="holds 30 images where its label file has 2 labels"):
        find("mnist", tmp_path).read(silent)


def cifar_archive(tmp_path):
    with tarfile.open(tmp_path / "cifar-100-binary.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "cifar-100-binary", "cifar-100-binary")
    shutil.rmtree(tmp_path / "cifar-100-binary")


@pytest.mark.parametrize("archive", [False, True])
def test_cifar_binary(write, tmp_path, archive):
    images, labels = write.cifar_binary()
    if archive:
        cifar_archive(tmp_path)
    arrays = find("cifar100", tmp_path).read(silent)
    np.testing.assert_array_equal(arrays["images"], images)
    np.testing.assert_array_equal(arrays["labels"], labels)
    assert arrays["official_test"].sum() == 100 and arrays["class_names"][42] == "class42"


def test_cifar_binary_cut_short_is_named(write, tmp_path):
    write.cifar_binary()
    path = tmp_path / "cifar-100-binary" / "test.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"test\.bin is no whole number of 3074-byte records"):
        read_cifar_binary(path.parent)
    path.unlink()
    with pytest.raises(InputError, match="lacks a part"):
        read_cifar_binary(path.parent)
    cifar_archive(tmp_path)
    with pytest.raises(InputError, match=r"lacks a part \('test\.bin'\)"):
        read_cifar_binary(tmp_path / "cifar-100-binary.tar.gz")


class Bomb:
    """Unpickling this would leave a trace."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return (open, (self.trace, "w"))


@pytest.mark.parametrize("archive", [False, True])
def test_a_cifar_pickle_with_another_checksum_is_never_opened(tmp_path, archive):
    folder, trace = tmp_path / "cifar-100-python", tmp_path / "trace"
    folder.mkdir()
    for part in ("train", "test", "meta"):
        (folder / part).write_bytes(pickle.dumps(Bomb(str(trace))))
    path = folder
    if archive:
        path = tmp_path / "cifar-100-python.tar.gz"
        with tarfile.open(path, "w:gz") as packed:
            packed.add(folder, "cifar-100-python")
    words = "published checksum" if archive else "not found or corrupted"
    with pytest.raises(InputError, match=f"torchvision refuses it .*{words}"):
        read_cifar_python(path)
    assert not trace.exists()


def test_cifar_pickles_with_torchvisions_checksums_are_read(tmp_path, monkeypatch, md5):
    parts = {}
    for part, start in (("train", 0), ("test", 100)):
        data = np.full((100, 3072), start, np.uint8)
        parts[part] = pickle.dumps({"data": data, "fine_labels": list(range(100))})
    parts["meta"] = pickle.dumps({"fine_label_names": [f"class{i}" for i in range(100)]})
    path = tmp_path / "cifar-100-python.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for part, content in parts.items():
            info = tarfile.TarInfo(f"cifar-100-python/{part}")
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    monkeypatch.setattr(CIFAR100, "train_list", [["train", md5(parts["train"])]])
    monkeypatch.setattr(CIFAR100, "test_list", [["test", md5(parts["test"])]])
    monkeypatch.setattr(CIFAR100, "meta", {**CIFAR100.meta, "md5": md5(parts["meta"])})
    monkeypatch.setattr(CIFAR100, "tgz_md5", md5(path.read_bytes()))
    arrays = find("cifar100", tmp_path).read(silent)
    assert arrays["images"].shape == (200, 32, 32, 3) and arrays["images"][150, 3, 3, 1] == 100
    assert arrays["labels"][142] == 42 and arrays["class_names"][42] == "class42"
    assert not (tmp_path / "cifar-100-python").exists()  # nothing is left beside the user's archive


@pytest.mark.parametrize("archive", [True, False])
def test_omniglot_in_zips_and_folders(write, tmp_path, archive):
    write.omniglot(archive)
    arrays = find("omniglot", tmp_path).read(silent)
    assert arrays["alphabet_names"].tolist() == ["Eta", "Zeta", "Alpha"]  # by name within each part
    assert arrays["alphabet"].tolist() == [0] * 4 + [1] * 6 + [2] * 4
    assert arrays["labels"].tolist() == [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1]
    assert arrays["drawer"].tolist() == [0, 1] * 7
    # 15 pixels of 105 are exactly 4 of 28: character 2, drawer 1 of Zeta is a full block of ink, the rest paper.
    expected = np.zeros((28, 28), np.uint8)
    expected[8:12, 4:8] = 255
    np.testing.assert_array_equal(arrays["images"][9], expected)


def test_omniglot_needs_both_parts_and_whole_pictures(write, tmp_path):
    write.omniglot()
    second = tmp_path / "omniglot-py" / "images_evaluation.zip"
    whole = second.read_bytes()
    second.write_bytes(whole[:-30])
    with pytest.raises(InputError, match=r"images_evaluation\.zip cannot be used because it is cut short"):
        find("omniglot", tmp_path).read(silent)
    second.unlink()
    assert find("omniglot", tmp_path) is None
    picture = tmp_path / "images_background" / "Eta" / "character01" / "01_01.png"
    picture.parent.mkdir(parents=True)
    Image.new("L", (28, 28)).save(picture)
    with pytest.raises(InputError, match=r"Eta/character01/01_01\.png is no 105×105 PNG"):
        read_omniglot([tmp_path / "images_background"])


@pytest.mark.parametrize("name", ["notMNIST_small.tar.gz", "notMNIST_large.tar", "notMNIST_small"])
def test_notmnist_counts_unreadable_pictures_and_reads_the_rest(write, tmp_path, name):
    if name == "notMNIST_small":
        with tarfile.open(write.notmnist("elsewhere.tar")) as archive:
            archive.extractall(tmp_path, members=[m for m in archive if ".." not in m.name], filter="data")
    else:
        write.notmnist(name)
    lines = []
    found = find("notmnist", tmp_path)
    arrays = found.read(lines.append)
    assert lines == [f"notmnist: skipped 2 unreadable images in {name}"]
    inside = arrays["images"][:, 0, 0] != 255  # without the picture that pretends to lie elsewhere
    letters = arrays["labels"][inside]
    assert letters.tolist() == sorted(list(range(10)) * 3)
    assert arrays["images"][inside][:4, 0, 0].tolist() == [65, 85, 105, 66]  # A of three fonts, then B
    assert len(set(arrays["font"][inside].tolist())) == 3
    assert not (tmp_path.parent / "escaped").exists() and not (tmp_path / "escaped").exists()


@pytest.mark.parametrize("share", [0.001, 0.2, 0.5, 0.8])
def test_notmnist_cut_short_is_named(write, share):
    path = write.notmnist()
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(InputError, match=r"notMNIST_small\.tar\.gz cannot be used because it is cut short"):
        read_notmnist(path, silent)
