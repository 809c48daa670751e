"""Where a data set comes from: the first of these that has it, each step told to the log.

1. A prepared `<name>.npz` in the data folder: --data-dir, else PYROCLAW_DATA, else ~/.cache/pyroclaw.
2. Raw files already on this machine (see `pyroclaw.data.local`).
3. A download (see `pyroclaw.data.remote`).
4. An embedded stand-in, under its own name, unless `data="real"`.

What steps 2 and 3 yield is prepared once: one process, the holder of a file lock, writes `<name>.npz`, and all others
wait and read it.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from filelock import FileLock

from pyroclaw.data.check import KNOWN, checked, class_problem
from pyroclaw.data.dataset import DataSet, without_duplicates
from pyroclaw.data.download import DownloadError
from pyroclaw.data.local import DEBIAN_FASHION, LAYOUT, Found, Log, find
from pyroclaw.data.npz import read_npz, write_npz
from pyroclaw.data.remote import download as download_files
from pyroclaw.data.standins import STANDIN_FOR, standin
from pyroclaw.errors import InputError, choose

NAMES = (*KNOWN, *STANDIN_FOR.values())


def to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def load(
    name: str,
    data_dir: Path | None = None,
    data: Literal["auto", "real"] = "auto",
    download: bool = True,
    log: Log = to_stderr,
) -> DataSet:
    """The data set `name` without pixel-identical images, from the first source that has it."""
    choose("data set", name, NAMES)
    if data not in ("auto", "real"):
        raise InputError(f"data must be 'auto' or 'real' (no stand-ins), not {data!r}.")
    if name in STANDIN_FOR.values():
        if data == "real":
            raise InputError(f"{name} is a stand-in, which --data real refuses: ask for {', '.join(KNOWN)}.")
        return _distinct(standin(name), log)
    folder = data_folder(data_dir)
    try:
        found = load_real(name, folder, download, log)
    except DownloadError as error:
        if data == "real" or name not in STANDIN_FOR:
            raise _missing(name, folder, str(error)) from error
        found = standin(STANDIN_FOR[name])
        log(f"{name}: real data not available ({error}); USING THE STAND-IN {found.name!r}: {found.source}")
    return _distinct(found, log)


def load_real(name: str, folder: Path, download: bool, log: Log) -> DataSet:
    """Steps 1 to 3; `DownloadError` says why the last of them failed."""
    path = folder / f"{name}.npz"
    if not path.exists():
        log(f"{name}: no prepared file {path}")
        with _locked(folder, name):
            if not path.exists():  # another process may have prepared it while this one waited
                return _prepare(name, folder, download, log)
    log(f"{name}: reading the prepared file {path}")
    return read_npz(path, name)


def _prepare(name: str, folder: Path, download: bool, log: Log) -> DataSet:
    if found := find(name, folder):
        log(f"{name}: preparing from {found.where}")
        return _keep(name, folder, found, found.what, log)
    log(f"{name}: no raw files {LAYOUT[name]} in {folder}{_debian(name, ' or ')}")
    if not download:
        raise DownloadError("download not asked for")
    received = folder / "downloads" / name
    try:
        download_files(name, received, log)
    except OSError as error:
        raise DownloadError(f"cannot write to {folder} ({error.strerror})") from error
    found = find(name, received)
    assert found is not None
    result = _keep(name, folder, found, f"downloaded {found.what}", log)
    if (folder / f"{name}.npz").exists():
        shutil.rmtree(received)
    return result


def _keep(name: str, folder: Path, found: Found, origin: str, log: Log) -> DataSet:
    """Read raw files and write the prepared file; where that cannot be written, the data are used all the same."""
    path = folder / f"{name}.npz"
    arrays = {**found.read(log), "origin": np.array(origin)}
    result = checked(name, arrays, f"{origin}, prepared as {path.name} in the data folder", found.where)
    try:
        write_npz(path, arrays)
        log(f"{name}: prepared {path} with {len(result)} images")
    except OSError as error:
        log(f"{name}: {path} could not be written ({error.strerror}); the next run must read {found.where} again")
    return result


def _distinct(data: DataSet, log: Log) -> DataSet:
    distinct = without_duplicates(data)
    log(f"{data.name}: {len(distinct)} images, {len(data) - len(distinct)} pixel-identical ones removed")
    if problem := class_problem(data.name, {"labels": distinct.labels, **distinct.extras}):
        raise InputError(f"{data.name}: without pixel-identical images {problem}: replace the {data.source}.")
    return distinct


@contextlib.contextmanager
def _locked(folder: Path, name: str) -> Iterator[None]:
    """One process at a time prepares a data set."""
    with contextlib.ExitStack() as stack:
        # Where the folder cannot be written, or its file system knows no locks, each process reads for itself.
        with contextlib.suppress(OSError, NotImplementedError):
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(folder / f".{name}.lock"))
        yield


def data_folder(data_dir: Path | None) -> Path:
    """The folder asked for, else that of PYROCLAW_DATA, else one in the user's cache; one that was named must exist."""
    named = data_dir or os.environ.get("PYROCLAW_DATA")
    if not named:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyroclaw"
    folder = Path(named).expanduser()
    if not folder.is_dir():
        asked = "--data-dir" if data_dir else "PYROCLAW_DATA"
        raise InputError(f"{asked} names {folder}, which is no folder: create it or name another.")
    return folder


def _debian(name: str, before: str) -> str:
    return f"{before}{DEBIAN_FASHION}" if name == "fashion_mnist" else ""


def _missing(name: str, folder: Path, why: str) -> InputError:
    debian = ", `apt install dataset-fashion-mnist`" if name == "fashion_mnist" else ""
    return InputError(
        f"no data for {name}: looked for {name}.npz and {LAYOUT[name]} in {folder}{_debian(name, ', for ')}, and "
        f"nothing was downloaded ({why}); provide it by `python experiments/data.py prepare {name}` "
        f"with a network{debian}, or --data-dir FOLDER with {name}.npz."
    )
