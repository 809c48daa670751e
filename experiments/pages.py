"""Pages that are made from records: written whole or not at all, or between the marks of a page that people write."""

import os
import tempfile
from pathlib import Path

from pyroclaw.errors import InputError

END = "<!-- end -->"


def write(path: Path, text: str) -> None:
    """By atomic replace: readers see the old file or the new one, never a part."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            file.write(text)
        os.chmod(file.name, 0o644)  # a temporary file is its owner's alone
        os.replace(file.name, path)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}): name another file") from error


def put_between(path: Path, maker: str, text: str) -> None:
    """Put what `maker`, a file of experiments/, made between its mark in a page and the next end."""
    mark = f"<!-- made by experiments/{maker} -->"
    try:
        before, begin, rest = path.read_text(encoding="utf-8").partition(mark)
    except OSError as error:
        raise InputError(f"--into {path} cannot be read ({error.strerror}): name a file that has the marks") from error
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"--into {path} has no marks {mark} and {END}: put them where the tables belong")
    write(path, f"{before}{mark}\n\n{text}\n\n{END}{after}")
