"""Checkpoints on disk: whole or not at all, and the one before where the last is not to be used."""

import errno
import json
import os
import subprocess
import sys

import pytest
import torch

from pyroclaw.errors import InputError
from pyroclaw.inference import checkpoint
from pyroclaw.inference.checkpoint import KEPT, Checkpoints

IDENTITY = {"run": "a", "seeds": [0, 1]}


@pytest.fixture
def two(tmp_path):
    """Two checkpoints, and what is said when they are read."""
    said = []
    checkpoints = Checkpoints(tmp_path / "kept", IDENTITY, said.append)
    for number in (1, 2):
        checkpoints.save({"step": number}, {"w": torch.full((3,), float(number))})
    return checkpoints, said


def test_the_last_is_read_and_the_one_before_is_kept(two):
    checkpoints, said = two
    checkpoints.save({"step": 3}, {"w": torch.full((3,), 3.0)})
    saved = checkpoints.load()
    assert saved.state == {"step": 3} and saved.tensors["w"].tolist() == [3.0] * 3 and said == []
    assert len(list(checkpoints.folder.iterdir())) == 2 * KEPT


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: flip(folder / "state-2.safetensors", -1), "tensors are damaged"),
        (lambda folder: (folder / "state-2.safetensors").write_bytes(b"short"), "tensors are damaged"),
        (lambda folder: (folder / "state-2.safetensors").unlink(), "it is damaged"),
        (lambda folder: flip(folder / "state-2.json", -3), "damaged"),
        (lambda folder: (folder / "state-2.json").write_text("[]"), "no checkpoint of pyroclaw"),
        (lambda folder: (folder / "state-2.json").write_bytes(b"\x80\x04K\x01."), "it is damaged"),
        (lambda folder: edit(folder / "state-2.json", version=99), "format version 99"),
        (lambda folder: edit(folder / "state-2.json", state={"step": 7}), "checksum"),
        (lambda folder: foreign(folder), "belongs to something else (another run)"),
    ],
)
def test_a_damaged_or_foreign_one_is_named_and_the_one_before_used(two, damage, reason):
    checkpoints, said = two
    damage(checkpoints.folder)
    assert checkpoints.load().state == {"step": 1}
    assert len(said) == 1 and "state-2.json" in said[0] and reason in said[0] and "\n" not in said[0]


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def foreign(folder):
    other = Checkpoints(folder.parent / "other", IDENTITY | {"run": "b"})
    other.save({"step": 9}, {})
    for suffix in ("json", "safetensors"):
        os.replace(folder.parent / "other" / f"state-1.{suffix}", folder / f"state-2.{suffix}")


def test_tensors_without_their_json_do_not_count(two):
    """As a kill between the two writes leaves them; and the rest of a write that was killed goes with the next one."""
    checkpoints, said = two
    (checkpoints.folder / "state-3.safetensors").write_bytes(b"anything")
    (checkpoints.folder / ".state-3.json.x7").write_bytes(b"half")
    assert checkpoints.load().state == {"step": 2} and said == []
    checkpoints.save({"step": 3}, {})
    assert checkpoints.load().state == {"step": 3}
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == [
        "state-2.json", "state-2.safetensors", "state-3.json", "state-3.safetensors",
    ]  # fmt: skip


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_or_a_read_only_folder_is_one_sentence_and_nothing_is_lost(two, monkeypatch, number, call):
    checkpoints, said = two

    def fail(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.os, call, fail)
        with pytest.raises(InputError, match=os.strerror(number)) as error:
            checkpoints.save({"step": 3}, {"w": torch.ones(3)})
    assert str(checkpoints.folder) in str(error.value) and "\n" not in str(error.value)
    assert checkpoints.load().state == {"step": 2} and said == []
    assert len(list(checkpoints.folder.iterdir())) == 4


def test_a_write_that_the_system_cuts_short(two):
    """A limit on the size of files, in a process of its own: the write really ends in the middle."""
    checkpoints, _ = two
    code = f"""
import resource, signal, torch
from pathlib import Path
from pyroclaw.errors import InputError
from pyroclaw.inference.checkpoint import Checkpoints
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    Checkpoints(Path({str(checkpoints.folder)!r}), {IDENTITY!r}).save(3, {{"w": torch.ones(100_000)}})
except InputError as error:
    raise SystemExit(str(error))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "make room" in done.stderr and "Traceback" not in done.stderr
    assert checkpoints.load().state == {"step": 2} and len(list(checkpoints.folder.iterdir())) == 4


def test_nothing_to_load(tmp_path):
    assert Checkpoints(tmp_path / "nowhere", IDENTITY).load() is None
