"""The one error a user is meant to read."""


class InputError(ValueError):
    """Something the user gave is wrong: one sentence that names the file or argument, and the remedy.

    Command lines print the sentence and exit with code 2; no traceback is shown.
    """
