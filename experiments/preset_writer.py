"""Put a method's table into a preset: the rest of the file stays as it is, comments and all."""

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyroclaw.errors import InputError

HEADER = re.compile(r"^\s*\[")


def put(path: Path, method: str, values: Mapping[str, Any], comment: str) -> None:
    """Replace or append the table, by atomic replace of the file.

    :param comment: one line, that goes above the values.
    """
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        after = with_table(before, method, values, comment)
        _check(path, method, values, before, after)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            try:
                file.write(after)
                file.flush()
                os.fsync(file.fileno())
                if path.exists():
                    os.chmod(file.name, path.stat().st_mode)
                os.replace(file.name, path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise InputError(f"--write-presets: {path} cannot be written ({error.strerror}); make it writable") from error


def with_table(text: str, method: str, values: Mapping[str, Any], comment: str) -> str:
    """The text with this table in place of the one of that name, or at the end.

    What follows the last value of the old table, blank lines and comments, belongs to the next one.

    >>> print(with_table("[a]\\nx = 1\\n\\n# of b\\n[b]\\ny = 2\\n", "a", {"x": 0.5}, "better"), end="")
    [a]
    # better
    x = 0.5
    <BLANKLINE>
    # of b
    [b]
    y = 2
    """
    table = [f"[{method}]", f"# {comment}", *(f"{name} = {_literal(value)}" for name, value in values.items())]
    lines = text.splitlines()
    header = re.compile(rf"^\s*\[\s*{re.escape(method)}\s*\]")
    start = next((k for k, line in enumerate(lines) if header.match(line)), None)
    if start is None:
        return "\n".join([*lines, *([""] if lines else []), *table]) + "\n"
    end = next((k for k in range(start + 1, len(lines)) if HEADER.match(lines[k])), len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return "\n".join([*lines[:start], *table, *lines[end:]]) + "\n"


def _literal(value: Any) -> str:
    """A setting as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _check(path: Path, method: str, values: Mapping[str, Any], before: str, after: str) -> None:
    """Edited text must mean what the old one did, but for the table; a file of an unusual form may not allow it."""
    try:
        meant = {**tomllib.loads(before), method: dict(values)}
        same = tomllib.loads(after) == meant
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise InputError(f"--write-presets: {path.name} is written in a way that is not understood; edit it by hand")
