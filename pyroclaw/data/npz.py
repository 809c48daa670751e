"""The prepared file `<name>.npz`: read with every check, written whole or not at all.

The format is numpy's: a zip archive with one `.npy` member a key (see `pyroclaw.data.check` for the keys). Nothing is
ever unpickled. Before numpy reads a member, its header must agree with the size that the zip directory declares, and
the sum of these sizes must stay under a limit, so that a small hostile file cannot ask for all memory.
"""

import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pyroclaw.data.check import checked, unusable
from pyroclaw.data.dataset import DataSet
from pyroclaw.errors import InputError

LIMIT = 4 * 1024**3  # bytes unpacked; notMNIST_large, the greatest set of all, has 0.4 GB


def read_npz(path: Path, name: str, source: str | None = None, standin: bool = False) -> DataSet:
    """The data set `name` in the prepared file at `path`.

    Its `source` line, where none is given, tells the origin that the file records, but no folder of this machine.
    """
    if not path.exists():
        raise unusable(path, "it does not exist", name)
    arrays = _arrays(path, name)
    return checked(name, arrays, source or _source(path, arrays), path, standin)


def _source(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    origin = arrays.get("origin")
    described = f"{origin}, prepared as" if origin is not None else "prepared file"
    return f"{described} {path.name} in the data folder"


def _arrays(path: Path, name: str) -> dict[str, np.ndarray]:
    try:
        member_shapes(path)
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except InputError as error:
        raise unusable(path, str(error), name) from None
    except Exception as error:  # a damaged archive can raise almost anything from zipfile, zlib, ast or numpy
        detail = str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
        raise unusable(path, f"it is damaged or no .npz file ({detail})", name) from error


def member_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every array in the file, by reading headers only."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > LIMIT:
            raise InputError(f"it would unpack to more than {LIMIT // 1024**3} GB")
        return {member.filename.removesuffix(".npy"): _shape(archive, member) for member in members}


def _shape(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[int, ...]:
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise InputError(f"its member {member.filename!r} has the unknown .npy version {version}")
        if dtype.hasobject:
            raise InputError(f"its member {member.filename!r} holds Python objects, which are never unpickled")
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != member.file_size - stream.tell():
            raise InputError(f"its member {member.filename!r} is not as long as its header says")
        return shape


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write to a neighbouring file, then replace: a reader sees the old file, the new one, or none.

    The caller holds the lock of this data set, so one fixed name is enough, and the next try writes over what a
    killed process left.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
