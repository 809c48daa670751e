"""Memory of a long run on a CPU: freed tensors are kept for the next ones, and what no longer fits is given back.

A step allocates and frees hundreds of tensors of many sizes. glibc returns each large one to the system at once, and
the next must be had page by page and cleared: up to two fifths of the time of a convolutional net. So it is told to
keep them. But over many steps the kept pieces fit less and less, and the process grows although its tensors do not, so
every so many steps it is asked to return all free pages.
"""

import ctypes
from functools import cache

EVERY = 100  # steps between two returns, each of which takes about as long as a tenth of a step
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # of glibc's malloc.h


@cache
def _glibc() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") else None


def keep_freed_memory() -> None:
    """Serve tensors of every size from the heap, and keep its end; a setting of the whole process."""
    if library := _glibc():
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        library.mallopt(M_TOP_PAD, 2**26)


def release_memory(step: int) -> None:
    """Return free pages to the system, every so many steps."""
    if step % EVERY == 0 and (library := _glibc()):
        library.malloc_trim(0)
