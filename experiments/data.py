"""List the data sets and their state, or prepare one.

python experiments/data.py                     every data set with its state
python experiments/data.py prepare NAME        make NAME.npz in the data folder, from raw files or a download
python experiments/data.py --data-dir FOLDER   the same for another data folder
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.table import Table

from pyroclaw.data import remote
from pyroclaw.data.check import KNOWN
from pyroclaw.data.download import reachable
from pyroclaw.data.local import find
from pyroclaw.data.npz import member_shapes
from pyroclaw.data.sources import NAMES, data_folder, load, to_stderr
from pyroclaw.data.standins import STANDIN_FOR, size
from pyroclaw.errors import InputError, choose

COLOURS = {"ready": "green", "on this machine": "green", "downloadable": "cyan", "embedded": "yellow"}


@dataclass(frozen=True)
class Arguments:
    """List every data set with its state, or prepare one of them."""

    command: tyro.conf.Positional[Literal["list", "prepare"]] = "list"
    """What to do."""
    name: tyro.conf.Positional[str] = ""
    """The data set to prepare."""
    data_dir: Path | None = None
    """The data folder; without it that of PYROCLAW_DATA, else ~/.cache/pyroclaw."""


def main(argv: list[str] | None = None) -> int:
    arguments = tyro.cli(Arguments, args=argv)
    try:
        if arguments.command == "prepare":
            prepare(arguments.name, arguments.data_dir)
        else:
            show(data_folder(arguments.data_dir))
    except InputError as error:
        to_stderr(str(error))
        return 2
    return 0


def prepare(name: str, data_dir: Path | None) -> None:
    """Make `<name>.npz` in the data folder, which is created if need be."""
    if not name:
        raise InputError(f"prepare needs the name of a data set: {', '.join(KNOWN)}.")
    choose("data set", name, NAMES)
    if name not in KNOWN:
        print(f"{name} is embedded: there is nothing to prepare.")
        return
    if data_dir is not None:
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--data-dir {data_dir} cannot be created ({error.strerror}): name another.") from error
    data = load(name, data_dir, data="real")
    print(f"{name} is ready: {len(data)} images, {data.source}.")


def show(folder: Path) -> None:
    """The table of all data sets."""
    addresses = {name: [address for file in remote.files(name) for address in file.addresses] for name in KNOWN}
    answering = set(reachable(address for each in addresses.values() for address in each))
    table = Table(title=f"Data folder {folder}", title_justify="left")
    for heading in ("data set", "state", "images", "where"):
        table.add_column(heading, justify="right" if heading == "images" else "left", overflow="fold")
    rows = [(name, *state_of(name, folder, [each for each in addresses[name] if each in answering])) for name in KNOWN]
    rows += [(name, *state_of_standin(real, name)) for real, name in STANDIN_FOR.items()]
    for name, state, images, where in rows:
        table.add_row(name, f"[{COLOURS.get(state, 'red')}]{state}[/]", images, where)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def state_of(name: str, folder: Path, answering: list[str]) -> tuple[str, str, str]:
    """State, number of images and place of one data set; the first source that `load` would take."""
    path = folder / f"{name}.npz"
    if path.exists():
        try:
            return "ready", f"{member_shapes(path)['images'][0]:,}", path.name
        except Exception:  # whatever a damaged file raises; `prepare` tells the user what is wrong with it
            return "damaged", "", f"{path.name}: replace or delete it"
    if found := find(name, folder):
        return "on this machine", "not counted", str(found.where)
    if answering:
        return "downloadable", f"{KNOWN[name].images:,}", answering[0].split("/")[2]
    served = f"; the stand-in {STANDIN_FOR[name]} serves unless --data real" if name in STANDIN_FOR else ""
    return "missing", "", f"not in the data folder, and its server does not answer{served}"


def state_of_standin(real: str, name: str) -> tuple[str, str, str]:
    try:
        return "embedded", f"{size(name):,}", f"stand-in for {real} where that is missing"
    except Exception:  # as above
        return "damaged", "", "install pyroclaw anew"


if __name__ == "__main__":
    sys.exit(main())
