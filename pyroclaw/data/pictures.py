"""Raw formats made of PNG files: Omniglot and notMNIST, as folders or as the archives that are downloaded.

Omniglot: `<part>/<alphabet>/character<NN>/<id>_<drawer>.png`, 105×105, black ink on white; the parts are
images_background and images_evaluation. Prepared by area averaging to 28×28 with ink = 255.
notMNIST: `<letter>/<font>.png`, 28×28; the public archive contains a few files that are no images.
Archives are read member by member as streams: nothing is unpacked to disk, so no path in them can do harm.
"""

import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image, ImageOps

from pyroclaw.data.check import unusable

LETTERS = "ABCDEFGHIJ"
LARGEST = 1024**2  # bytes of one PNG file; the true ones have under 2 kB


def _files(path: Path) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """The last three parts of the name, and the content, of every PNG file in a folder, a zip or a tar archive."""
    if path.is_dir():
        for file in path.rglob("*.png"):
            yield file.parts[-3:], file.read_bytes() if file.stat().st_size <= LARGEST else b""
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.filename.endswith(".png"):
                    content = archive.read(info) if info.file_size <= LARGEST else b""
                    yield PurePosixPath(info.filename).parts[-3:], content
    else:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(".png"):
                    stream = archive.extractfile(member) if member.size <= LARGEST else None
                    yield PurePosixPath(member.name).parts[-3:], stream.read() if stream else b""


def _safely(path: Path, name: str) -> Iterator[tuple[tuple[str, ...], bytes]]:
    try:
        yield from _files(path)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, tarfile.TarError, zlib.error) as error:
        raise unusable(path, f"it is cut short or no archive ({error})", name) from error


def _grey(content: bytes, side: int) -> Image.Image | None:
    """The image in a PNG file, or None where there is none of that size."""
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            return image.convert("L") if image.size == (side, side) else None
    except Exception:  # a damaged PNG can raise almost anything from pillow and zlib; it is counted by the caller
        return None


def read_omniglot(parts: list[Path]) -> dict[str, np.ndarray]:
    """All characters of the given parts; alphabets are numbered part by part, each in the order of their names."""
    pixels, rows = bytearray(), []
    alphabets: list[str] = []
    for path in parts:
        found = {}
        for (*_, alphabet, character, file), content in _safely(path, "omniglot"):
            image = _grey(content, 105)
            drawer = file.removesuffix(".png").rpartition("_")[2]
            if image is None or not drawer.isdecimal():
                raise unusable(path, f"{alphabet}/{character}/{file} is no 105×105 PNG of Omniglot", "omniglot")
            found[alphabet, character, int(drawer)] = ImageOps.invert(image).resize((28, 28), Image.Resampling.BOX)
        names = sorted({alphabet for alphabet, _, _ in found})
        characters = {name: sorted({c for alphabet, c, _ in found if alphabet == name}) for name in names}
        for alphabet, character, drawer_number in sorted(found):
            pixels += found[alphabet, character, drawer_number].tobytes()
            place = len(alphabets) + names.index(alphabet)
            rows.append((place, characters[alphabet].index(character), drawer_number - 1))
        alphabets += names
    numbers = np.array(rows, np.int64).reshape(-1, 3)
    return {
        "images": np.frombuffer(pixels, np.uint8).reshape(-1, 28, 28),
        "labels": numbers[:, 1].copy(),
        "alphabet": numbers[:, 0].copy(),
        "drawer": numbers[:, 2].copy(),
        "alphabet_names": np.array(alphabets, dtype=str),
    }


def read_notmnist(path: Path, log: Callable[[str], None]) -> dict[str, np.ndarray]:
    """All letters, in the order of letter and file name; files that are no 28×28 image are counted and skipped.

    A file's name is that of its font, the same for all ten letters: it becomes the number `font`.
    """
    pixels, letters, fonts, unreadable = bytearray(), [], [], 0
    for (*_, letter, file), content in _safely(path, "notmnist"):
        if letter not in LETTERS:
            continue
        image = _grey(content, 28)
        if image is None:
            unreadable += 1
            continue
        pixels += image.tobytes()
        letters.append(LETTERS.index(letter))
        fonts.append(file)
    if unreadable:
        log(f"notmnist: skipped {unreadable} unreadable images in {path.name}")
    labels = np.array(letters, np.int64)
    font = np.unique(np.array(fonts, dtype=str), return_inverse=True)[1]
    order = np.lexsort((font, labels))  # the same whatever the order of the archive
    return {
        "images": np.frombuffer(pixels, np.uint8).reshape(-1, 28, 28)[order],
        "labels": labels[order],
        "font": font[order],
        "class_names": np.array(list(LETTERS)),
    }
