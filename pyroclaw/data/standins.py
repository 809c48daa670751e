"""Small embedded data sets that keep the benchmarks running where there is no network, each under its own name.

glyphs (for notMNIST): letters A to J rendered from openly licensed fonts, listed in `standin/FONTS.md`.
digits (for MNIST): scikit-learn's 1,797 handwritten digits, 8×8 with values 0..16: times 255/16, enlarged to 28×28 by
bilinear interpolation, rounded.
Results on them are not results on the sets they stand in for; their `source` line says so.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from pyroclaw.data.dataset import DataSet
from pyroclaw.data.npz import member_shapes, read_npz

STANDIN_FOR = {"notmnist": "glyphs", "mnist": "digits"}
GLYPHS = Path(__file__).parent / "standin" / "glyphs.npz"


def standin(name: str) -> DataSet:
    """The stand-in called `name`: glyphs or digits."""
    return _digits() if name == "digits" else _glyphs()


def size(name: str) -> int:
    """The number of images of a stand-in, without reading them."""
    return 1797 if name == "digits" else member_shapes(GLYPHS)["images"][0]


def _glyphs() -> DataSet:
    data = read_npz(GLYPHS, "glyphs", source="stand-in", standin=True)
    fonts = len(data.extras["font_names"])
    return replace(data, source=f"stand-in: glyphs A to J rendered from {fonts} open fonts (not notMNIST)")


def _digits() -> DataSet:
    from sklearn.datasets import load_digits  # imported here: slow, and needed for this stand-in only

    small = load_digits()
    scaled = (small.images * (255 / 16)).astype(np.float32)
    large = [np.asarray(Image.fromarray(image).resize((28, 28), Image.Resampling.BILINEAR)) for image in scaled]
    return DataSet(
        "digits",
        np.rint(large).astype(np.uint8),
        small.target.astype(np.int64),
        f"stand-in: scikit-learn's {len(large)} digits, 8×8 enlarged to 28×28 (not MNIST)",
        standin=True,
    )
