"""Where to compute."""

import torch

from pyroclaw.errors import InputError


def find_device(name: str | torch.device) -> torch.device:
    """The device of that name; "auto" takes a GPU if there is one.

    >>> find_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
        torch.Generator(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"device={str(name)!r} cannot be used ({reason}): use 'cpu' or 'auto'") from error
    return device
