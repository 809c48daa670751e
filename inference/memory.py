"""Giving freed memory back.

A step allocates and frees hundreds of tensors of many sizes. glibc keeps what is freed for later use, and over a long
run the pieces fit less and less: the process grows although its tensors do not. Asked to, it returns every free page.
"""

import ctypes
from functools import cache

EVERY = 100  # steps: asking takes about as long as a tenth of a step, and the pages must be had again


@cache
def _trim():
    return getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc has it


def release_memory(step: int) -> None:
    """Return free pages to the system, every so many steps."""
    if step % EVERY == 0 and _trim() is not None:
        _trim()(0)
