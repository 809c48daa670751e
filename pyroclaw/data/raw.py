"""Raw formats made of plain bytes: MNIST's idx files and CIFAR-100.

idx: the bytes 0, 0, 8 (unsigned byte), the number of dimensions d, then d big-endian 32-bit sizes, then the data.
CIFAR-100 binary: records of 3,074 bytes: coarse label, fine label, then 32×32 red, green and blue values by plane.
CIFAR-100 python: pickles, which only torchvision opens, and only after each has the checksum torchvision knows.
"""

import gzip
import math
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path

import numpy as np

from pyroclaw.data.check import unusable

IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CIFAR_RECORD = 2 + 3 * 32 * 32
CIFAR_PARTS = ("train.bin", "test.bin")
CIFAR_NAMES = "fine_label_names.txt"
LIMIT = 4 * 1024**3  # bytes that one file or archive member may declare


def idx_files(folder: Path) -> list[Path] | None:
    """The four files of MNIST or Fashion-MNIST in `folder`, each plain or .gz; None unless all are there."""
    found = []
    for name in IDX_FILES:
        candidates = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
        if not candidates:
            return None
        found.append(candidates[0])
    return found


def read_idx(path: Path, name: str) -> np.ndarray:
    """The array of unsigned bytes in one idx file."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            magic = stream.read(4)
            if magic[:3] != b"\0\0\x08" or len(magic) < 4 or not 1 <= magic[3] <= 3:
                raise ValueError("its first four bytes are not those of an idx file of unsigned bytes")
            shape = tuple(np.frombuffer(stream.read(4 * magic[3]), ">u4").tolist())
            if len(shape) != magic[3] or (size := math.prod(shape)) > LIMIT:
                raise ValueError("its header is cut short or declares an impossible size")
            content = bytearray(stream.read(size + 1))  # one more than wanted, to notice what is too long
            if len(content) != size:
                raise ValueError(f"it does not hold the {size} bytes its header declares")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise unusable(path, str(error), name) from error
    return np.frombuffer(content, np.uint8).reshape(shape)


def read_idx_folder(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Training and test part of MNIST or Fashion-MNIST, one after the other."""
    files = idx_files(folder)
    assert files is not None
    train, train_labels, test, test_labels = (read_idx(path, name) for path in files)
    for path, images, labels in ((files[0], train, train_labels), (files[2], test, test_labels)):
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise unusable(path, f"it holds {len(images)} images where its label file has {len(labels)} labels", name)
    if train.shape[1:] != test.shape[1:]:
        raise unusable(files[2], "its images are not of the size of the training images", name)
    return {
        "images": np.concatenate([train, test]),
        "labels": np.concatenate([train_labels, test_labels]),
        "official_test": np.repeat([False, True], [len(train), len(test)]),
    }


def read_cifar_binary(path: Path) -> dict[str, np.ndarray]:
    """CIFAR-100 from `cifar-100-binary`, a folder or the .tar.gz as downloaded: no pickle is involved."""
    try:
        parts, names = _cifar_folder(path) if path.is_dir() else _cifar_archive(path)
    except (OSError, EOFError, KeyError, tarfile.TarError, zlib.error) as error:
        raise unusable(path, f"it is cut short or lacks a part ({error})", "cifar100") from error
    for part, content in parts.items():
        if not content or len(content) % CIFAR_RECORD:
            raise unusable(path, f"its {part} is no whole number of {CIFAR_RECORD}-byte records", "cifar100")
    records = np.frombuffer(parts["train.bin"] + parts["test.bin"], np.uint8).reshape(-1, CIFAR_RECORD)
    test_images = len(parts["test.bin"]) // CIFAR_RECORD
    return {
        "images": np.ascontiguousarray(records[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)),
        "labels": records[:, 1].copy(),
        "official_test": np.repeat([False, True], [len(records) - test_images, test_images]),
        "class_names": np.array(names.decode("utf-8", "replace").split(), dtype=str),
    }


def _cifar_folder(folder: Path) -> tuple[dict[str, bytes], bytes]:
    return {part: (folder / part).read_bytes() for part in CIFAR_PARTS}, (folder / CIFAR_NAMES).read_bytes()


def _cifar_archive(path: Path) -> tuple[dict[str, bytes], bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(path) as archive:  # members are read as streams; nothing is unpacked to disk
        for member in archive:
            base = Path(member.name).name
            wanted = base in (*CIFAR_PARTS, CIFAR_NAMES) and member.isfile() and member.size <= LIMIT
            if wanted and (stream := archive.extractfile(member)):
                found[base] = stream.read()
    return {part: found[part] for part in CIFAR_PARTS}, found[CIFAR_NAMES]


def read_cifar_python(path: Path) -> dict[str, np.ndarray]:
    """CIFAR-100 from `cifar-100-python`, a folder or the .tar.gz as downloaded, by way of torchvision's checksums."""
    from torchvision.datasets import CIFAR100  # imported here: slow, and needed for this one format only
    from torchvision.datasets.utils import check_integrity

    try:
        if path.is_dir():
            parts = [CIFAR100(str(path.parent), train=train) for train in (True, False)]
        else:
            if not check_integrity(str(path), CIFAR100.tgz_md5):
                raise RuntimeError("the archive does not have the published checksum")
            with tempfile.TemporaryDirectory() as folder:
                shutil.copyfile(path, Path(folder) / CIFAR100.filename)
                parts = [CIFAR100(folder, train=train, download=True) for train in (True, False)]
    except (OSError, RuntimeError) as error:
        raise unusable(path, f"torchvision refuses it ({error})", "cifar100") from error
    return {
        "images": np.concatenate([part.data for part in parts]),
        "labels": np.concatenate([part.targets for part in parts]),
        "official_test": np.repeat([False, True], [len(part.data) for part in parts]),
        "class_names": np.array(parts[0].classes),
    }
