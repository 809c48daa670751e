"""The command that lists and prepares data sets."""

import gzip

import numpy as np
import pytest

from pyroclaw.data import download, local
from pyroclaw.experiments.data import main


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.delenv("PYROCLAW_DATA", raising=False)
    monkeypatch.setattr(local, "DEBIAN_FASHION", tmp_path / "debian")
    monkeypatch.setattr(download, "_answers", {})
    monkeypatch.setattr(download, "_ask", lambda server: None)


def idx(folder):
    folder.mkdir(parents=True)
    for stem in ("train", "t10k"):
        images = np.random.randint(0, 256, (10, 28, 28), np.uint8).tobytes()
        header = np.array([10, 28, 28], ">u4").tobytes()
        (folder / f"{stem}-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x03" + header + images))
        (folder / f"{stem}-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(b"\0\0\x08\x01\0\0\0\x0a" + bytes(range(10)))
        )


def rows(text):
    """Data set -> the other cells of its row."""
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line[:1] == "│"]
    return {row[0]: row[1:] for row in cells if row[0]}


def test_the_table_tells_the_state_of_every_set(tmp_path, capsys, monkeypatch):
    idx(tmp_path / "MNIST/raw")
    np.savez(tmp_path / "fashion_mnist.npz", images=np.zeros((12, 28, 28), np.uint8), labels=np.zeros(12, int))
    (tmp_path / "notmnist.npz").write_text("no archive")
    monkeypatch.setattr(download, "_answers", {"https://www.cs.toronto.edu/": True})
    assert main(["--data-dir", str(tmp_path)]) == 0
    table = rows(capsys.readouterr().out)
    assert table["mnist"][0] == "on this machine"
    assert table["fashion_mnist"] == ["ready", "12", "fashion_mnist.npz"]
    assert table["notmnist"][0] == "damaged"
    assert table["omniglot"][0] == "missing"
    assert table["cifar100"] == ["downloadable", "60,000", "www.cs.toronto.edu"]
    assert table["digits"][:2] == ["embedded", "1,797"]
    assert "stand-in for mnist" in table["digits"][2]
    assert "glyphs" in table


def test_prepare_makes_the_file_and_the_table_shows_it(tmp_path, capsys):
    idx(tmp_path / "new" / "MNIST/raw")
    assert main(["prepare", "mnist", "--data-dir", str(tmp_path / "new")]) == 0
    assert "mnist is ready: 20 images, idx files MNIST/raw" in capsys.readouterr().out
    assert main(["--data-dir", str(tmp_path / "new")]) == 0
    assert rows(capsys.readouterr().out)["mnist"] == ["ready", "20", "mnist.npz"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prepare", "minst"], "did you mean mnist?"),
        (["prepare"], "prepare needs the name of a data set: mnist, "),
        (["prepare", "omniglot"], "no data for omniglot"),
        (["prepare", "mnist"], "no data for mnist"),  # a stand-in does not count as prepared
    ],
)
def test_errors_are_one_sentence_and_exit_code_2(tmp_path, capsys, arguments, words):
    assert main([*arguments, "--data-dir", str(tmp_path / "created")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and words in captured.err.splitlines()[-1]
    assert "Traceback" not in captured.err


def test_a_folder_that_cannot_be_is_named(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["--data-dir", str(tmp_path / "file")]) == 2
    assert main(["prepare", "mnist", "--data-dir", str(tmp_path / "file")]) == 2
    assert all("name another" in line for line in capsys.readouterr().err.splitlines())


def test_a_stand_in_needs_no_preparation(capsys):
    assert main(["prepare", "digits"]) == 0
    assert "nothing to prepare" in capsys.readouterr().out
