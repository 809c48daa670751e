"""Elementwise work on millions of weights, piece by piece.

A formula of ten operations passes ten times over its tensors. On a CPU each pass over all weights of a net goes to
memory and back; over a piece that fits in the cache it does not.
"""

from collections.abc import Iterator

from torch import Tensor

CHUNK = 131072  # elements a piece: smaller ones would not be shared between threads


def chunks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Matching pieces of contiguous tensors of one shape, as views: what is written to them is written to the tensors.

    On other devices there is one piece, the whole.
    """
    flat = [tensor.view(-1) for tensor in tensors]
    if flat[0].device.type != "cpu" or flat[0].numel() <= CHUNK:
        return iter([tuple(flat)])
    return zip(*(tensor.split(CHUNK) for tensor in flat), strict=True)
