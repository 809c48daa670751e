"""The one error a user is meant to read."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Something the user gave is wrong: one sentence that names the file or argument, and the remedy.

    Command lines print the sentence and exit with code 2; no traceback is shown.
    """


def choose(kind: str, name: str, known: Iterable[str]) -> str:
    """The name if it is known; otherwise a sentence with the known names and the nearest.

    >>> choose("benchmark", "split_mnist", ["split_mnist"])
    'split_mnist'
    """
    known = list(known)
    if name in known:
        return name
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}? " if near else ""
    raise InputError(f"unknown {kind} {name!r}: {hint}known are {', '.join(known)}")
