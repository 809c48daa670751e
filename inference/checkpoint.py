"""Checkpoints on disk: safetensors for the numbers, JSON for all else, and always the one before as well.

    FOLDER/state-7.safetensors    the tensors
           state-7.json           format version, checksums, what it is a state of, and the tree of the state
           state-6.*              the one before, until state-8 is there

Each file is written under another name, synced and put in place by an atomic replace; the JSON comes last and names
the checksum of the tensors. So a kill at any moment, also during a write, leaves whole checkpoints only: a tensors file
without its JSON does not count. A checkpoint that is damaged, or of something else, is named, and the one before used.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load, save
from torch import Tensor

from pyroclaw.errors import InputError

VERSION = 1
KEPT = 2  # checkpoints of a folder


class Saved(NamedTuple):
    """What a checkpoint holds."""

    state: Any  # JSON
    tensors: dict[str, Tensor]


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in one sentence what cannot be written."""
    try:
        yield
    except OSError as error:
        remedy = "make room or name another folder" if error.errno in (27, 28, 122) else "name another folder"
        raise InputError(f"{path} cannot be written ({error.strerror}): {remedy}; what was there is kept") from error


def replace_file(path: Path, content: bytes) -> None:
    """Write by atomic replace: readers see the old file or the new one, never a part."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


class Checkpoints:
    """The checkpoints of one folder.

    :param identity: of what they are states: JSON types. Those of anything else are foreign.
    :param say: told, in one sentence each, of checkpoints that cannot be used.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], say: Callable[[str], None] = lambda text: None):
        self.folder, self.identity, self.say = folder, json.loads(json.dumps(identity)), say

    def save(self, state: Any, tensors: Mapping[str, Tensor]) -> None:
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            numbers = self._numbers()
            path = self.folder / f"state-{max(numbers, default=0) + 1}.json"
            content = save(dict(tensors))
            replace_file(path.with_suffix(".safetensors"), content)
            body = {"identity": self.identity, "tensors": hashlib.sha256(content).hexdigest(), "state": state}
            head = {"format": "pyroclaw checkpoint", "version": VERSION, "checksum": _checksum(body)}
            replace_file(path, json.dumps(head | body, allow_nan=False).encode())
            kept = {f"state-{number}" for number in [*numbers, max(numbers, default=0) + 1][-KEPT:]}
            for old in [*self.folder.glob("state-*"), *self.folder.glob(".state-*")]:
                if old.stem not in kept:
                    old.unlink(missing_ok=True)

    def load(self) -> Saved | None:
        """The newest that can be used, or None."""
        for number in reversed(self._numbers()):
            path = self.folder / f"state-{number}.json"
            try:
                return self._read(path)
            except (InputError, OSError, ValueError, KeyError, TypeError) as error:
                reason = str(error) if isinstance(error, InputError) else f"it is damaged ({error})"
                self.say(f"the checkpoint {path} cannot be used: {reason}; the one before it is used, if there is one")
        return None

    def clear(self) -> None:
        """Remove them all."""
        with writing(self.folder):
            for path in [*self.folder.glob("state-*"), *self.folder.glob(".state-*")]:
                path.unlink(missing_ok=True)
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _numbers(self) -> list[int]:
        """Of the finished ones, rising."""
        stems = [path.stem.removeprefix("state-") for path in self.folder.glob("state-*.json")]
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def _read(self, path: Path) -> Saved:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict) or content.get("format") != "pyroclaw checkpoint":
            raise InputError("it is no checkpoint of pyroclaw")
        if content["version"] != VERSION:
            raise InputError(f"it has format version {content['version']}, this pyroclaw reads {VERSION}")
        body = {key: content[key] for key in ("identity", "tensors", "state")}
        if content["checksum"] != _checksum(body):
            raise InputError("it is damaged (its checksum is another)")
        if (identity := content["identity"]) != self.identity:
            other = sorted(key for key in {*identity, *self.identity} if identity.get(key) != self.identity.get(key))
            raise InputError(f"it belongs to something else (another {', '.join(other)})")
        stored = path.with_suffix(".safetensors").read_bytes()
        if hashlib.sha256(stored).hexdigest() != content["tensors"]:
            raise InputError("its tensors are damaged (their checksum is another)")
        return Saved(content["state"], load(stored))


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, allow_nan=False).encode()).hexdigest()
