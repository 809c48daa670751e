"""The 20-fold augmentation of Omniglot's training images: rotations and shifts, made per batch on the device.

As in the Progress & Compress protocol every training image stands for 20 examples: variant 0 is the image itself,
variants 1 to 19 are turned by an angle drawn from ±30 degrees and moved by up to ±5 pixels each way. The draws are
made once from the repetition's seed, so a variant is the same picture in every epoch; only the three numbers of each
variant are kept, never the picture.

A pixel at q of the result shows the picture at  R(angle) (q - shift)  with bilinear interpolation, q measured from
the centre in half picture widths, which is `affine_grid`'s convention; what comes from outside the picture is 0.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

FOLD = 20
DEGREES = 30.0
PIXELS = 5.0


class Variants(NamedTuple):
    """Angle (radians) and shift (half widths, right and down) of each example: [R, examples, 3]; `fold` an image."""

    numbers: Tensor
    fold: int


def draw_variants(images: int, fold: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """The numbers [images * fold, 3] of one repetition; example i is variant i % fold of image i // fold."""
    reach = np.array([np.radians(DEGREES), 2 * PIXELS / width, 2 * PIXELS / width])
    numbers = rng.uniform(-1, 1, (images, fold, 3)) * reach
    numbers[:, 0] = 0
    return numbers.reshape(-1, 3).astype(np.float32)


def turn_and_shift(pictures: Tensor, numbers: Tensor) -> Tensor:
    """Square `pictures` [N, C, H, H], each turned and moved by its row of `numbers` [N, 3]."""
    angle, right, down = numbers.unbind(-1)
    cos, sin = angle.cos(), angle.sin()
    back_x = -(cos * right - sin * down)
    back_y = -(sin * right + cos * down)
    matrix = torch.stack([cos, -sin, back_x, sin, cos, back_y], dim=-1).view(-1, 2, 3)
    grid = affine_grid(matrix, list(pictures.shape), align_corners=False)
    return grid_sample(pictures, grid, align_corners=False)
