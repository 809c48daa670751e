"""The renderer on drawn shapes, on the fonts that matplotlib ships, and end to end on packages made of them."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from fontTools import subset
from fontTools.ttLib import TTFont
from PIL import Image, ImageDraw

from pyroclaw.errors import InputError
from pyroclaw.experiments import render_glyphs
from pyroclaw.experiments.glyph_filters import distinct, inked, probability_of_letter, recognisable

SHIPPED = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
FAMILIES = {
    "sans": {"400-normal": "DejaVuSans", "700-normal": "DejaVuSans-Bold", "400-italic": "DejaVuSans-Oblique"},
    "mono": {"400-normal": "DejaVuSansMono", "700-normal": "DejaVuSansMono-Bold"},
    "serif": {"400-normal": "DejaVuSerif", "700-normal": "DejaVuSerif-Bold", "400-italic": "DejaVuSerif-Italic"},
    "stix": {"400-normal": "STIXGeneral", "700-normal": "STIXGeneralBol", "400-italic": "STIXGeneralItalic"},
    "modern": {"400-normal": "cmr10", "400-italic": "cmti10"},
    "typewriter": {"400-normal": "cmtt10"},
}


def woff2(name: str, characters: str = "ABCDEFGHIJ") -> bytes:
    """A font of matplotlib's, reduced to `characters` (and its box for missing ones), as the packages hold it."""
    font = TTFont(SHIPPED / f"{name}.ttf")
    options = subset.Options(notdef_outline=True, layout_features=[], hinting=False, drop_tables=["FFTM"])
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=characters)
    subsetter.subset(font)
    font.flavor = "woff2"
    buffer = io.BytesIO()
    font.save(buffer)
    return buffer.getvalue()


def write_package(folder: Path, name: str, files: dict[str, bytes], licence: str = "OFL-1.1") -> str:
    about = {"id": name, "family": name.title()}
    package = {"name": f"@fontsource/{name}", "version": "1.0.0", "license": licence}
    content = {"package.json": json.dumps(package).encode(), "metadata.json": json.dumps(about).encode()}
    content |= {f"files/{name}-{key}.woff2": file for key, file in files.items()}
    with tarfile.open(folder / f"fontsource-{name}-1.0.0.tgz", "w:gz") as archive:
        for path, data in content.items():
            member = tarfile.TarInfo(f"package/{path}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return f"@fontsource/{name}@1.0.0"


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder of packages: real families, and one whose file draws the missing-character box for every letter."""
    folder = tmp_path_factory.mktemp("packages")
    listed = [
        write_package(folder, family, {f"latin-{style}": woff2(file) for style, file in styles.items()})
        for family, styles in FAMILIES.items()
    ]
    listed.append(write_package(folder, "boxes", {"latin-400-normal": woff2("DejaVuSans", "xyz")}))
    (folder / "list.txt").write_text("\n".join(listed))
    return folder


@pytest.fixture
def listed(packages, monkeypatch):
    monkeypatch.setattr(render_glyphs, "LIST", packages / "list.txt")
    return packages


def page(draw):
    image = Image.new("L", (400, 300))
    draw(ImageDraw.Draw(image))
    return image


def test_frame_centres_and_keeps_proportions():
    glyph = render_glyphs.frame(page(lambda d: d.rectangle((10, 200, 149, 269), fill=255)))  # 140 × 70
    assert glyph.dtype == np.uint8 and glyph.shape == (28, 28)
    assert (glyph[7:21] == 255).all() and not glyph[:7].any() and not glyph[21:].any()


def test_frame_averages_areas():
    checks = np.indices((56, 56)).sum(axis=0) % 2 * 255  # one pixel of ink beside one without, everywhere
    glyph = render_glyphs.frame(Image.fromarray(checks.astype(np.uint8)))
    assert np.abs(glyph.astype(int) - 127.5).max() <= 1


def test_frame_of_an_empty_page_is_blank():
    assert not render_glyphs.frame(page(lambda d: None)).any()


def test_at_most_three_styles_are_chosen():
    upright = [(weight, "normal") for weight in (300, 400, 500, 800)]
    italic = [(weight, "italic") for weight in (300, 400, 800)]
    assert render_glyphs.choose(italic + upright) == [(400, "normal"), (800, "normal"), (400, "italic")]
    assert render_glyphs.choose(upright) == [(400, "normal"), (800, "normal"), (300, "normal")]
    assert render_glyphs.choose([(400, "normal")]) == [(400, "normal")]
    assert render_glyphs.choose([(400, "italic")]) == [(400, "italic")]


def test_rendered_letters_look_like_the_letters():
    glyphs = render_glyphs.render(woff2("DejaVuSans")) / 255
    assert glyphs.shape == (10, 28, 28)
    a, h, i = glyphs[0], glyphs[7], glyphs[8]
    assert np.abs(a - a[:, ::-1]).mean() < 0.02 and a[0, 10:18].max() > 0.5 and a[-1, 13:15].max() < 0.1
    assert np.abs(h - h[::-1]).mean() < 0.1 and h[:, 13:15].sum(axis=0).max() < 6
    assert (i[:, 13:15] > 0.8).all() and not i[:, :10].any()


def test_a_letter_the_font_lacks_is_blank():
    glyphs = render_glyphs.render(woff2("DejaVuSans", "ABCDE"))
    assert glyphs[:5].any(axis=(1, 2)).all() and not glyphs[5:].any()


def test_blank_dotted_and_solid_styles_are_dropped():
    ink = np.zeros((40, 28, 28), np.uint8)
    ink[10:20, ::7, ::7] = 255  # dots
    ink[20:30] = 255
    ink[30:40, 5:10] = 255
    ink[35] = 0  # one letter missing of a good style
    assert np.flatnonzero(inked(ink, np.repeat(np.arange(4), 10))).tolist() == [30, 31, 32, 33, 34, 36, 37, 38, 39]


def test_copies_are_dropped_and_pictures_of_several_letters_altogether():
    images = np.zeros((7, 28, 28), np.uint8)
    for number, value in enumerate([1, 2, 1, 3, 3, 4, 1]):
        images[number, 0, 0] = value
    labels = np.array([0, 0, 0, 1, 2, 1, 0], np.uint8)
    assert distinct(images, labels).tolist() == [True, True, False, False, False, True, False]


def test_a_classifier_without_the_family_finds_misplaced_letters_improbable():
    clean = np.random.randint(0, 60, (200, 28, 28)).astype(np.uint8)
    labels, font = np.tile(np.arange(10, dtype=np.uint8), 20), np.repeat(np.arange(20, dtype=np.int16), 10)
    for image, label in zip(clean, labels, strict=True):
        image[2 * label : 2 * label + 4] = 255
    clean[190:] = np.roll(clean[190:], 1, axis=0)  # the last family has every letter in another's place
    clean[35] = clean[36]  # and one family a single letter
    probability = probability_of_letter(clean, labels, font)
    assert probability[190:].max() < 0.2 and probability[35] < 0.2
    assert np.delete(probability[:190], 35).min() > 0.5


def test_a_style_goes_whole_when_most_of_it_cannot_be_told():
    probability = np.array([0.9, 0.9, 0.05, 0.01, 0.9, 0.01, 0.01, 0.05])
    keep = recognisable(probability, np.repeat([0, 1], 4))
    assert keep.tolist() == [True, True, True, False, False, False, False, False]


def test_everything_from_packages_to_files(listed, tmp_path, capsys):
    render_glyphs.main(tmp_path / "new", fonts=listed)
    with np.load(tmp_path / "new" / "glyphs.npz", allow_pickle=False) as file:
        glyphs = dict(file)
    assert glyphs["font_names"].tolist() == [family.title() for family in FAMILIES]  # without the boxes
    assert set(glyphs["licences"]) == {"OFL-1.1"}
    assert len(glyphs["images"]) > 120 and (np.bincount(glyphs["labels"]) >= 10).all()
    assert "| Sans | OFL-1.1 | @fontsource/sans@1.0.0 |" in (tmp_path / "new" / "FONTS.md").read_text()
    assert f"{len(glyphs['images'])} images of {len(FAMILIES)} families" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["FONTS.md", "glyphs.npz"]


def fake_npm(folder: Path, script: str, monkeypatch) -> None:
    program = folder / "npm"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_packages_are_fetched_in_batches_and_deleted(packages, tmp_path, monkeypatch):
    fake_npm(tmp_path, f'echo "$6" >> {tmp_path}/folders; cp {packages}/*.tgz "$6"', monkeypatch)
    monkeypatch.setattr(render_glyphs, "BATCH", 4)
    listed = (packages / "list.txt").read_text().split()
    assert [family.package for family in render_glyphs.families(listed, None)] == listed
    folders = (tmp_path / "folders").read_text().split()
    assert len(folders) == 2 and not any(Path(folder).exists() for folder in folders)


def test_npm_failing_or_missing_is_said_in_one_sentence(tmp_path, monkeypatch):
    fake_npm(tmp_path, "echo 'npm error network is down' >&2; exit 1", monkeypatch)
    with pytest.raises(InputError, match="npm error network is down"):
        render_glyphs.fetch(["@fontsource/sans@1.0.0"], tmp_path)
    (tmp_path / "npm").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="npm was not found"):
        render_glyphs.fetch(["@fontsource/sans@1.0.0"], tmp_path)


def test_unfit_packages_are_named(tmp_path):
    broken = tmp_path / "broken.tgz"
    broken.write_bytes(b"not an archive")
    with pytest.raises(InputError, match=r"broken\.tgz is not a readable"):
        render_glyphs.read_package(broken)
    write_package(tmp_path, "closed", {"latin-400-normal": b"font"}, licence="UNLICENSED")
    with pytest.raises(InputError, match="licence UNLICENSED"):
        render_glyphs.read_package(tmp_path / "fontsource-closed-1.0.0.tgz")
    write_package(tmp_path, "greek", {"greek-400-normal": b"font"})
    with pytest.raises(InputError, match="no Latin letters"):
        render_glyphs.read_package(tmp_path / "fontsource-greek-1.0.0.tgz")


def test_command_line_exits_with_2_and_one_line(tmp_path):
    command = [sys.executable, render_glyphs.__file__, "--out", str(tmp_path / "out"), "--fonts", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.strip().endswith("fetch it again with npm pack.")
    assert not (tmp_path / "out").exists()


def test_the_list_names_each_package_once_with_its_version():
    lines = render_glyphs.LIST.read_text().splitlines()
    named = [re.fullmatch(r"(@fontsource/[a-z0-9-]+)@\d+\.\d+\.\d+", line) for line in lines]
    assert len(lines) >= 800 and len({match and match[1] for match in named} - {None}) == len(lines)
