"""Points that stand for a task's data: the coresets of VCL (Nguyen et al. 2018), random or by k-center.

k-center looks for k of n points such that every point has one of them near. The greedy way (Gonzalez 1985) takes at
each step the point farthest from those taken before:

    next = argmax_i min_{c taken} ‖x_i - c‖

Its largest distance from a point to the nearest centre is at most twice the smallest possible.
"""

from typing import Literal

import torch
from torch import Tensor

from pyroclaw.data.part import Part
from pyroclaw.errors import InputError
from pyroclaw.streams import Streams


def k_center(points: Tensor, k: int, first: int) -> Tensor:
    """Indices [k] of greedy centres among `points` [n, d], beginning with `first`; ties go to the lowest index.

    >>> k_center(torch.tensor([[0.0], [1.0], [5.0], [9.0]]), 3, first=0).tolist()
    [0, 3, 2]
    """
    if not 1 <= k <= len(points):
        raise InputError(f"k={k} centres cannot be chosen from {len(points)} points: take k from 1 to their number")
    squares = points.square().sum(1)
    rounding = 8 * points.shape[1] * torch.finfo(points.dtype).eps  # at most, of all sums below, in units of squares
    chosen = [torch.tensor(first, device=points.device)]
    nearest = points.new_full((len(points),), torch.inf)  # squared distance to the nearest centre
    while len(chosen) < k:
        last = chosen[-1]
        # ‖x‖² + ‖c‖² - 2 x·c is quick but rounds small distances away: it only tells who may have come nearer
        least = (squares + squares[last]) * (1 - rounding) - 2 * (points @ points[last])
        may = (least < nearest).nonzero()[:, 0]
        nearest[may] = torch.minimum(nearest[may], points[may].sub_(points[last]).square_().sum(1))
        nearest[last] = -1  # less than any distance, so that no duplicate makes it come again
        chosen.append(nearest.argmax())
    return torch.stack(chosen)


def choose(part: Part, k: int, how: Literal["k-center", "random"], streams: Streams) -> Tensor:
    """Positions [R, k] of images of each replicate, for `Part.take` and `Part.drop`.

    Distances are those of the plain pictures; a permutation of the pixels does not change them. At most half of the
    images of the smallest replicate are chosen, so that the larger half is left to train on.

    :param streams: the random choice, or the first centre.
    """
    sizes = [size // part.fold for size in part.sizes]
    if k < 1 or min(sizes) < 2:
        raise InputError(
            f"no coreset of k={k} can be chosen from {min(sizes)} images: take k >= 1 and 2 images or more"
        )
    k = min(k, min(sizes) // 2)
    chosen = []
    for replicate, size in enumerate(sizes):
        order = streams.permutation(replicate, size).to(part.rows.device)
        if how == "random":
            chosen.append(order[:k])
        else:
            points = part.images[part.image_rows(replicate)].flatten(1).to(torch.float32)
            chosen.append(k_center(points, k, int(order[0])))
    return torch.stack(chosen)
