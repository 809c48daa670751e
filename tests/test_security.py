"""Nothing that is read from outside is run, unpickled, or written where it pleases."""

import ast
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pyroclaw.data.pictures import read_notmnist, read_omniglot
from pyroclaw.data.raw import CIFAR_NAMES, CIFAR_RECORD, read_cifar_binary

ROOT = Path(__file__).parents[1]
SOURCES = [
    path
    for folder in ("pyroclaw", "inference", "models", "learner", "experiments")
    for path in (ROOT / folder).rglob("*.py")
]
MODULES = {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "shelve", "marshal", "yaml"}
CALLS = {"eval", "exec", "os.system", "os.popen", "torch.load", "extractall", "extract", "unpack_archive"}


def name_of(node):
    if isinstance(node, ast.Attribute):
        before = name_of(node.value)
        return f"{before}.{node.attr}" if before else node.attr
    return node.id if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_file_unpickles_evaluates_or_calls_a_shell(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not imported & MODULES
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = name_of(call.func)
        assert name not in CALLS and name.split(".")[-1] not in CALLS - {"eval"}, f"line {call.lineno}: {name}"
        words = {word.arg: word.value for word in call.keywords}
        assert not isinstance(words.get("shell"), ast.Constant), f"line {call.lineno}: shell"
        if "allow_pickle" in words:
            assert words["allow_pickle"].value is False, f"line {call.lineno}"


def picture(side):
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(side).integers(0, 256, (side, side), dtype=np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def tar(path, members, links=()):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return path


def files(folder):
    return {path.relative_to(folder) for path in folder.rglob("*")}


@pytest.mark.parametrize("evil", ["../../{}", "/tmp/../{}", "a/../../{}", "{}"])
def test_a_malicious_tar_of_letters_writes_nothing(tmp_path, evil, monkeypatch):
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    names = {evil.format("A/evil.png"): picture(28), "notMNIST_small/B/good.png": picture(28)}
    path = tar(inside / "notMNIST_small.tar.gz", names, [("notMNIST_small/C/link.png", "/etc/hostname")])
    before = files(tmp_path)
    found = read_notmnist(path, log=lambda text: None)
    assert files(tmp_path) == before and not Path("/tmp/A/evil.png").exists()
    assert found["labels"].tolist() == [0, 1]  # read as pictures wherever they say they belong; a link is none


def test_a_malicious_tar_of_cifar_writes_nothing(tmp_path, monkeypatch):
    inside = tmp_path / "a"
    inside.mkdir()
    monkeypatch.chdir(inside)
    record = bytes(CIFAR_RECORD)
    names = {"../train.bin": record, "../../test.bin": record, f"/{CIFAR_NAMES}": b"apple", "../evil.sh": b"#!/bin/sh"}
    path = tar(inside / "cifar-100-binary.tar.gz", names, [("../link", "/etc")])
    before = files(tmp_path)
    assert len(read_cifar_binary(path)["images"]) == 2
    assert files(tmp_path) == before


def test_a_malicious_zip_writes_nothing(tmp_path, monkeypatch):
    inside = tmp_path / "a"
    inside.mkdir()
    monkeypatch.chdir(inside)
    with zipfile.ZipFile(inside / "images_background.zip", "w") as archive:
        archive.writestr("../../Greek/character01/0001_01.png", picture(105))
        archive.writestr("../evil.txt", "x")
    before = files(tmp_path)
    assert len(read_omniglot([inside / "images_background.zip"])["images"]) == 1
    assert files(tmp_path) == before
