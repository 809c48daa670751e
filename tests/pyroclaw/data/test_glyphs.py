"""The committed glyphs: what every reader of them may rely on."""

from pathlib import Path

import numpy as np
import pytest

import pyroclaw.data

FOLDER = Path(pyroclaw.data.__file__).parent / "standin"


@pytest.fixture(scope="module")
def glyphs():
    with np.load(FOLDER / "glyphs.npz", allow_pickle=False) as file:
        return dict(file)


def test_keys_types_and_sizes(glyphs):
    n, k = len(glyphs["images"]), len(glyphs["font_names"])
    assert {key: (array.dtype.kind, array.shape) for key, array in glyphs.items()} == {
        "images": ("u", (n, 28, 28)),
        "labels": ("u", (n,)),
        "font": ("i", (n,)),
        "font_names": ("U", (k,)),
        "licences": ("U", (k,)),
    }
    assert [glyphs[key].dtype.itemsize for key in ("images", "labels", "font")] == [1, 1, 2]
    assert 15_000 <= n <= 22_000
    assert (FOLDER / "glyphs.npz").stat().st_size <= 8_000_000


def test_at_least_800_fonts_each_with_images_and_several_weights_of_many(glyphs):
    names = glyphs["font_names"]
    assert len(names) >= 800 and len(set(names)) == len(names)
    assert np.array_equal(np.unique(glyphs["font"]), np.arange(len(names)))
    assert (np.bincount(glyphs["font"]) > 10).sum() > 400


def test_every_licence_is_open(glyphs):
    assert set(glyphs["licences"]) <= {"OFL-1.1", "Apache-2.0", "UFL-1.0"}


def test_letters_are_balanced(glyphs):
    counts = np.bincount(glyphs["labels"])
    assert len(counts) == 10
    assert counts.min() >= 0.85 * counts.max()


def test_no_two_images_are_equal(glyphs):
    images = glyphs["images"]
    assert len({image.tobytes() for image in images}) == len(images)


def test_no_family_copies_another(glyphs):
    """Mean distance over the letters, between the first image each family has of a letter; a pixel counts 0..1."""
    images, labels, font = (glyphs[key] for key in ("images", "labels", "font"))
    total = np.zeros((font.max() + 1, font.max() + 1))
    letters = np.zeros_like(total)
    for letter in range(10):
        of, first = np.unique(font[labels == letter], return_index=True)
        pixels = images[labels == letter][first].reshape(len(first), -1) / 255
        squares = (pixels**2).sum(axis=1)
        total[np.ix_(of, of)] += np.sqrt(np.maximum(squares[:, None] + squares - 2 * pixels @ pixels.T, 0))
        letters[np.ix_(of, of)] += 1
    distance = total / np.maximum(letters, 1)
    pairs = np.triu_indices_from(distance, 1)
    assert distance[pairs][letters[pairs] >= 8].min() > 1.5


def test_glyphs_fill_the_frame_and_are_centred(glyphs):
    extents = []
    for axis in (1, 2):
        ink = (glyphs["images"] > 0).any(axis=axis)
        before, after = ink.argmax(axis=1), ink[:, ::-1].argmax(axis=1)
        assert np.abs(before - after).max() <= 1
        extents.append(28 - before - after)
    longer = np.maximum(*extents)
    assert longer.min() >= 26
    assert (longer == 28).mean() > 0.99


def test_ink_is_white_on_black(glyphs):
    ink = glyphs["images"].mean(axis=(1, 2)) / 255
    assert 0.2 < ink.mean() < 0.4
    assert ink.min() > 0.01 and ink.max() < 0.97


def test_letters_can_be_told_from_one_another(glyphs):
    """The nearest letter mean is right far oftener than one time in ten, in families it was not computed from."""
    images, labels, odd = glyphs["images"].reshape(-1, 784) / 255, glyphs["labels"], glyphs["font"] % 2 == 1
    means = np.stack([images[odd & (labels == letter)].mean(axis=0) for letter in range(10)])
    nearest = ((means**2).sum(axis=1) - 2 * images[~odd] @ means.T).argmin(axis=1)
    assert 0.7 < (nearest == labels[~odd]).mean() < 0.95


def test_fonts_md_lists_every_family_with_its_licence(glyphs):
    text = (FOLDER / "FONTS.md").read_text()
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines() if row.startswith("| ")]
    assert rows[0] == ["family", "licence", "package"]
    pairs = zip(glyphs["font_names"], glyphs["licences"], strict=True)
    assert [(name, licence) for name, licence, _ in rows[1:]] == [(str(name), str(licence)) for name, licence in pairs]
    assert f"{len(glyphs['images']):,} images" in text
