"""The order of the sources, preparation once for all, and the sentences where nothing is found."""

import subprocess
import sys
import time

import numpy as np
import pytest
from torchvision import datasets

from pyroclaw.data import load, remote, sources
from pyroclaw.data.npz import read_npz, write_npz
from pyroclaw.data.remote import Remote
from pyroclaw.errors import InputError

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def lines():
    return []


def prepared(folder, name="mnist", n=20):
    arrays = {"images": np.random.randint(0, 256, (n, 28, 28), np.uint8), "labels": np.arange(n) % 10}
    write_npz(folder / f"{name}.npz", arrays)
    return arrays


def test_the_prepared_file_comes_first(tmp_path, write, lines):
    write.idx("MNIST/raw")
    arrays = prepared(tmp_path)
    data = load("mnist", tmp_path, log=lines.append)
    np.testing.assert_array_equal(data.images, arrays["images"])
    assert data.source == "prepared file mnist.npz in the data folder"
    assert lines == [
        f"mnist: reading the prepared file {tmp_path / 'mnist.npz'}",
        "mnist: 20 images, 0 pixel-identical ones removed",
    ]


def test_the_folder_may_come_from_the_environment_and_the_argument_wins(tmp_path, monkeypatch):
    for folder, n in (("environment", 20), ("argument", 30)):
        (tmp_path / folder).mkdir()
        prepared(tmp_path / folder, n=n)
    monkeypatch.setenv("PYROCLAW_DATA", str(tmp_path / "environment"))
    assert len(load("mnist", log=lambda line: None)) == 20
    assert len(load("mnist", tmp_path / "argument", log=lambda line: None)) == 30


def test_without_a_named_folder_the_users_cache_is_used(tmp_path):
    assert sources.data_folder(None) == tmp_path / "cache" / "pyroclaw"


def test_a_named_folder_must_exist(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"--data-dir names .*absent, which is no folder"):
        load("mnist", tmp_path / "absent")
    monkeypatch.setenv("PYROCLAW_DATA", str(tmp_path / "absent"))
    with pytest.raises(InputError, match=r"PYROCLAW_DATA names .*absent, which is no folder"):
        load("mnist")


def test_raw_files_are_prepared_once(tmp_path, write, lines):
    images, _ = write.idx("MNIST/raw")
    first = load("mnist", tmp_path, log=lines.append)
    assert f"mnist: preparing from {tmp_path / 'MNIST/raw'}" in lines
    (tmp_path / "MNIST/raw/train-images-idx3-ubyte.gz").unlink()
    second = load("mnist", tmp_path, log=lines.append)
    np.testing.assert_array_equal(second.images, images)
    assert first.source == second.source == "idx files MNIST/raw, prepared as mnist.npz in the data folder"
    assert second.extras["official_test"].sum() == 10


def test_every_raw_format_passes_through(tmp_path, write):
    write.cifar_binary()
    write.notmnist()
    write.omniglot()
    write.idx("FashionMNIST/raw")
    sizes = {name: len(load(name, tmp_path, "real", log=lambda line: None)) for name in
             ("fashion_mnist", "notmnist", "omniglot", "cifar100")}  # fmt: skip
    assert sizes == {"fashion_mnist": 40, "notmnist": 31, "omniglot": 14, "cifar100": 300}


def test_a_folder_that_cannot_be_written_still_serves(tmp_path, write, lines, monkeypatch):
    write.idx("MNIST/raw")

    def refuse(path, arrays):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sources, "write_npz", refuse)
    assert len(load("mnist", tmp_path, "real", log=lines.append)) == 40
    assert [line for line in lines if "could not be written (Permission denied)" in line]


def test_duplicates_are_removed_and_counted(tmp_path, lines):
    arrays = prepared(tmp_path, n=30)
    arrays["images"][25:] = arrays["images"][:5]
    write_npz(tmp_path / "mnist.npz", arrays)
    assert len(load("mnist", tmp_path, log=lines.append)) == 25
    assert lines[-1] == "mnist: 25 images, 5 pixel-identical ones removed"


def test_a_class_whose_images_all_equal_others_is_named(tmp_path):
    arrays = prepared(tmp_path, n=20)
    arrays["images"][[7, 17]] = arrays["images"][0]
    write_npz(tmp_path / "mnist.npz", arrays)
    with pytest.raises(InputError, match="without pixel-identical images there is no image of class 7"):
        load("mnist", tmp_path, log=lambda line: None)


def test_a_bad_prepared_file_is_an_error_and_not_passed_over(tmp_path, write):
    write.idx("MNIST/raw")
    (tmp_path / "mnist.npz").write_bytes(b"PK half a file")
    with pytest.raises(InputError, match=r"mnist\.npz cannot be used"):
        load("mnist", tmp_path, log=lambda line: None)


def test_notmnist_is_downloaded_prepared_and_tidied_up(tmp_path, write, server, md5, lines, monkeypatch):
    path = write.notmnist("away.tar.gz")
    server.files["notMNIST_small.tar.gz"], server.faults = path.read_bytes(), [500, "cut"]
    here = Remote((server.address("notMNIST_small.tar.gz"),), "notMNIST_small.tar.gz", md5(path.read_bytes()))
    monkeypatch.setattr(remote, "NOTMNIST", here)
    path.unlink()
    data = load("notmnist", tmp_path, "real", log=lines.append)
    assert data.source == "downloaded notMNIST_small, prepared as notmnist.npz in the data folder"
    assert len(read_npz(tmp_path / "notmnist.npz", "notmnist")) == 31
    assert not (tmp_path / "downloads" / "notmnist").exists()
    requests = len(server.ranges)
    load("notmnist", tmp_path, "real", log=lines.append)
    assert len(server.ranges) == requests == 3


def test_mnist_is_downloaded_from_torchvisions_mirrors_by_its_checksums(tmp_path, write, server, md5, monkeypatch):
    images, _ = write.idx("away")
    contents = {path.name: path.read_bytes() for path in (tmp_path / "away").iterdir()}
    server.files = contents
    monkeypatch.setattr(datasets.MNIST, "mirrors", ["http://127.0.0.1:9/", server.address()])
    monkeypatch.setattr(datasets.MNIST, "resources", [(name, md5(content)) for name, content in contents.items()])
    data = load("mnist", tmp_path, "real", log=lambda line: None)
    np.testing.assert_array_equal(data.images, images)


def test_omniglot_is_downloaded_from_where_torchvision_takes_it(tmp_path, write, server, md5, monkeypatch):
    write.omniglot()
    contents = {path.name: path.read_bytes() for path in (tmp_path / "omniglot-py").iterdir()}
    server.files = contents
    (tmp_path / "omniglot-py").rename(tmp_path / "away")
    monkeypatch.setattr(datasets.Omniglot, "download_url_prefix", server.address().rstrip("/"))
    checksums = {name.removesuffix(".zip"): md5(content) for name, content in contents.items()}
    monkeypatch.setattr(datasets.Omniglot, "zips_md5", checksums)
    assert load("omniglot", tmp_path, "real", log=lambda line: None).images.shape[1:] == (28, 28)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "notmnist", "omniglot", "cifar100"])
def test_every_set_has_addresses_checksums_and_the_layout_that_is_read(tmp_path, name):
    for file in remote.files(name):
        assert all(address.startswith("http") and address.endswith("z" if "gz" in file.place else "p")
                   for address in file.addresses)  # fmt: skip
        assert len(file.md5) == 32
        (tmp_path / file.place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.place).touch()
    assert sources.find(name, tmp_path) is not None


def test_a_server_out_of_order_leads_to_the_stand_in(tmp_path, server, md5, lines, monkeypatch):
    monkeypatch.setattr(datasets.MNIST, "mirrors", [server.address()])
    assert load("mnist", tmp_path, log=lines.append).standin
    assert "answered 404" in "".join(lines)


def test_no_network_is_noticed_within_seconds(tmp_path, lines):
    start = time.monotonic()
    assert load("mnist", tmp_path, log=lines.append).name == "digits"
    assert time.monotonic() - start < 5
    assert [line.split(": ")[1].split(" ")[0] for line in lines] == ["no", "no", "real", "1797"]


def test_what_is_missing_is_one_sentence_with_the_commands_that_help(tmp_path):
    with pytest.raises(InputError) as raised:
        load("fashion_mnist", tmp_path, log=lambda line: None)
    for words in ("looked for fashion_mnist.npz and FashionMNIST/raw in", str(tmp_path), "debian",
                  "`python experiments/data.py prepare fashion_mnist`", "`apt install dataset-fashion-mnist`",
                  "--data-dir FOLDER"):  # fmt: skip
        assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_unknown_names_and_kinds_of_data_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"unknown data set 'MINST': did you mean mnist\? known are mnist, "):
        load("MINST", tmp_path)
    with pytest.raises(InputError, match="data must be 'auto' or 'real'"):
        load("mnist", tmp_path, data="fake")


PREPARE = """
import sys, time
from pathlib import Path
from pyroclaw.data import load, npz, sources
folder = Path(sys.argv[1])
write = sources.write_npz
def slow(path, arrays):
    time.sleep(0.3)  # both processes are here at once unless the lock keeps one of them out
    write(path, arrays)
sources.write_npz = slow
(folder / f"here{sys.argv[2]}").touch()
while len(list(folder.glob("here*"))) < 2:
    time.sleep(0.01)
print(len(load("mnist", folder, "real")))
"""


def test_two_processes_at_once_prepare_one_good_file(tmp_path, write):
    images, _ = write.idx("MNIST/raw")
    both = [
        subprocess.Popen([sys.executable, "-c", PREPARE, str(tmp_path), str(i)], stdout=-1, stderr=-1, text=True)
        for i in range(2)
    ]
    outputs = [process.communicate(timeout=60) for process in both]
    assert [output for output, _ in outputs] == ["40\n", "40\n"]
    logs = "".join(log for _, log in outputs)
    assert logs.count("mnist: prepared ") == 1 and logs.count("reading the prepared file") == 1
    np.testing.assert_array_equal(read_npz(tmp_path / "mnist.npz", "mnist").images, images)
    assert not list(tmp_path.glob(".*.part"))
