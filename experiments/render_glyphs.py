"""Render the stand-in for notMNIST: the capital letters A to J of openly licensed fonts, 28×28, ink 255 on 0.

    python experiments/render_glyphs.py --out FOLDER [--fonts FOLDER_OF_PACKAGES]

Fonts: `glyph_fonts.txt` names one npm package and version a line. Each holds one family and declares its licence.
Families without Latin capitals, with Chinese, Japanese or Korean sets, of symbols or bars, and families whose capitals
copy those of another are not in the list. The packages are fetched by `npm pack`, fifty at a time, and deleted once
rendered; `--fonts` reads the .tgz files of an earlier `npm pack` instead.

Styles: at most three of a family: its regular weight, its heaviest, and an italic or else its lightest.

Letters: drawn large, cropped to the ink, centred in a square as wide as the longer side, and averaged over areas down
to 28×28. The longer side so fills the frame and proportions are kept. A letter drawn as the font's box for a missing
character counts as blank. What is kept of the letters is told in `glyph_filters`.

Written to FOLDER: `glyphs.npz` with images uint8 [n, 28, 28], labels uint8 [n] (A..J = 0..9), font int16 [n] (index
of the family), font_names [k] and licences [k] (SPDX style); and FONTS.md, the list of families with their licences
and packages.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tyro
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from rich.progress import track

from pyroclaw.errors import InputError
from pyroclaw.experiments.glyph_filters import distinct, inked, probability_of_letter, recognisable

LETTERS = "ABCDEFGHIJ"
SIDE = 28
DRAWN = 8 * SIDE  # font size at which a letter is drawn before it is averaged down
OPEN_LICENCES = ("OFL-1.1", "Apache-2.0", "UFL-1.0")
BATCH = 50
LIST = Path(__file__).with_name("glyph_fonts.txt")

Pixels = NDArray[np.uint8]


class Family(NamedTuple):
    name: str
    licence: str
    package: str
    styles: list[bytes]  # font files


def fetch(packages: list[str], folder: Path) -> None:
    """Put the packages' .tgz files into `folder` with npm; nothing of them is installed or run."""
    command = ["npm", "pack", "--ignore-scripts", "--cache", str(folder / "cache"), "--pack-destination", str(folder)]
    try:
        subprocess.run([*command, *packages], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise InputError("npm was not found: install Node.js, or give fetched packages with --fonts.") from None
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.startswith("npm error")] or ["no message"]
        raise InputError(f"npm could not fetch packages of {LIST.name} ({lines[-1]}): check the network.") from None


def file_of(package: str) -> str:
    """The name `npm pack` gives: @fontsource/abel@5.3.0 becomes fontsource-abel-5.3.0.tgz."""
    return re.sub("[/@]", "-", package.removeprefix("@")) + ".tgz"


def choose(styles: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """At most three of the (weight, "normal" or "italic"): regular, heaviest, and italic or else lightest."""
    upright = sorted(s for s in styles if s[1] == "normal")
    italic = [s for s in styles if s[1] == "italic"]

    def regular(of: list[tuple[int, str]]) -> list[tuple[int, str]]:
        return sorted(of, key=lambda s: abs(s[0] - 400))[:1]

    return list(dict.fromkeys([*regular(upright), *upright[-1:], *regular(italic), *upright[:1]]))[:3]


def read_package(path: Path) -> Family:
    """The family in a package, with the font files of the styles chosen."""
    try:
        with tarfile.open(path) as archive:
            entries = {member.name.removeprefix("package/"): member for member in archive if member.isfile()}

            def content(name: str) -> bytes:
                file = archive.extractfile(entries[name])
                assert file is not None  # only regular files are in `entries`
                return file.read()

            package, about = json.loads(content("package.json")), json.loads(content("metadata.json"))
            found = {}
            for name in entries:
                if match := re.fullmatch(rf"files/{about['id']}-latin-(\d+)-(normal|italic)\.woff2", name):
                    found[int(match[1]), match[2]] = name
            family = Family(
                about["family"],
                package["license"],
                f"{package['name']}@{package['version']}",
                [content(found[style]) for style in choose(list(found))],
            )
    except (OSError, tarfile.TarError, KeyError, ValueError):
        raise InputError(f"{path} is not a readable @fontsource package: fetch it again with npm pack.") from None
    if family.licence not in OPEN_LICENCES:
        raise InputError(f"{path} declares the licence {family.licence}, which is not open: take it off the list.")
    if not family.styles:
        raise InputError(f"{path} has no Latin letters: take it off the list.")
    return family


def families(packages: list[str], fonts: Path | None) -> Iterator[Family]:
    """The families of `packages`, read from `fonts`, or fetched and deleted batch by batch."""
    for start in range(0, len(packages), BATCH):
        batch = packages[start : start + BATCH]
        with tempfile.TemporaryDirectory() as temporary:
            if fonts is None:
                fetch(batch, Path(temporary))
            for package in batch:
                yield read_package((fonts or Path(temporary)) / file_of(package))


def frame(page: Image.Image) -> Pixels:
    """The ink of a page, centred in 28×28 with its longer side filling the frame; zeros if there is none."""
    box = page.getbbox()
    if box is None:
        return np.zeros((SIDE, SIDE), np.uint8)
    ink = page.crop(box)
    side = max(ink.size)
    square = Image.new("L", (side, side))
    square.paste(ink, ((side - ink.width) // 2, (side - ink.height) // 2))
    return np.asarray(square.resize((SIDE, SIDE), Image.Resampling.BOX))


def draw(font: ImageFont.FreeTypeFont, character: str) -> Image.Image:
    left, top, right, bottom = font.getbbox(character)
    page = Image.new("L", (int(right - left) + 2, int(bottom - top) + 2))
    ImageDraw.Draw(page).text((1 - left, 1 - top), character, fill=255, font=font)
    return page


def render(style: bytes) -> Pixels:
    """[10, 28, 28]: the letters A to J of a font file; a letter the font lacks is blank."""
    font = ImageFont.truetype(BytesIO(style), DRAWN, layout_engine=ImageFont.Layout.BASIC)
    missing = frame(draw(font, "\uffff"))
    glyphs = np.stack([frame(draw(font, letter)) for letter in LETTERS])
    glyphs[(glyphs == missing).all(axis=(1, 2))] = 0
    return glyphs


def collect(rendered: list[tuple[Family, list[Pixels]]]) -> tuple[dict[str, np.ndarray], list[Family]]:
    """The arrays of glyphs.npz from the families' letters by style, filtered, and the families that remain."""
    styles = [(number, glyphs) for number, (_, of) in enumerate(rendered) for glyphs in of]
    images = np.concatenate([glyphs for _, glyphs in styles])
    style = np.repeat(np.arange(len(styles)), len(LETTERS))
    font = np.repeat([number for number, _ in styles], len(LETTERS))
    labels = np.tile(np.arange(len(LETTERS), dtype=np.uint8), len(styles))

    keep = np.flatnonzero(inked(images, style))
    keep = keep[distinct(images[keep], labels[keep])]
    probability = probability_of_letter(images[keep], labels[keep], font[keep])
    keep = keep[recognisable(probability, style[keep])]

    kept, index = np.unique(font[keep], return_inverse=True)
    remaining = [rendered[number][0] for number in kept]
    arrays = {
        "images": images[keep],
        "labels": labels[keep],
        "font": index.astype(np.int16),
        "font_names": np.array([family.name for family in remaining]),
        "licences": np.array([family.licence for family in remaining]),
    }
    return arrays, remaining


def describe(remaining: list[Family], count: int) -> str:
    """FONTS.md."""
    rows = [f"| {family.name} | {family.licence} | {family.package} |" for family in remaining]
    return "\n".join(
        [
            "# Fonts of the glyphs",
            "",
            f"`glyphs.npz` holds {count:,} images of the letters A to J of {len(rows):,} font families, rendered by",
            "`experiments/render_glyphs.py`. No font file is included. Each family's copyright notice and licence text",
            "are in the npm package named beside it.",
            "",
            "| family | licence | package |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def main(out: Path, fonts: Path | None = None) -> None:
    """Render the glyphs.

    Args:
        out: folder for glyphs.npz and FONTS.md.
        fonts: folder of packages fetched before by `npm pack`; without it they are fetched now.
    """
    packages = LIST.read_text().split()
    progress = track(families(packages, fonts), "Rendering", total=len(packages))
    arrays, remaining = collect([(family, [render(style) for style in family.styles]) for family in progress])
    out.mkdir(parents=True, exist_ok=True)
    buffer = BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    replace(out / "glyphs.npz", buffer.getvalue())
    replace(out / "FONTS.md", describe(remaining, len(arrays["images"])).encode())
    counts = ", ".join(f"{a} {n}" for a, n in zip(LETTERS, np.bincount(arrays["labels"], minlength=10), strict=True))
    print(f"{len(arrays['images'])} images of {len(remaining)} families ({counts}), {buffer.tell() / 1e6:.1f} MB")


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
